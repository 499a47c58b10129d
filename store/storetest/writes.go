package storetest

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// What Create, Swap and Delete do, one caller after the other.

func createWrites(ctx context.Context, t *trial) {
	e := t.entry()
	t.absent(ctx, e.ID)
	t.stands(ctx, t.create(ctx, e))
}

func createLeaves(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	rep, err := t.peer.Create(ctx, t.next(standing))
	t.refused("create over another's entry", rep, err, standing)
	t.stands(ctx, standing)
}

func createAgain(ctx context.Context, t *trial) {
	e := t.entry()
	standing := t.create(ctx, e)
	for range 3 {
		rep, err := t.store.Create(ctx, e)
		t.answered("create sent again", rep, err, retrysafe.Reply{Entry: standing, Found: true, OK: true})
	}
	t.stands(ctx, standing)
}

func createAgainLate(ctx context.Context, t *trial) {
	e := t.entry()
	t.create(ctx, e)
	others := t.swap(ctx, e.Rev, t.next(e))
	rep, err := t.store.Create(ctx, e)
	t.refused("create sent again after a swap", rep, err, others)

	t.remove(ctx, others)
	others = t.create(ctx, t.next(others))
	rep, err = t.store.Create(ctx, e)
	t.refused("create sent again after a delete and another's create", rep, err, others)
	t.stands(ctx, others)
}

func swapWrites(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	bystander := t.create(ctx, t.entry())
	for n := range 3 {
		e := t.next(standing)
		rep, err := t.side(n).Swap(ctx, standing.Rev, e)
		t.wrote("swap", rep, err, e)
		standing = rep.Entry
		t.stands(ctx, standing)
	}
	t.stands(ctx, bystander)
}

func swapLeaves(ctx context.Context, t *trial) {
	first := t.create(ctx, t.entry())
	standing := t.swap(ctx, first.Rev, t.next(first))
	for what, old := range wrongRevs(first, standing) {
		rep, err := t.peer.Swap(ctx, old, t.next(standing))
		t.refused("swap over "+what, rep, err, standing)
	}
	t.stands(ctx, standing)
}

// wrongRevs is what an entry's Rev may be mistaken for: the one before it, none, and those next to it.
func wrongRevs(before, standing retrysafe.Entry) map[string]retrysafe.Rev {
	wrong := map[string]retrysafe.Rev{"the Rev before": before.Rev, "no Rev": {}}
	for _, at := range []int{0, 7, 15} {
		near := standing.Rev
		near[at] ^= 0x20
		wrong["a Rev that differs in one bit"] = near
	}
	return wrong
}

func swapAgain(ctx context.Context, t *trial) {
	first := t.create(ctx, t.entry())
	e := t.next(first)
	standing := t.swap(ctx, first.Rev, e)
	for range 3 {
		rep, err := t.store.Swap(ctx, first.Rev, e)
		t.answered("swap sent again", rep, err, retrysafe.Reply{Entry: standing, Found: true, OK: true})
	}
	t.stands(ctx, standing)
}

func swapAgainLate(ctx context.Context, t *trial) {
	first := t.create(ctx, t.entry())
	e := t.next(first)
	t.swap(ctx, first.Rev, e)
	others := t.swap(ctx, e.Rev, t.next(e))
	rep, err := t.store.Swap(ctx, first.Rev, e)
	t.refused("swap sent again after another's", rep, err, others)
	t.stands(ctx, others)

	t.remove(ctx, others)
	rep, err = t.store.Swap(ctx, first.Rev, e)
	t.gone("swap sent again after a delete", rep, err, false)
	t.absent(ctx, e.ID)
}

func swapAbsent(ctx context.Context, t *trial) {
	e := t.entry()
	for what, old := range map[string]retrysafe.Rev{"a Rev": retrysafe.NewRev(), "no Rev": {}, "its own Rev": e.Rev} {
		rep, err := t.store.Swap(ctx, old, e)
		t.gone("swap of nothing over "+what, rep, err, false)
		t.absent(ctx, e.ID)
	}
}

func deleteRemoves(ctx context.Context, t *trial) {
	bystander := t.create(ctx, t.entry())
	for n := range 2 {
		standing := t.create(ctx, t.entry())
		standing = t.swap(ctx, standing.Rev, t.next(standing))
		rep, err := t.side(n).Delete(ctx, standing.ID, standing.Rev)
		t.gone("delete", rep, err, true)
		t.absent(ctx, standing.ID)
	}
	t.stands(ctx, bystander)
}

func deleteLeaves(ctx context.Context, t *trial) {
	first := t.create(ctx, t.entry())
	standing := t.swap(ctx, first.Rev, t.next(first))
	for what, old := range wrongRevs(first, standing) {
		rep, err := t.peer.Delete(ctx, standing.ID, old)
		t.refused("delete of "+what, rep, err, standing)
	}
	t.stands(ctx, standing)
}

func deleteAbsent(ctx context.Context, t *trial) {
	e := t.entry()
	rep, err := t.store.Delete(ctx, e.ID, e.Rev)
	t.gone("delete of what never stood", rep, err, true)

	t.create(ctx, e)
	t.remove(ctx, e)
	rep, err = t.peer.Delete(ctx, e.ID, e.Rev)
	t.gone("delete sent again", rep, err, true)
	t.absent(ctx, e.ID)
}

func deleteAgainLate(ctx context.Context, t *trial) {
	e := t.entry()
	t.create(ctx, e)
	t.remove(ctx, e)
	since := t.create(ctx, t.next(e))
	rep, err := t.store.Delete(ctx, e.ID, e.Rev)
	t.refused("delete sent again after another's create", rep, err, since)
	t.stands(ctx, since)
}

func vanished(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	rep, err := t.store.Create(ctx, t.next(standing))
	t.refused("create", rep, err, standing)
	if rep, err = t.peer.Delete(ctx, standing.ID, standing.Rev); err != nil || !rep.OK {
		t.Fatalf("delete: %+v, %v", rep, err)
	}
	rep, err = t.store.Swap(ctx, standing.Rev, t.next(standing))
	t.gone("swap of what vanished", rep, err, false)
	rep, err = t.store.Delete(ctx, standing.ID, standing.Rev)
	t.gone("delete of what vanished", rep, err, true)
	t.stands(ctx, t.create(ctx, t.next(standing)))
}
