package memstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What the store keeps inside: waiters that are gone must leave nothing, and a wall clock may be set back.

func entryIn(shard byte) retrysafe.Entry {
	e := retrysafe.Entry{Rev: retrysafe.NewRev(), State: retrysafe.InFlight, Scope: "tenant"}
	rev := retrysafe.NewRev()
	copy(e.ID[1:], rev[:])
	e.ID[0] = shard
	return e
}

func (s *Store) waiters() (n int) {
	for i := range s.shards {
		n += s.shards[i].waiting.Len()
	}
	return n
}

// TestWaitersLeaveNothing lets 10,000 callers wait for 1,000 entries. Some hang up, some entries are swapped,
// some deleted, some touched by nobody.
func TestWaitersLeaveNothing(t *testing.T) {
	const entries, callers = 1000, 10_000
	s := New(nil)
	standing := make([]retrysafe.Entry, entries)
	for i := range standing {
		standing[i] = entryIn(byte(i))
		if rep, err := s.Create(t.Context(), standing[i]); err != nil || !rep.OK {
			t.Fatalf("create: OK %v, %v", rep.OK, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			e := standing[i%entries]
			limited, stop := context.WithTimeout(ctx, rand.N(5*time.Millisecond))
			defer stop()
			if i/entries%2 == 0 {
				limited = ctx
			}
			if err := s.Wait(limited, e.ID, e.Rev); err != nil && limited.Err() == nil {
				t.Errorf("wait: %v", err)
			}
		})
	}
	for i, e := range standing {
		var rep retrysafe.Reply
		var err error
		switch old := e.Rev; i % 3 {
		case 0:
			e.Rev = retrysafe.NewRev()
			rep, err = s.Swap(t.Context(), old, e)
		case 1:
			rep, err = s.Delete(t.Context(), e.ID, old)
		default:
			continue
		}
		if err != nil || !rep.OK {
			t.Fatalf("write under waiters: OK %v, %v", rep.OK, err)
		}
	}
	cancel()
	wg.Wait()
	if n := s.waiters(); n != 0 {
		t.Errorf("%d entries are waited for when nobody waits", n)
	}
}

// TestLastWaiterOfManyLeaves: while one waits, the others' leaving must not take it off.
func TestLastWaiterOfManyLeaves(t *testing.T) {
	s := New(nil)
	e := entryIn(0)
	if _, err := s.Create(t.Context(), e); err != nil {
		t.Fatalf("create: %v", err)
	}
	stays := make(chan error, 1)
	go func() { stays <- s.Wait(t.Context(), e.ID, e.Rev) }()
	for range 100 {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Wait(ended, e.ID, e.Rev); err == nil {
			t.Fatal("wait with an ended context: no error")
		}
	}
	if rep, err := s.Delete(t.Context(), e.ID, e.Rev); err != nil || !rep.OK {
		t.Fatalf("delete: OK %v, %v", rep.OK, err)
	}
	if err := <-stays; err != nil {
		t.Errorf("wait: %v", err)
	}
	if n := s.waiters(); n != 0 {
		t.Errorf("%d entries are waited for when nobody waits", n)
	}
}

// TestNoClockIsBehindAStamp has one shard's stamps an hour ahead, as after the wall clock was set back.
func TestNoClockIsBehindAStamp(t *testing.T) {
	for _, shard := range []byte{0, 31, shards - 1} {
		s := New(nil)
		ahead := time.Now().Truncate(time.Microsecond).Add(time.Hour)
		s.shards[shard].last = ahead
		e, others := entryIn(shard), entryIn((shard+1)%shards)
		rep, err := s.Create(t.Context(), e)
		if err != nil || !rep.Entry.Stamp.After(ahead) || rep.Now.Before(rep.Entry.Stamp) {
			t.Fatalf("create is stamped %v at %v, %v; want later than %v", rep.Entry.Stamp, rep.Now, err, ahead)
		}
		stamp := rep.Entry.Stamp
		if _, err := s.Create(t.Context(), others); err != nil {
			t.Fatalf("create: %v", err)
		}
		if _, now, err := s.Get(t.Context(), e.ID, others.ID); err != nil || now.Before(stamp) {
			t.Errorf("get of shards %d and %d: clock %v, stamp %v, %v", shard, others.ID[0], now, stamp, err)
		}
		page, err := s.List(t.Context(), retrysafe.Query{Scope: e.Scope})
		if err != nil || len(page.Entries) != 2 || page.Now.Before(stamp) {
			t.Errorf("list of an entry in shard %d: %d entries, clock %v, stamp %v, %v", shard, len(page.Entries), page.Now, stamp, err)
		}
		rep, err = s.Delete(t.Context(), e.ID, e.Rev)
		if err != nil || rep.Now.Before(stamp) {
			t.Errorf("delete: clock %v, stamp %v, %v", rep.Now, stamp, err)
		}
		if rep, err = s.Create(t.Context(), e); err != nil || !rep.Entry.Stamp.After(stamp) {
			t.Errorf("create after a delete is stamped %v, before %v, %v", rep.Entry.Stamp, stamp, err)
		}
	}
}
