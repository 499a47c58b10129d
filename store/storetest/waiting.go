package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What a Waiter tells, and when.

// settle is how long waiters are given to begin to wait. Where it is too short nothing fails, but a Waiter that
// misses writes may go undetected: so it gets several chances to miss one.
const (
	settle  = 25 * time.Millisecond
	chances = 3
)

// changed waits until the Rev under e's ID is not e's any more. Wait may return without a change.
func (t *trial) changed(ctx context.Context, s retrysafe.Store, e retrysafe.Entry) error {
	for {
		if err := t.wait.Wait(ctx, e.ID, e.Rev); err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		entries, _, err := s.Get(ctx, e.ID)
		if err != nil {
			return fmt.Errorf("get after a wait: %w", err)
		}
		if len(entries) == 0 || entries[0].Rev != e.Rev {
			return nil
		}
	}
}

// wakes checks that w, of the entry e, ends the wait of n waiters.
func (t *trial) wakes(ctx context.Context, n int, e retrysafe.Entry, w sending) {
	t.Helper()
	var wg sync.WaitGroup
	var failures collected
	for range n {
		wg.Go(func() { failures.add(t.changed(ctx, t.store, e)) })
	}
	if err := rest(ctx, settle); err != nil {
		t.Fatalf("let waiters begin: %v", err)
	}
	if rep, err := w.to(ctx, t.peer); err != nil || !rep.OK {
		t.Fatalf("%v: OK %v, %v", w.verb, rep.OK, err)
	}
	t.soon(fmt.Sprintf("%d waiters after a %v", n, w.verb), func() error { wg.Wait(); return nil })
	if failures.n > 0 {
		t.Fatalf("%d of %d waiters failed; first %v", failures.n, n, failures.first)
	}
}

func waitSwap(ctx context.Context, t *trial) {
	e := t.create(ctx, t.entry())
	for range chances {
		n := t.next(e)
		t.wakes(ctx, 2, e, sending{verb: swap, old: e.Rev, e: n})
		e = n
	}
}

func waitDelete(ctx context.Context, t *trial) {
	for range chances {
		e := t.create(ctx, t.entry())
		t.wakes(ctx, 2, e, sending{verb: remove, old: e.Rev, e: e})
	}
}

func waitMany(ctx context.Context, t *trial) {
	e := t.create(ctx, t.entry())
	n := t.next(e)
	t.wakes(ctx, t.many(10), e, sending{verb: swap, old: e.Rev, e: n})
	t.wakes(ctx, t.many(10), n, sending{verb: remove, old: n.Rev, e: n})
}

func waitDiffers(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	for what, e := range map[string]retrysafe.Entry{"another Rev stands": t.next(standing), "nothing stands": t.entry()} {
		if err := t.soon("wait where "+what, func() error { return t.wait.Wait(ctx, e.ID, e.Rev) }); err != nil {
			t.Errorf("wait where %s: %v", what, err)
		}
	}
}

func waitContext(ctx context.Context, t *trial) {
	e := t.create(ctx, t.entry())
	cancelled, cancel := context.WithCancel(ctx)
	late, stop := context.WithTimeout(ctx, settle)
	defer stop()
	time.AfterFunc(settle, cancel)
	for want, limited := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late} {
		for range 2 { // while it waits, and when it has ended
			if err := t.soon("wait whose context ends", func() error { return t.changed(limited, t.store, e) }); !errors.Is(err, want) {
				t.Errorf("wait whose context ends: %v, want %v", err, want)
			}
		}
	}
	t.stands(ctx, e)
}

// waitUntouched bounds how often Wait says "may have changed" for nothing: each time costs its caller a read.
func waitUntouched(ctx context.Context, t *trial) {
	const most = 20
	e := t.create(ctx, t.entry())
	limited, cancel := context.WithTimeout(ctx, 4*settle)
	defer cancel()
	for n := 0; t.wait.Wait(limited, e.ID, e.Rev) == nil; n++ {
		if n == most {
			t.Fatalf("wait on an untouched entry ended more than %d times within %v", most, 4*settle)
		}
	}
}

// waitRaces lets waits begin while the entry is written.
func waitRaces(ctx context.Context, t *trial) {
	e := t.create(ctx, t.entry())
	for i := range t.many(50) {
		w := sending{verb: swap, old: e.Rev, e: t.next(e)}
		var began atomic.Int64
		waited := make(chan error, 3)
		for range cap(waited) {
			go func() {
				began.Add(1)
				waited <- t.changed(ctx, t.store, e)
			}()
		}
		for began.Load() < int64(i%(cap(waited)+1)) {
			if err := rest(ctx, time.Microsecond); err != nil {
				t.Fatalf("let waiters begin: %v", err)
			}
		}
		rep, err := w.to(ctx, t.store)
		t.wrote("swap", rep, err, w.e)
		for range cap(waited) {
			if err := t.soon("wait that races with a swap", func() error { return <-waited }); err != nil {
				t.Fatal(err)
			}
		}
		e = rep.Entry
	}
}
