package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What a caller may rely on whose context ends.

// endedContext makes every call with a context that has ended. None is kept, none is told that all went well.
func endedContext(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	ended, end := context.WithCancel(ctx)
	end()
	calls := map[string]func() error{
		"get": func() error { _, _, err := t.store.Get(ended, standing.ID); return err },
	}
	for _, w := range []sending{
		{verb: create, e: t.entry()},
		{verb: swap, old: retrysafe.NewRev(), e: t.next(standing)},
		{verb: remove, old: retrysafe.NewRev(), e: standing},
	} {
		calls[w.verb.String()] = func() error { _, err := w.to(ended, t.store); return err }
	}
	if t.list != nil {
		calls["list"] = func() error { _, err := t.list.List(ended, retrysafe.Query{Scope: standing.Scope}); return err }
	}
	for what, call := range calls {
		for range 64 { // a store that waits for its work and for the context at once takes either
			if err := t.soon(what+" with an ended context", call); err == nil {
				t.Errorf("%s with an ended context: no error", what)
			}
		}
	}
	t.stands(ctx, standing)
}

// A cut is a write whose context ended at some time around it.
type cut struct {
	sending
	before *retrysafe.Entry // what stood; nil for nothing
	rep    retrysafe.Reply
	err    error
}

// cuts makes writes of all kinds, each under an ID of its own, whose contexts end before, while or after the
// store is at work.
func (t *trial) cuts(ctx context.Context) []cut {
	t.Helper()
	cuts := make([]cut, 150)
	for i := range cuts {
		c := &cuts[i]
		c.verb, c.e = verb(i%3), t.entry()
		if c.verb != create {
			standing := t.create(ctx, c.e)
			c.before, c.old, c.e = &standing, standing.Rev, t.next(standing)
		}
	}
	t.each(len(cuts), func(i int) error {
		limited, cancel := context.WithTimeout(ctx, time.Duration(i/3)*20*time.Microsecond)
		defer cancel()
		cuts[i].rep, cuts[i].err = cuts[i].to(limited, t.store)
		return nil
	})
	return cuts
}

// stands is how a write left its ID: as it was before, as it was to be, or neither.
func (c *cut) stands(ctx context.Context, s retrysafe.Store) (before, after bool, err error) {
	entries, _, err := s.Get(ctx, c.e.ID)
	if err != nil || len(entries) == 0 {
		return c.before == nil, c.verb == remove, err
	}
	got := entries[0]
	before = c.before != nil && difference(got, *c.before) == ""
	after = c.verb != remove && difference(got, c.e) == ""
	return before, after, nil
}

func cutOffWrites(ctx context.Context, t *trial) {
	for _, c := range t.cuts(ctx) {
		before, after, err := c.stands(ctx, t.peer)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		if !before && !after || c.err == nil && !after {
			t.Fatalf("%v cut off with error %v: entry is as before: %v, as written: %v", c.verb, c.err, before, after)
		}
		rep, err := c.to(ctx, t.store)
		if err != nil || !rep.OK {
			t.Fatalf("%v sent again after it was cut off with error %v: OK %v, %v", c.verb, c.err, rep.OK, err)
		}
		if _, after, err := c.stands(ctx, t.peer); err != nil || !after {
			t.Fatalf("%v sent again after it was cut off: entry is as written: %v, %v", c.verb, after, err)
		}
	}
}

func notWritten(ctx context.Context, t *trial) {
	cuts := t.cuts(ctx)
	t.create(ctx, t.entry()) // what was under way before it has come through, or never will
	for _, c := range cuts {
		if !errors.Is(c.err, retrysafe.ErrNotWritten) {
			continue
		}
		if before, _, err := c.stands(ctx, t.peer); err != nil || !before {
			t.Fatalf("%v says %q: entry is as before: %v, %v", c.verb, c.err, before, err)
		}
	}
}

// stalledContext leaves a caller with a disk that does not answer.
func stalledContext(ctx context.Context, t *trial) {
	standing := t.create(ctx, t.entry())
	writes := []sending{{verb: create, e: t.entry()}, {verb: swap, old: standing.Rev, e: t.next(standing)}}
	resume := t.stall()
	for _, w := range writes {
		limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		call := fmt.Sprintf("%v on a stalled disk", w.verb)
		if err := t.soon(call, func() error { _, err := w.to(limited, t.store); return err }); err == nil {
			t.Fatalf("%s: no error", call)
		}
	}
	resume()
	for _, w := range writes {
		rep, err := w.to(ctx, t.store)
		t.wrote(fmt.Sprintf("%v sent again when the disk went on", w.verb), rep, err, w.e)
	}
}
