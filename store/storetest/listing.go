package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What an Inspector lists. Every query selects by a random scope or display, so that other entries do no harm.

// lists checks that q selects want, each once, in whatever order.
func (t *trial) lists(ctx context.Context, q retrysafe.Query, want ...retrysafe.Entry) {
	t.Helper()
	t.same(fmt.Sprintf("list %+v", q), t.walk(ctx, q, nil), want)
}

func (t *trial) same(call string, got, want []retrysafe.Entry) {
	t.Helper()
	times := map[retrysafe.ID]int{}
	for _, e := range got {
		times[e.ID]++
	}
	for _, e := range want {
		if times[e.ID] != 1 {
			t.Fatalf("%s: an entry of state %v, scope %+q and display %+q came %d times, want once", call, e.State, e.Scope, e.Display, times[e.ID])
		}
		at := slices.IndexFunc(got, func(g retrysafe.Entry) bool { return g.ID == e.ID })
		if d := difference(got[at], e); d != "" {
			t.Fatalf("%s: %s", call, d)
		}
		delete(times, e.ID)
	}
	for _, e := range got {
		if times[e.ID] > 0 {
			t.Fatalf("%s: an entry of state %v, scope %+q, display %+q and due %v came too", call, e.State, e.Scope, e.Display, e.Due)
		}
	}
}

// together creates n entries of one random scope, each changed by change.
func (t *trial) together(ctx context.Context, n int, change func(i int, e *retrysafe.Entry)) (scope string, all []retrysafe.Entry) {
	t.Helper()
	scope, all = token(), make([]retrysafe.Entry, n)
	t.each(n, func(i int) error {
		e := t.entry()
		e.Scope = scope
		if change != nil {
			change(i, &e)
		}
		rep, err := t.store.Create(ctx, e)
		if err != nil || !rep.OK {
			return fmt.Errorf("create: OK %v, %v", rep.OK, err)
		}
		all[i] = rep.Entry
		return nil
	})
	return scope, all
}

func listStates(ctx context.Context, t *trial) {
	states := []retrysafe.State{retrysafe.Free, retrysafe.InFlight, retrysafe.Completed, retrysafe.Unknown, retrysafe.UnknownAnswered, retrysafe.Tombstone, retrysafe.Reserved}
	scope, all := t.together(ctx, 2*len(states), func(i int, e *retrysafe.Entry) { e.State = states[i/2] })
	for i, s := range states {
		t.lists(ctx, retrysafe.Query{Scope: scope, States: []retrysafe.State{s}}, all[2*i:2*i+2]...)
		t.lists(ctx, retrysafe.Query{Scope: scope, States: states[i:]}, all[2*i:]...)
	}
	t.lists(ctx, retrysafe.Query{Scope: scope, States: []retrysafe.State{retrysafe.Unknown, retrysafe.Unknown}}, all[6:8]...)
	t.lists(ctx, retrysafe.Query{Scope: scope}, all...)
}

// kin are texts that a careless comparison takes for one another, around a random stem.
func kin(stem string) []string {
	var all []string
	for _, around := range []string{"%s", "%sa", "%sA", "%sá", "%sa\u0301", "%sa ", "%s ", " %s", "%sa%%", "%sa_", "%sab", `%sa\`, `%sa\%%`, "%s'", `%s"`, "%sa*", "%sa?", "%s\uffff", "%s\U0010ffff", "%s\U0001f980", "x%s"} {
		all = append(all, fmt.Sprintf(around, stem))
	}
	return append(all, strings.ToUpper(stem), strings.ToUpper(stem)+"A")
}

func listScopes(ctx context.Context, t *trial) {
	scopes := kin("s" + token())
	_, all := t.together(ctx, len(scopes), func(i int, e *retrysafe.Entry) { e.Scope = scopes[i] })
	for i, scope := range scopes {
		t.lists(ctx, retrysafe.Query{Scope: scope}, all[i])
	}
}

