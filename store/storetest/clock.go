package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What the store's clock promises. Epochs are made of stamps, and every lease is judged by Now.

// writes makes n writes under one ID, by turns from both sides, and shows each answer to see: creates, swaps,
// and after every fifth swap a delete.
func (t *trial) writes(ctx context.Context, n int, see func(s retrysafe.Store, w sending, rep retrysafe.Reply)) {
	t.Helper()
	w := sending{verb: create, e: t.entry()}
	for i := range n {
		s := t.side(i / 2)
		rep, err := w.to(ctx, s)
		if err != nil || !rep.OK {
			t.Fatalf("%v %d under one ID: OK %v, %v", w.verb, i, rep.OK, err)
		}
		see(s, w, rep)
		old := w.e
		w = sending{verb: swap, old: old.Rev, e: t.next(old)}
		switch i % 7 {
		case 5:
			w = sending{verb: remove, old: old.Rev, e: old}
		case 6:
			w = sending{verb: create, e: t.next(old)}
		}
	}
}

func stampsLieBetween(ctx context.Context, t *trial) {
	id := t.entry().ID
	_, _, before := t.get(ctx, t.store, id)
	for n := range 50 {
		e := t.entry()
		e.ID = id
		rep, err := t.side(n).Create(ctx, e)
		t.wrote("create", rep, err, e)
		_, _, after := t.get(ctx, t.side(n/2), id)
		if s := rep.Entry.Stamp; s.Before(before) || s.After(after) {
			t.Fatalf("create is stamped %v; the clock was %v before and %v after", s, before, after)
		}
		if rep.Now.Before(before) || rep.Now.After(after) {
			t.Fatalf("create answers with clock %v; it was %v before and %v after", rep.Now, before, after)
		}
		t.remove(ctx, e)
		_, _, before = t.get(ctx, t.side(n/2), id)
	}
}

func stampsAreWhole(ctx context.Context, t *trial) {
	t.writes(ctx, 50, func(_ retrysafe.Store, _ sending, rep retrysafe.Reply) {
		if rep.Found && !rep.Entry.Stamp.Equal(rep.Entry.Stamp.Truncate(time.Microsecond)) {
			t.Fatalf("write is stamped %v: want whole microseconds", rep.Entry.Stamp)
		}
	})
}

func callersStamp(ctx context.Context, t *trial) {
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		e := t.entry()
		_, _, before := t.get(ctx, t.store, e.ID)
		e.Stamp = before.Add(off)
		standing := t.create(ctx, e)
		n := t.next(standing)
		n.Stamp = before.Add(off)
		for call, got := range map[string]time.Time{"create": standing.Stamp, "swap": t.swap(ctx, e.Rev, n).Stamp} {
			if got.Before(before) || got.Sub(before) > time.Hour {
				t.Errorf("%s of an entry stamped %v: got stamp %v at %v", call, e.Stamp, got, before)
			}
		}
	}
}

func stampsNeverBack(ctx context.Context, t *trial) {
	var last time.Time
	t.writes(ctx, t.o.Load, func(_ retrysafe.Store, w sending, rep retrysafe.Reply) {
		if !rep.Found {
			return
		}
		if rep.Entry.Stamp.Before(last) {
			t.Fatalf("%v is stamped %v, after a write stamped %v", w.verb, rep.Entry.Stamp, last)
		}
		last = rep.Entry.Stamp
	})
}

func stampedLater(ctx context.Context, t *trial) {
	var last, deleted time.Time
	t.writes(ctx, t.o.Load/5, func(_ retrysafe.Store, w sending, rep retrysafe.Reply) {
		switch {
		case w.verb == remove:
			deleted = rep.Now
		case w.verb == create && (!rep.Entry.Stamp.After(last) || rep.Entry.Stamp.Before(deleted)):
			t.Fatalf("create is stamped %v, after an entry stamped %v was deleted at %v", rep.Entry.Stamp, last, deleted)
		}
		if rep.Found {
			last = rep.Entry.Stamp
		}
	})
}

// clockNotBehind writes fast, so that stamps which have to differ run ahead of the clock.
func clockNotBehind(ctx context.Context, t *trial) {
	bystander := t.create(ctx, t.entry())
	var last retrysafe.Entry
	t.writes(ctx, t.o.Load/5, func(_ retrysafe.Store, w sending, rep retrysafe.Reply) {
		if rep.Now.Before(rep.Entry.Stamp) {
			t.Fatalf("%v answers with clock %v and stamp %v", w.verb, rep.Now, rep.Entry.Stamp)
		}
		if rep.Found {
			last = rep.Entry
		}
	})
	entries, now, err := t.store.Get(ctx, last.ID, bystander.ID)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if p := behind(now, entries); p != "" {
		t.Errorf("get: %s", p)
	}
	if t.list == nil {
		return
	}
	page, err := t.list.List(ctx, retrysafe.Query{Scope: last.Scope})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	if p := behind(page.Now, page.Entries); p != "" {
		t.Errorf("list: %s", p)
	}
}

func behind(now time.Time, entries []retrysafe.Entry) string {
	for _, e := range entries {
		if now.Before(e.Stamp) {
			return fmt.Sprintf("the clock is %v, an entry beside it is stamped %v", now, e.Stamp)
		}
	}
	return ""
}

// clockKeepsPace compares the store's clock with this machine's, coarsely: it finds seconds taken for
// milliseconds and clocks that stand still.
func clockKeepsPace(ctx context.Context, t *trial) {
	const span = 50 * time.Millisecond
	id := t.entry().ID
	began := time.Now()
	_, _, first := t.get(ctx, t.store, id)
	for {
		_, _, now := t.get(ctx, t.peer, id)
		took, passed := time.Since(began), now.Sub(first)
		switch {
		case passed > 2*took+span:
			t.Fatalf("the store's clock went on by %v within %v", passed, took)
		case passed >= span:
			return
		case took > t.o.Patience:
			t.Fatalf("the store's clock went on by %v only within %v", passed, took)
		}
		if err := rest(ctx, time.Millisecond); err != nil {
			t.Fatalf("rest: %v", err)
		}
	}
}
