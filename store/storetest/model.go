package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// A model is what a Store's writes do, as plain code: what stands, without a clock.
type model map[retrysafe.ID]retrysafe.Entry

// A sending is one write as it goes to a store.
type sending struct {
	verb verb
	old  retrysafe.Rev   // of swap and delete
	e    retrysafe.Entry // of delete, only its ID
}

type verb int

const (
	create verb = iota
	swap
	remove
)

func (v verb) String() string { return [...]string{"create", "swap", "delete"}[v] }

// to sends w to s.
func (w sending) to(ctx context.Context, s retrysafe.Store) (retrysafe.Reply, error) {
	switch w.verb {
	case create:
		return s.Create(ctx, w.e)
	case swap:
		return s.Swap(ctx, w.old, w.e)
	}
	return s.Delete(ctx, w.e.ID, w.old)
}

// take is the answer that w must get; it does to m what w does.
func (m model) take(w sending) retrysafe.Reply {
	standing, found := m[w.e.ID]
	switch {
	case w.verb == create && !found, w.verb == swap && found && standing.Rev == w.old:
		m[w.e.ID] = w.e
		return retrysafe.Reply{Entry: w.e, Found: true, OK: true}
	case w.verb == remove && (!found || standing.Rev == w.old):
		delete(m, w.e.ID)
		return retrysafe.Reply{OK: true}
	}
	return retrysafe.Reply{Entry: standing, Found: found, OK: found && w.verb != remove && standing.Rev == w.e.Rev}
}

// agreesWithModel makes random writes under few IDs, right ones, wrong ones and ones sent before, and compares
// every answer and what stands after it.
func agreesWithModel(ctx context.Context, t *trial) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	m := model{}
	ids := []retrysafe.Entry{t.entry(), t.entry(), t.entry()}
	recent := []sending{{verb: create, e: ids[0]}}
	for n := range t.many(10) {
		before := recent[r.IntN(len(recent))]
		e := t.next(ids[r.IntN(len(ids))])
		w := sending{verb: verb(r.IntN(3)), old: m[e.ID].Rev, e: e}
		switch r.IntN(3) {
		case 0:
			w = before
		case 1:
			w.old = before.e.Rev
		}
		call := fmt.Sprintf("write %d of seed %d: %v", n, seed, w.verb)
		rep, err := w.to(ctx, t.side(r.IntN(2)))
		t.answered(call, rep, err, m.take(w))
		t.agrees(ctx, call, m, ids)
		recent = append(recent[max(0, len(recent)-20):], w)
	}
}

// agrees checks that what stands under ids is what m says.
func (t *trial) agrees(ctx context.Context, call string, m model, ids []retrysafe.Entry) {
	t.Helper()
	entries, _, err := t.store.Get(ctx, ids[0].ID, ids[1].ID, ids[2].ID)
	if err != nil || len(entries) != len(m) {
		t.Fatalf("get after %s: %d entries, %v; want %d", call, len(entries), err, len(m))
	}
	for _, want := range m {
		if !slices.ContainsFunc(entries, func(got retrysafe.Entry) bool { return difference(got, want) == "" }) {
			t.Fatalf("get after %s: the entry %s is not as it was written last", call, want.ID)
		}
	}
}