func listPrefixes(ctx context.Context, t *trial) {
	stem := "p" + token()
	displays := kin(stem)
	_, all := t.together(ctx, len(displays), func(i int, e *retrysafe.Entry) { e.Display = displays[i] })
	prefixes := append(kin(stem), stem[:20], strings.Replace(stem, stem[5:6], "_", 1), stem[:20]+"%", "%"+stem[1:], displays[0]+"abc")
	for _, prefix := range prefixes {
		var want []retrysafe.Entry
		for _, e := range all {
			if strings.HasPrefix(e.Display, prefix) {
				want = append(want, e)
			}
		}
		t.lists(ctx, retrysafe.Query{Prefix: prefix}, want...)
	}
}

func listDue(ctx context.Context, t *trial) {
	const soon = 30 * time.Millisecond
	dues := []time.Duration{0, time.Microsecond, soon, time.Hour, 10 * 365 * 24 * time.Hour}
	scope, all := t.together(ctx, 2*len(dues), func(i int, e *retrysafe.Entry) { e.Due = dues[i/2] })
	t.lists(ctx, retrysafe.Query{Scope: scope}, all...)

	page, err := t.list.List(ctx, retrysafe.Query{Scope: scope, Due: true})
	if err != nil {
		t.Fatalf("list what is due: %v", err)
	}
	for _, e := range page.Entries {
		if page.Now.Sub(e.Stamp) < e.Due {
			t.Errorf("list what is due: an entry stamped %v came, due after %v, at %v", e.Stamp, e.Due, page.Now)
		}
	}
	last := slices.MaxFunc(all, func(a, b retrysafe.Entry) int { return a.Stamp.Compare(b.Stamp) })
	t.past(ctx, last.Stamp.Add(soon))
	for _, limit := range []int{0, 1, 3} {
		t.lists(ctx, retrysafe.Query{Scope: scope, Due: true, Limit: limit}, all[:6]...)
	}
	t.lists(ctx, retrysafe.Query{Prefix: all[9].Display, Due: true})
}

func listAll(ctx context.Context, t *trial) {
	stem := token()
	states := []retrysafe.State{retrysafe.Completed, retrysafe.InFlight}
	displays := []string{stem + "a", stem + "b"}
	dues := []time.Duration{0, time.Hour}
	scope, all := t.together(ctx, 8, func(i int, e *retrysafe.Entry) {
		e.State, e.Display, e.Due = states[i&1], displays[i>>1&1], dues[i>>2&1]
	})
	t.together(ctx, 1, func(_ int, e *retrysafe.Entry) { e.State, e.Display, e.Due = states[0], displays[0], 0 })
	q := retrysafe.Query{Scope: scope, States: states[:1], Prefix: displays[0], Due: true}
	t.lists(ctx, q, all[0])
	q.Due = false
	t.lists(ctx, q, all[0], all[4])
	q.Prefix = stem
	t.lists(ctx, q, all[0], all[2], all[4], all[6])
	q.Scope = ""
	page := t.walk(ctx, q, nil)
	if len(page) != 5 {
		t.Fatalf("list %+v: %d entries, want those of both scopes, 5", q, len(page))
	}
}

func listSwapped(ctx context.Context, t *trial) {
	e := t.create(ctx, t.entry())
	n := t.swap(ctx, e.Rev, t.next(e))
	t.lists(ctx, retrysafe.Query{Scope: e.Scope})
	t.lists(ctx, retrysafe.Query{Prefix: e.Display})
	t.lists(ctx, retrysafe.Query{Scope: n.Scope, States: []retrysafe.State{e.State}})
	t.lists(ctx, retrysafe.Query{Scope: n.Scope, States: []retrysafe.State{n.State}}, n)
	t.lists(ctx, retrysafe.Query{Prefix: n.Display}, n)

	due := t.next(n)
	due.Scope, due.Due = n.Scope, 0
	due = t.swap(ctx, n.Rev, due)
	t.lists(ctx, retrysafe.Query{Scope: n.Scope, Due: true}, due)
	later := t.next(due)
	later.Scope, later.Due = n.Scope, time.Hour
	later = t.swap(ctx, due.Rev, later)
	t.lists(ctx, retrysafe.Query{Scope: n.Scope, Due: true})

	t.remove(ctx, later)
	t.lists(ctx, retrysafe.Query{Scope: n.Scope})
}
