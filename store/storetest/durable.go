package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What a store that outlives its process promises.

// survivesCrash crashes the store while writers are at work: what any of them was told before must be there.
func survivesCrash(ctx context.Context, t *trial) {
	created := t.create(ctx, t.entry())
	swapped := t.create(ctx, t.entry())
	swapped = t.swap(ctx, swapped.Rev, t.next(swapped))
	deleted := t.create(ctx, t.entry())
	t.remove(ctx, deleted)

	runs := make([]run, 8)
	for i := range runs {
		runs[i].first = t.create(ctx, numbered(t.entry(), 0))
	}
	after := t.crashedUnder(ctx, runs)
	after.stands(ctx, created)
	after.stands(ctx, swapped)
	after.absent(ctx, deleted.ID)
	for i := range runs {
		if err := runs[i].read(ctx, t, after.store); err != nil {
			t.Fatalf("after a crash: %v", err)
		}
	}
	if again := after.create(ctx, t.next(deleted)); !again.Stamp.After(deleted.Stamp) {
		t.Fatalf("create after a crash is stamped %v, after the deletion of an entry stamped %v", again.Stamp, deleted.Stamp)
	}
}

// crashedUnder crashes the store under runs at work and returns what is left. What the runs hold as acknowledged
// is what they knew before the crash.
func (t *trial) crashedUnder(ctx context.Context, runs []run) *trial {
	t.Helper()
	var wg sync.WaitGroup
	writing, stop := context.WithCancel(ctx)
	end := func() { stop(); wg.Wait() }
	defer end()
	for i := range runs {
		wg.Go(func() { runs[i].write(writing, t, 1<<30) }) // ends with the store, or with its context
	}
	acknowledged := make([]int64, len(runs))
	for i := range runs {
		for acknowledged[i] < int64(t.many(1000)) {
			if err := rest(ctx, time.Millisecond); err != nil || runs[i].ended.Load() {
				t.Fatalf("writer ended after %d writes, before the crash", acknowledged[i])
			}
			acknowledged[i] = runs[i].acknowledged.Load()
		}
	}
	after := t.reopen()
	end()
	for i := range runs {
		runs[i].acknowledged.Store(acknowledged[i])
	}
	return after
}

// reopen crashes the store and returns a trial of what is left.
func (t *trial) reopen() *trial {
	t.Helper()
	return newTrial(t.T, t.o.Reopen(t.T, t.raw), t.wrap, t.o)
}

// stall keeps writes from becoming durable until resume is called, or the case ends.
func (t *trial) stall() (resume func()) {
	t.Helper()
	resume = sync.OnceFunc(t.o.StallSync(t.T, t.raw))
	t.Cleanup(resume)
	return resume
}

// A look is a call of somebody else while a write waits for the disk. What it is told then must be what stood
// before the write.
type look struct {
	what   string
	call   func() (retrysafe.Reply, error)
	before *retrysafe.Entry // nil for nothing
}

// judge says what is wrong with an answer that came while the disk was stalled.
func (l *look) judge(rep retrysafe.Reply) error {
	switch {
	case rep.OK:
		return fmt.Errorf("%s: told OK before anything could become durable", l.what)
	case rep.Found != (l.before != nil):
		return fmt.Errorf("%s: told that an entry stands: %v, before that was durable", l.what, rep.Found)
	case rep.Found && rep.Entry.Rev != l.before.Rev:
		return fmt.Errorf("%s: told of a write before it was durable", l.what)
	}
	return nil
}

