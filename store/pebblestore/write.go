package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrysafe/retrysafe"
)

// queueLength bounds the writes that wait for the disk; maxGroup those that share a sync.
const (
	queueLength = 4096
	maxGroup    = 1024
	groupBytes  = 8 << 20
)

// A write is what one call puts into the folder, or, with nothing to put, a call that waits until all that was
// committed before it is durable. The lock that it holds is freed when it is durable, by whoever knows first that
// it is over; its caller may be gone by then.
type write struct {
	id         retrysafe.ID
	next       *row   // what stands when it is durable; nil: nothing
	key, value []byte // the same as bytes; no value: delete it
	add, drop  []byte // keys of the index; nil: none
	stripe     chan struct{}
	taken      atomic.Bool // by the group that commits it, or by a caller who leaves before that
	durable    chan error
}

// size estimates what w adds to a batch.
func (w *write) size() int { return len(w.key) + len(w.value) + len(w.add) + len(w.drop) + 32 }

func (w *write) end(err error) {
	if w.stripe != nil {
		<-w.stripe
	}
	w.durable <- err
}

// A decision is what becomes of a call when it is known what stands.
type decision uint8

const (
	refuse decision = iota // something else stands
	done                   // what was to be written stands already, from an earlier sending
	put                    // write the entry
	remove                 // delete what stands
)

// Create writes e unless an entry stands.
func (s *Store) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.change(ctx, e, func(standing *row) (decision, error) {
		switch {
		case standing != nil && standing.Rev == e.Rev:
			return done, nil
		case standing != nil:
			return refuse, nil
		case s.reserve.full():
			return refuse, ErrFull
		}
		return put, nil
	})
}

// Swap writes e over the entry whose Rev is old. A full disk does not refuse it: an outcome must find its place.
func (s *Store) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.change(ctx, e, func(standing *row) (decision, error) {
		switch {
		case standing != nil && standing.Rev == old:
			return put, nil
		case standing != nil && standing.Rev == e.Rev:
			return done, nil
		}
		return refuse, nil
	})
}

// Delete removes the entry whose Rev is old.
func (s *Store) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	return s.change(ctx, retrysafe.Entry{ID: id}, func(standing *row) (decision, error) {
		switch {
		case standing == nil:
			return done, nil
		case standing.Rev == old:
			return remove, nil
		}
		return refuse, nil
	})
}

// change reads what stands under the ID of e, lets decide say what becomes of it, and returns when that is durable.
func (s *Store) change(ctx context.Context, e retrysafe.Entry, decide func(standing *row) (decision, error)) (retrysafe.Reply, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	stripe, err := s.enter(ctx, e.ID)
	if err != nil {
		return retrysafe.Reply{}, err
	}
	standing, err := s.lookup(e.ID)
	var d decision
	if err == nil {
		d, err = decide(standing)
	}
	if err != nil {
		<-stripe
		return retrysafe.Reply{}, notWritten(err)
	}
	if d == refuse || d == done {
		<-stripe
		rep := retrysafe.Reply{Found: standing != nil, OK: d == done, Now: s.clock.now()}
		if standing != nil {
			rep.Entry = standing.own(s.boot)
		}
		return rep, nil
	}
	w := &write{id: e.ID, key: entryKey(e.ID), stripe: stripe}
	if standing != nil {
		w.drop = standing.indexKey(s.boot)
	}
	if d == remove {
		if err := s.send(ctx, w); err != nil {
			return retrysafe.Reply{}, err
		}
		return retrysafe.Reply{OK: true, Now: s.clock.now()}, nil
	}
	e.Stamp, e.Orphan = s.clock.stamp(), false
	w.next = &row{Entry: e, boot: s.boot}
	w.next.Body = bytes.Clone(e.Body)
	w.value, w.add = w.next.encode(), w.next.indexKey(s.boot)
	if err := s.send(ctx, w); err != nil {
		return retrysafe.Reply{}, err
	}
	return retrysafe.Reply{Entry: e, Found: true, OK: true, Now: s.clock.now()}, nil
}

