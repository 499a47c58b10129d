package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// How a listing goes from page to page.

// walk reads all pages of q and calls between, where given, before every page but the first.
func (t *trial) walk(ctx context.Context, q retrysafe.Query, between func()) (all []retrysafe.Entry) {
	t.Helper()
	seen := map[string]bool{}
	for {
		page, err := t.list.List(ctx, q)
		if err != nil {
			t.Fatalf("list %+v: %v", q, err)
		}
		if limit := q.Limit; limit > 0 && len(page.Entries) > limit {
			t.Fatalf("list %+v: a page of %d entries", q, len(page.Entries))
		}
		if page.Now.IsZero() {
			t.Fatalf("list %+v: a page without a clock", q)
		}
		all = append(all, page.Entries...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
		if seen[q.Cursor] {
			t.Fatalf("list: the cursor %q came twice", q.Cursor)
		}
		seen[q.Cursor] = true
		if between != nil {
			between()
		}
	}
}

func listLimits(ctx context.Context, t *trial) {
	const n = 23
	scope, all := t.together(ctx, n, nil)
	t.together(ctx, n, nil) // others
	for limit := 1; limit <= n+1; limit++ {
		t.lists(ctx, retrysafe.Query{Scope: scope, Limit: limit}, all...)
	}
	t.lists(ctx, retrysafe.Query{Scope: scope, Limit: 1 << 30}, all...)
	t.lists(ctx, retrysafe.Query{Scope: token()})
}

func listDefaultLimit(ctx context.Context, t *trial) {
	scope, all := t.together(ctx, 120, nil)
	page, err := t.list.List(ctx, retrysafe.Query{Scope: scope})
	if err != nil || len(page.Entries) > 100 || page.Next == "" {
		t.Fatalf("list of 120 without a limit: %d entries, next %q, %v; want at most 100 and a cursor", len(page.Entries), page.Next, err)
	}
	t.lists(ctx, retrysafe.Query{Scope: scope}, all...)
}

func listZero(ctx context.Context, t *trial) {
	_, all := t.together(ctx, 5, func(i int, e *retrysafe.Entry) {
		e.State, e.Due = retrysafe.Free+retrysafe.State(i), time.Duration(i)*time.Hour
	})
	all[4].Scope, all[4].Display, all[4].Rev = "", "", retrysafe.NewRev()
	standing, _, _ := t.get(ctx, t.store, all[4].ID)
	all[4] = t.swap(ctx, standing.Rev, all[4])
	listed := t.walk(ctx, retrysafe.Query{}, nil)
	ours := slices.DeleteFunc(listed, func(e retrysafe.Entry) bool {
		return !slices.ContainsFunc(all, func(a retrysafe.Entry) bool { return a.ID == e.ID })
	})
	t.same("list with the zero query", ours, all)
}

// listOnce lists while other entries of the same query come and go, and while some that stay are swapped. An
// entry whose Due moves has gone and come again: nothing is swapped under a query for what is due.
func listOnce(ctx context.Context, t *trial) {
	for _, limit := range []int{1, 7, 50} {
		t.listedOnce(ctx, retrysafe.Query{Limit: limit}, 10)
		t.listedOnce(ctx, retrysafe.Query{Limit: limit, Due: true}, 0)
	}
}

func (t *trial) listedOnce(ctx context.Context, q retrysafe.Query, swapped int) {
	t.Helper()
	const staying, fleeting = 40, 30
	scope, all := t.together(ctx, staying+fleeting, func(_ int, e *retrysafe.Entry) { e.Due = 0 })
	q.Scope = scope
	f := flicker{t: t, swapped: all[:swapped:swapped], fleeting: all[staying:], stepped: make(chan struct{})}
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() { f.run(ctx, end) })
	listed := t.walk(ctx, q, func() {
		for range 3 {
			<-f.stepped
		}
	})
	close(end)
	wg.Wait()
	if f.err != nil {
		t.Fatalf("write while somebody lists: %v", f.err)
	}
	times := map[retrysafe.ID]int{}
	for _, e := range listed {
		times[e.ID]++
	}
	for i, e := range all[:staying] {
		if times[e.ID] != 1 {
			t.Fatalf("list %+v: an entry that stays came %d times, want once; swapped meanwhile: %v", q, times[e.ID], i < swapped)
		}
	}
}

// A flicker writes while another goroutine lists: some entries it swaps, others come and go.
type flicker struct {
	t        *trial
	swapped  []retrysafe.Entry
	fleeting []retrysafe.Entry
	stepped  chan struct{} // sends after every step; closed when run returns
	err      error         // of run
}

func (f *flicker) run(ctx context.Context, end <-chan struct{}) {
	defer close(f.stepped)
	for i := 0; f.err == nil; i++ {
		f.err = f.step(ctx, i)
		select {
		case f.stepped <- struct{}{}:
		case <-end:
			return
		}
	}
}

// step replaces a fleeting entry by a new one, in two steps, and swaps another.
func (f *flicker) step(ctx context.Context, i int) error {
	at := &f.fleeting[i/2%len(f.fleeting)]
	w := sending{verb: remove, old: at.Rev, e: *at}
	if i%2 == 1 {
		scope, due := at.Scope, at.Due
		*at = f.t.entry()
		at.Scope, at.Due = scope, due
		w = sending{verb: create, e: *at}
	}
	if rep, err := w.to(ctx, f.t.store); err != nil || !rep.OK {
		return fmt.Errorf("%v: OK %v, %v", w.verb, rep.OK, err)
	}
	if len(f.swapped) == 0 {
		return nil
	}
	e := &f.swapped[i%len(f.swapped)]
	old := e.Rev
	e.Rev, e.Body = retrysafe.NewRev(), randomBytes(20)
	if rep, err := f.t.peer.Swap(ctx, old, *e); err != nil || !rep.OK {
		return fmt.Errorf("swap: OK %v, %v", rep.OK, err)
	}
	return nil
}

func foreignCursor(ctx context.Context, t *trial) {
	scope, _ := t.together(ctx, 3, nil)
	page, err := t.list.List(ctx, retrysafe.Query{Scope: scope, Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("list: next %q, %v; want a cursor", page.Next, err)
	}
	for _, cursor := range []string{
		" ", "\x00", "\xff\xfe", "'", `"`, "{}", "../..", "a b", "=", page.Next + "!", page.Next + "\x00", " " + page.Next,
		strings.Repeat("ab", 4096), strings.Repeat("z", 64),
	} {
		if page, err := t.list.List(ctx, retrysafe.Query{Scope: scope, Cursor: cursor}); err == nil {
			t.Errorf("list with the cursor %.80q: %d entries, want an error", cursor, len(page.Entries))
		}
	}
}

func largeBodies(ctx context.Context, t *trial) {
	scope, all := t.together(ctx, 12, func(i int, e *retrysafe.Entry) { e.Body = randomBytes(t.o.MaxBody >> (i % 4)) })
	for _, limit := range []int{0, 5} {
		t.lists(ctx, retrysafe.Query{Scope: scope, Limit: limit}, all...)
	}
}
