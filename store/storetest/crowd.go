package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What holds when many callers come at once.

func manyCreators(ctx context.Context, t *trial) {
	shared := t.entry()
	n := t.many(10)
	var winner atomic.Pointer[retrysafe.Entry]
	seen := make([]retrysafe.Rev, n)
	t.each(n, func(i int) error {
		e := t.next(shared)
		rep, err := t.side(i).Create(ctx, e)
		switch {
		case err != nil:
			return fmt.Errorf("create: %w", err)
		case !rep.Found:
			return fmt.Errorf("create: answer finds nothing")
		case rep.OK && !winner.CompareAndSwap(nil, &e):
			return fmt.Errorf("create: a second caller is told OK")
		}
		seen[i] = rep.Entry.Rev
		return nil
	})
	won := winner.Load()
	if won == nil {
		t.Fatalf("%d creators: none is told OK", n)
	}
	if i := slices.IndexFunc(seen, func(r retrysafe.Rev) bool { return r != won.Rev }); i >= 0 {
		t.Fatalf("%d creators: one is shown %x, the winner wrote %x", n, seen[i], won.Rev)
	}
	t.stands(ctx, *won)
}

func manyEnders(ctx context.Context, t *trial) {
	const callers = 60
	for range 10 {
		old := t.create(ctx, t.entry())
		var swapped, deleted atomic.Int64
		t.each(callers, func(i int) error {
			w, count := sending{verb: swap, old: old.Rev, e: t.next(old)}, &swapped
			if i%3 == 0 {
				w, count = sending{verb: remove, old: old.Rev, e: old}, &deleted
			}
			rep, err := w.to(ctx, t.side(i))
			if err == nil && rep.OK {
				count.Add(1)
			}
			return err
		})
		_, stands, _ := t.get(ctx, t.store, old.ID)
		if s, d := swapped.Load(), deleted.Load(); s+min(d, 1) != 1 || d > 0 && d != callers/3 || stands != (s == 1) {
			t.Fatalf("swaps and deletes of one Rev: %d swaps and %d of %d deletes are OK, an entry stands after them: %v", s, d, callers/3, stands)
		}
	}
}

// manyWriters lets every caller leave its number in one of few bodies. A swap that was refused may have taken
// place and been written over before its answer came; only the body tells.
func manyWriters(ctx context.Context, t *trial) {
	n, ids := t.o.Load, t.many(10)
	shared := make([]retrysafe.Entry, ids)
	for i := range shared {
		shared[i] = t.entry()
	}
	t.each(n, func(i int) error { return t.leave(ctx, t.side(i/ids), shared[i%ids], uint32(i)) })
	for i, e := range shared {
		got, _, _ := t.get(ctx, t.store, e.ID)
		var want []uint32
		for number := i; number < n; number += ids {
			want = append(want, uint32(number))
		}
		if left := numbers(got.Body); !slices.Equal(left, want) {
			t.Fatalf("writers left %v under one ID, want %v", left, want)
		}
	}
}

// leave adds number to the body that stands under the ID of e, once.
func (t *trial) leave(ctx context.Context, s retrysafe.Store, e retrysafe.Entry, number uint32) error {
	e.Rev, e.Body = retrysafe.NewRev(), binary.BigEndian.AppendUint32(nil, number)
	rep, err := s.Create(ctx, e)
	for err == nil && !rep.OK {
		if !rep.Found {
			return fmt.Errorf("write under an ID that nobody deletes: nothing stands")
		}
		if slices.Contains(numbers(rep.Entry.Body), number) {
			return nil
		}
		e.Rev, e.Body = retrysafe.NewRev(), binary.BigEndian.AppendUint32(slices.Clone(rep.Entry.Body), number)
		rep, err = s.Swap(ctx, rep.Entry.Rev, e)
	}
	return err
}

// numbers is what leave left in a body, sorted.
func numbers(body []byte) (ns []uint32) {
	for part := range slices.Chunk(body, 4) {
		ns = append(ns, binary.BigEndian.Uint32(append(part[:len(part):len(part)], 0, 0, 0, 0)))
	}
	slices.Sort(ns)
	return ns
}

// wholeEntries swaps one entry on and on. Every reader must see one write whole, none older than the last one
// acknowledged before it asked, and none newer than the last one sent.
func wholeEntries(ctx context.Context, t *trial) {
	r := run{first: t.create(ctx, numbered(t.entry(), 0))}
	const readers = 4
	t.each(1+readers, func(i int) error {
		if i == 0 {
			return r.write(ctx, t, int64(t.many(5)))
		}
		for more := true; more; {
			more = !r.ended.Load()
			if err := r.read(ctx, t, t.side(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A run is one entry that is swapped on and on.
type run struct {
	first              retrysafe.Entry
	sent, acknowledged atomic.Int64 // numbers of writes
	reads              atomic.Int64
	ended              atomic.Bool
}

// write swaps n times and, where readers have hardly come to read by then, some times more.
func (r *run) write(ctx context.Context, t *trial, n int64) error {
	defer r.ended.Store(true)
	old := r.first
	for i := int64(0); i < n || i < 4*n && r.reads.Load() < n; i++ {
		e := numbered(t.next(old), i+1)
		r.sent.Store(i + 1)
		rep, err := t.store.Swap(ctx, old.Rev, e)
		if err != nil || !rep.OK {
			return fmt.Errorf("swap %d: OK %v, %v", i+1, rep.OK, err)
		}
		r.acknowledged.Store(i + 1)
		old = e
	}
	return nil
}

func (r *run) read(ctx context.Context, t *trial, s retrysafe.Store) error {
	from := r.acknowledged.Load()
	entries, _, err := s.Get(ctx, r.first.ID)
	to := r.sent.Load()
	r.reads.Add(1)
	if err != nil || len(entries) != 1 {
		return fmt.Errorf("get: %d entries, want 1, %v", len(entries), err)
	}
	e := entries[0]
	if d := difference(e, numbered(e, e.Epoch)); d != "" {
		return fmt.Errorf("get: the entry of write %d is not whole: %s", e.Epoch, d)
	}
	if e.Epoch < from || e.Epoch > to {
		return fmt.Errorf("get: write %d stands, when %d were acknowledged and %d sent", e.Epoch, from, to)
	}
	return nil
}

// numbered is e with n in every field that can hold it.
func numbered(e retrysafe.Entry, n int64) retrysafe.Entry {
	e.Epoch, e.Due, e.TTL = n, time.Duration(n)*time.Second, time.Duration(n)*time.Minute
	e.Display = fmt.Sprint("write ", n)
	binary.BigEndian.PutUint64(e.Fingerprint[:], uint64(n))
	e.Body = bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(n)), 100)
	return e
}
