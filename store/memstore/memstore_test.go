package memstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
	"github.com/retrysafe/retrysafe/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) retrysafe.Store { return memstore.New(nil) }, nil)
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(*testing.B) retrysafe.Store { return memstore.New(nil) })
}

// entry is one of so many bytes. Different first bytes of the ID fall into different shards.
func entry(first byte, body int) retrysafe.Entry {
	e := retrysafe.Entry{Rev: retrysafe.NewRev(), State: retrysafe.InFlight, Due: time.Minute, Body: make([]byte, body)}
	rand.Read(e.ID[:])
	e.ID[0] = first
	return e
}

func create(t *testing.T, s *memstore.Store, e retrysafe.Entry) {
	t.Helper()
	if rep, err := s.Create(t.Context(), e); err != nil || !rep.OK {
		t.Fatalf("create: OK %v, %v", rep.OK, err)
	}
}

// wantFull checks that s has no room for e, says that nothing was written, and is right.
func wantFull(t *testing.T, s *memstore.Store, e retrysafe.Entry) {
	t.Helper()
	rep, err := s.Create(t.Context(), e)
	if !errors.Is(err, memstore.ErrFull) || !errors.Is(err, retrysafe.ErrNotWritten) || rep.OK || rep.Found {
		t.Fatalf("create in a full store: %+v, %v; want ErrFull and ErrNotWritten", rep, err)
	}
	wantStanding(t, s, 0, e.ID)
}

func wantStanding(t *testing.T, s *memstore.Store, want int, ids ...retrysafe.ID) {
	t.Helper()
	if got, _, err := s.Get(t.Context(), ids...); err != nil || len(got) != want {
		t.Fatalf("get of %d IDs: %d entries, %v; want %d", len(ids), len(got), err, want)
	}
}

func TestFullStoreRefusesNewKeys(t *testing.T) {
	const kib = 1 << 10
	tests := []struct {
		name string
		o    memstore.Options
		fits []int // bodies
		not  int
	}{
		{"too many entries", memstore.Options{MaxEntries: 2}, []int{0, 0}, 0},
		{"too many bytes", memstore.Options{MaxBytes: 100 * kib}, []int{40 * kib, 40 * kib}, 40 * kib},
		{"one entry too large", memstore.Options{MaxBytes: 100 * kib}, nil, 101 * kib},
		{"as large as all there is", memstore.Options{MaxBytes: 100 * kib}, nil, 100 * kib}, // the entry around it counts
		{"many small entries", memstore.Options{MaxBytes: 800}, []int{0, 0}, 0},             // an empty one counts too
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New(&tt.o)
			var ids []retrysafe.ID
			var standing retrysafe.Entry
			for i, body := range tt.fits {
				standing = entry(byte(i), body)
				create(t, s, standing)
				ids = append(ids, standing.ID)
			}
			next := entry(3, tt.not)
			wantFull(t, s, next)
			wantStanding(t, s, len(ids), ids...)
			if len(ids) == 0 {
				return
			}
			if rep, err := s.Create(t.Context(), standing); err != nil || !rep.OK {
				t.Errorf("create sent again to a full store: OK %v, %v", rep.OK, err)
			}
			if rep, err := s.Delete(t.Context(), standing.ID, standing.Rev); err != nil || !rep.OK {
				t.Errorf("delete from a full store: OK %v, %v", rep.OK, err)
			}
			create(t, s, next)
		})
	}
}

func TestOutcomeFindsItsPlaceInAFullStore(t *testing.T) {
	s := memstore.New(&memstore.Options{MaxEntries: 1, MaxBytes: 4096})
	claim := entry(0, 100)
	create(t, s, claim)
	answer := claim
	answer.Rev, answer.State, answer.Body = retrysafe.NewRev(), retrysafe.Completed, make([]byte, 1<<20)
	if rep, err := s.Swap(t.Context(), claim.Rev, answer); err != nil || !rep.OK {
		t.Fatalf("swap in a full store: OK %v, %v", rep.OK, err)
	}
	wantFull(t, s, entry(1, 0))
	if rep, err := s.Delete(t.Context(), claim.ID, answer.Rev); err != nil || !rep.OK {
		t.Fatalf("delete: OK %v, %v", rep.OK, err)
	}
	create(t, s, entry(1, 0)) // the large answer's bytes are free again
}