// looks is every way to be told of w while it waits for the disk. None of them can undo w.
func (t *trial) looks(ctx context.Context, w sending, before *retrysafe.Entry) []look {
	onto := func(verb string) string { return fmt.Sprintf("%s during a %v", verb, w.verb) }
	looks := []look{
		{onto("get"), func() (retrysafe.Reply, error) { return found(t.store.Get(ctx, w.e.ID)) }, before},
		{onto("get from elsewhere"), func() (retrysafe.Reply, error) { return found(t.peer.Get(ctx, w.e.ID)) }, before},
		{onto("another's create"), func() (retrysafe.Reply, error) { return t.store.Create(ctx, t.next(w.e)) }, before},
		{onto("another's swap"), func() (retrysafe.Reply, error) { return t.store.Swap(ctx, retrysafe.NewRev(), t.next(w.e)) }, before},
		{onto("the same write sent again"), func() (retrysafe.Reply, error) { return w.to(ctx, t.peer) }, before},
	}
	if t.list == nil {
		return looks
	}
	scopes := map[string]*retrysafe.Entry{w.e.Scope: nil}
	if before != nil {
		scopes[before.Scope] = before
	}
	for scope, before := range scopes {
		looks = append(looks, look{onto("list"), func() (retrysafe.Reply, error) {
			page, err := t.list.List(ctx, retrysafe.Query{Scope: scope})
			return found(page.Entries, page.Now, err)
		}, before})
	}
	return looks
}

// found is the first of entries as an answer.
func found(entries []retrysafe.Entry, _ time.Time, err error) (rep retrysafe.Reply, _ error) {
	if len(entries) > 0 {
		rep.Entry, rep.Found = entries[0], true
	}
	return rep, err
}

// hiddenUntilDurable stalls the disk under a create, a swap and a delete, and looks from everywhere. Calls may
// wait, or fail, or tell what stood before.
func hiddenUntilDurable(ctx context.Context, t *trial) {
	swapped, deleted := t.create(ctx, t.entry()), t.create(ctx, t.entry())
	s := stalled{resume: t.stall()}
	fresh := s.write(ctx, t, sending{verb: create, e: t.entry()}, nil)
	swap := s.write(ctx, t, sending{verb: swap, old: swapped.Rev, e: t.next(swapped)}, &swapped)
	remove := s.write(ctx, t, sending{verb: remove, old: deleted.Rev, e: deleted}, &deleted)
	for range 3 {
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			t.Fatalf("writes on a stalled disk: %v", err)
		}
		s.look()
	}
	if err := rest(ctx, 60*time.Millisecond); err != nil {
		t.Fatalf("looks at a stalled disk: %v", err)
	}
	s.resumed.Store(true)
	s.resume()
	t.soon("calls that met a stalled disk, when it went on", func() error { s.under.Wait(); return nil })
	if s.wrong.n > 0 {
		t.Fatalf("%d calls were told of what was not durable; first %v", s.wrong.n, s.wrong.first)
	}
	if fresh.err != nil || !fresh.rep.Found { // another's create may have been first
		t.Fatalf("create, when the disk went on: %+v, %v", fresh.rep, fresh.err)
	}
	t.stands(ctx, fresh.rep.Entry)
	t.wrote("swap, when the disk went on", swap.rep, swap.err, swap.e)
	t.stands(ctx, swap.rep.Entry)
	if remove.err != nil || remove.rep.Entry.Rev == deleted.Rev { // what stands, if anything, was created after it
		t.Fatalf("delete, when the disk went on: %+v, %v", remove.rep, remove.err)
	}
}

// stalled is a stalled disk, and the calls that meet it.
type stalled struct {
	resume  func()
	resumed atomic.Bool // set before resume is called
	under   sync.WaitGroup
	wrong   collected
	looks   []look
}

// write sends w, which waits for the disk, and lets look look at it.
func (s *stalled) write(ctx context.Context, t *trial, w sending, before *retrysafe.Entry) *cut {
	s.looks = append(s.looks, t.looks(ctx, w, before)...)
	c := &cut{sending: w}
	s.under.Go(func() {
		c.rep, c.err = w.to(ctx, t.store)
		if !s.resumed.Load() {
			s.wrong.add(fmt.Errorf("%v: answered before it was durable: OK %v, %v", w.verb, c.rep.OK, c.err))
		}
	})
	return c
}

func (s *stalled) look() {
	for _, l := range s.looks {
		s.under.Go(func() {
			if rep, err := l.call(); err == nil && !s.resumed.Load() {
				s.wrong.add(l.judge(rep))
			}
		})
	}
}
