package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

type (
	entry = retrysafe.Entry
	reply = retrysafe.Reply
)

// A fault is one thing wrong with a store that is correct otherwise.
type fault struct {
	name  string
	fails string   // the case that names the promise
	also  []string // cases that may fail with it
	put   func(*faulty)
}

// in returns a store over s with the fault in it.
func (f fault) in(s *engine) *faulty {
	broken := &faulty{engine: s}
	if f.put != nil {
		f.put(broken)
	}
	return broken
}

// A faulty store is a correct one with some of its calls replaced.
type faulty struct {
	*engine
	create func(context.Context, entry) (reply, error)
	swap   func(context.Context, retrysafe.Rev, entry) (reply, error)
	remove func(context.Context, retrysafe.ID, retrysafe.Rev) (reply, error)
	get    func(context.Context, ...retrysafe.ID) ([]entry, time.Time, error)
	list   func(context.Context, retrysafe.Query) (retrysafe.Page, error)
	wait   func(context.Context, retrysafe.ID, retrysafe.Rev) error
}

func (f *faulty) Create(ctx context.Context, e entry) (reply, error) {
	if f.create != nil {
		return f.create(ctx, e)
	}
	return f.engine.Create(ctx, e)
}

func (f *faulty) Swap(ctx context.Context, old retrysafe.Rev, e entry) (reply, error) {
	if f.swap != nil {
		return f.swap(ctx, old, e)
	}
	return f.engine.Swap(ctx, old, e)
}

func (f *faulty) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (reply, error) {
	if f.remove != nil {
		return f.remove(ctx, id, old)
	}
	return f.engine.Delete(ctx, id, old)
}

func (f *faulty) Get(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
	if f.get != nil {
		return f.get(ctx, ids...)
	}
	return f.engine.Get(ctx, ids...)
}

func (f *faulty) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	if f.list != nil {
		return f.list(ctx, q)
	}
	return f.engine.List(ctx, q)
}

func (f *faulty) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	if f.wait != nil {
		return f.wait(ctx, id, old)
	}
	return f.engine.Wait(ctx, id, old)
}

// writing replaces the entry of every write by what change makes of it.
func (f *faulty) writing(change func(entry) entry) {
	f.create = func(ctx context.Context, e entry) (reply, error) { return f.engine.Create(ctx, change(e)) }
	f.swap = func(ctx context.Context, old retrysafe.Rev, e entry) (reply, error) {
		return f.engine.Swap(ctx, old, change(e))
	}
}

// listing replaces the query of every listing by what change makes of it.
func (f *faulty) listing(change func(retrysafe.Query) retrysafe.Query) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		return f.engine.List(ctx, change(q))
	}
}

// sifted lists without what loose takes out of the query, and leaves the choice to keep.
func (f *faulty) sifted(loose func(*retrysafe.Query), keep func(retrysafe.Query, entry) bool) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		asked := q
		loose(&q)
		page, err := f.engine.List(ctx, q)
		page.Entries = slices.DeleteFunc(page.Entries, func(e entry) bool { return !keep(asked, e) })
		return page, err
	}
}

// look is the answer to a write of e that finds what stands and writes nothing.
func (f *faulty) look(ctx context.Context, e entry) (reply, error) {
	return f.update(ctx, e.ID, func(rep *reply) (bool, *entry) {
		rep.OK = rep.Found && rep.Entry.Rev == e.Rev
		return false, nil
	})
}

// next returns what is closed at the next write of any entry.
func (f *faulty) next(ctx context.Context) (<-chan struct{}, error) {
	if err := f.acquire(ctx); err != nil {
		return nil, ctx.Err()
	}
	defer f.release()
	return f.changed, nil
}

// pause waits for the next write of any entry.
func (f *faulty) pause(ctx context.Context) error {
	changed, err := f.next(ctx)
	if err != nil {
		return err
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