func TestNothingRememberedGivesWay(t *testing.T) {
	tests := []struct {
		name     string
		state    retrysafe.State
		due, ttl time.Duration
	}{
		{"live claim", retrysafe.InFlight, time.Minute, 0},
		{"claim whose lease is over", retrysafe.InFlight, time.Microsecond, 0},
		{"held outcome", retrysafe.Unknown, 0, 0},
		{"kept answer", retrysafe.Completed, 24 * time.Hour, 25 * time.Hour},
		{"answer that may go, of a key that may not", retrysafe.Completed, time.Microsecond, 2 * time.Hour},
		{"kept failure", retrysafe.UnknownAnswered, 24 * time.Hour, 25 * time.Hour},
		{"remembered key", retrysafe.Tombstone, 2 * time.Hour, 2 * time.Hour},
		{"freed key with its history", retrysafe.Free, 2 * time.Hour, 2 * time.Hour},
		{"entry of the core's own", retrysafe.Reserved, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(&memstore.Options{MaxEntries: 1})
				e := entry(0, 10)
				e.State, e.Due, e.TTL = tt.state, tt.due, tt.ttl
				create(t, s, e)
				<-time.After(time.Hour)
				wantFull(t, s, entry(0, 0))
				wantFull(t, s, entry(1, 0))
				wantStanding(t, s, 1, e.ID)
			})
		})
	}
}

func TestWhatIsNoLongerRememberedGivesWay(t *testing.T) {
	tests := []struct {
		name        string
		over, newer byte // first bytes of the IDs
	}{
		{"to a key of the same shard", 0, 0},
		{"to a key of another shard", 0, 1},
		{"to a key of the shard before", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(&memstore.Options{MaxEntries: 2})
				over, held := entry(tt.over, 10), entry(2, 10)
				over.State, over.Due, over.TTL = retrysafe.Tombstone, time.Hour, time.Hour
				create(t, s, over)
				create(t, s, held)
				<-time.After(time.Hour - time.Microsecond)
				wantFull(t, s, entry(tt.newer, 0))
				<-time.After(time.Microsecond)
				newer := entry(tt.newer, 0)
				create(t, s, newer)
				wantStanding(t, s, 2, over.ID, held.ID, newer.ID)
				wantStanding(t, s, 0, over.ID)
			})
		})
	}
}

// TestGivingWayWakesWaiters: a waiter must not wait for an entry that is gone.
func TestGivingWayWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(&memstore.Options{MaxEntries: 1})
		over := entry(0, 0)
		over.TTL = time.Hour
		create(t, s, over)
		waited := make(chan error, 1)
		go func() { waited <- s.Wait(t.Context(), over.ID, over.Rev) }()
		<-time.After(time.Hour)
		create(t, s, entry(0, 0))
		if err := <-waited; err != nil {
			t.Errorf("wait: %v", err)
		}
	})
}

func TestBoundHoldsForManyCallers(t *testing.T) {
	const most, callers = 100, 64
	for round := range 20 {
		s := memstore.New(&memstore.Options{MaxEntries: most})
		var created atomic.Int64
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for range 10 {
					if rep, err := s.Create(t.Context(), entry(byte(caller), 0)); err == nil && rep.OK {
						created.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := created.Load(); n != most {
			t.Fatalf("round %d: %d callers created %d entries, want %d", round, callers, n, most)
		}
	}
}

// TestSameAnswerForRetriesUnderLoad runs the whole line over the store: few keys, many callers, some of which
// hang up.
func TestSameAnswerForRetriesUnderLoad(t *testing.T) {
	const keys, callers = 50, 1000
	executor, err := retrysafe.New(memstore.New(nil), &retrysafe.Options{Wait: time.Minute})
	if err != nil {
		t.Fatalf("new executor: %v", err)
	}
	var ran [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
			}
			key := retrysafe.Key{Scope: "tenant", Name: fmt.Sprint(i % keys)}
			r, err := executor.Do(ctx, key, retrysafe.Fingerprint{}, func(context.Context) ([]byte, error) {
				return fmt.Append(nil, i%keys, " run ", ran[i%keys].Add(1)), nil
			})
			if want := fmt.Sprint(i%keys, " run 1"); err == nil && string(r.Answer) != want || err != nil && i%7 != 0 {
				t.Errorf("caller %d: answer %q, %v; want %q", i, r.Answer, err, want)
			}
		})
	}
	wg.Wait()
	for i := range ran {
		if n := ran[i].Load(); n != 1 {
			t.Errorf("operation of key %d ran %d times", i, n)
		}
	}
}