// send has w committed and waits until it is durable. It gives up its lock whatever happens. Without
// ErrNotWritten an error leaves open whether w is, or will be, durable.
func (s *Store) send(ctx context.Context, w *write) error {
	w.durable = make(chan error, 1)
	select {
	case s.queue <- w:
	default:
		select {
		case s.queue <- w:
		case <-ctx.Done():
			w.end(nil)
			return notWritten(ctx.Err())
		case <-s.ended:
			w.end(nil)
			return notWritten(s.why())
		}
	}
	select {
	case err := <-w.durable:
		return err
	case <-ctx.Done():
		return w.leave(ctx.Err())
	case <-s.ended:
		return w.leave(s.why())
	}
}

// leave is the error of a caller who does not wait any longer. What was not taken to be committed never is.
func (w *write) leave(err error) error {
	if w.taken.CompareAndSwap(false, true) {
		return notWritten(err)
	}
	return fmt.Errorf("pebblestore: commit: %w", err)
}

// commit commits what is queued, group by group: what arrives during a sync shares the next. It ends with the
// store.
func (s *Store) commit() {
	last := 0 // writes in the group before
	for {
		select {
		case w := <-s.queue:
			last = s.commitGroup(w, last)
		case <-s.ended:
			return
		}
	}
}

// gathering bounds how long a group waits for the callers of the one before, who were told a moment ago and will
// soon be back: half a group each time would need twice the syncs.
const gathering = 100 * time.Microsecond

// commitGroup commits first and what is queued behind it in one batch, and returns how many writes that were. It
// waits a moment for as many as expected; one caller alone never waits.
func (s *Store) commitGroup(first *write, expected int) int {
	for began := time.Now(); len(s.queue)+1 < expected && time.Since(began) < gathering; {
		runtime.Gosched()
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	group := s.gather(batch, first)
	err := s.commitBatch(batch)
	for _, w := range group {
		s.remember(w, err)
		w.end(err)
		s.waiting.Wake(w.id)
	}
	return len(group)
}

// remember keeps what w wrote at hand, as long as its lock is held.
func (s *Store) remember(w *write, err error) {
	switch {
	case w.key == nil || err != nil: // it wrote nothing, or nobody knows what and the store has ended
	case w.next != nil:
		s.recent.put(w.next)
	default:
		s.recent.drop(w.id)
	}
}

// gather puts first and what is queued behind it into the batch.
func (s *Store) gather(batch *pebble.Batch, first *write) (group []*write) {
	for w, size := first, 0; ; {
		if w.taken.CompareAndSwap(false, true) {
			group = append(group, w)
			w.into(batch)
			size += w.size()
		} else { // its caller has left
			w.end(nil)
		}
		if size > groupBytes || len(group) == maxGroup {
			return group
		}
		select {
		case w = <-s.queue:
		default:
			return group
		}
	}
}

// into adds w to a batch. The batch copies what it is given.
func (w *write) into(b *pebble.Batch) {
	if w.drop != nil {
		b.Delete(w.drop, nil)
	}
	switch {
	case w.value != nil:
		b.Set(w.key, w.value, nil)
		b.Set(w.add, nil, nil)
	case w.key != nil:
		b.Delete(w.key, nil)
	}
}

// commitBatch makes b durable, and with it how far the clock has come.
func (s *Store) commitBatch(b *pebble.Batch) error {
	if b.Empty() { // nothing but calls that wait for the commit before this one
		return nil
	}
	if err := b.Set(clockKey, s.clock.record(), nil); err != nil {
		return fmt.Errorf("pebblestore: commit: %w", err)
	}
	if err := b.Commit(s.sync); err != nil {
		s.fail(err)
		return fmt.Errorf("pebblestore: commit: %w", err)
	}
	return nil
}

// barrier returns when all that was committed before the call is durable.
func (s *Store) barrier(ctx context.Context) error { return s.send(ctx, &write{}) }
