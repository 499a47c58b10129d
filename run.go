package retrysafe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run runs what has to run beside the operations, until ctx ends: the sweeper and the flush of replay counts.
// Without it nothing is lost: what is due is decided when it is read; only the bytes stay.
func (e *Executor) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.o.SweepInterval)
	defer ticker.Stop()
	for {
		began := time.Now()
		n, err := e.Sweep(ctx)
		e.observe(ctx, Event{Kind: EventSwept, Count: n, Took: time.Since(began), Err: err})
		if err != nil && ctx.Err() == nil {
			e.o.Logger.Error("sweep failed", "changed", n, "err", err)
		}
		e.flushReplays(ctx)
		e.countHeld(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// countHeld tells the observer how many outcomes are held as unknown. A store that cannot list, or does not answer, is
// not counted.
func (e *Executor) countHeld(ctx context.Context) {
	list, ok := e.store.(Inspector)
	claims := e.claims.Load()
	if !ok || claims == nil || e.o.Observer == nil {
		return
	}
	q, held := Query{States: []State{Unknown}, Limit: sweepBatch}, 0
	for held < HeldCounted {
		page, err := claims.list(ctx, list, q)
		if err != nil {
			return
		}
		held += len(page.Entries)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	e.observe(ctx, Event{Kind: EventHeld, Count: min(held, HeldCounted)})
}

// sweepBatch bounds the entries that one pass reads at once, sweepers those that it writes at once: a store that
// commits in groups takes them as one. While operations are under way a sweep rests sweepRest times as long as each
// batch took: what is served comes first.
const (
	sweepBatch = 256
	sweepers   = 64
	sweepRest  = 4
)

// Sweep passes once over all entries that are due: claims whose lease ended become Unknown where their policy
// holds them, and are released where it is two-step and they had not acted; answers whose retention ended become
// tombstones, what is no longer remembered is dropped. It returns how many entries changed. A store that cannot list is
// not swept.
func (e *Executor) Sweep(ctx context.Context) (changed int, err error) {
	list, ok := e.store.(Inspector)
	if !ok {
		return 0, nil
	}
	claims, err := e.open(ctx)
	if err != nil {
		return 0, err
	}
	q := Query{States: []State{Free, InFlight, Completed, UnknownAnswered, Tombstone}, Due: true, Limit: sweepBatch}
	for {
		began := time.Now()
		page, err := claims.list(ctx, list, q)
		if err != nil {
			return changed, fmt.Errorf("sweep: %w", err)
		}
		n, err := claims.sweepPage(ctx, page)
		changed += n
		if err != nil {
			return changed, fmt.Errorf("sweep: %w", err)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return changed, nil
		}
		if err := e.giveWay(ctx, sweepRest*time.Since(began)); err != nil {
			return changed, fmt.Errorf("sweep: %w", err)
		}
	}
}

// giveWay waits for d if operations are under way.
func (e *Executor) giveWay(ctx context.Context, d time.Duration) error {
	e.mu.Lock()
	busy := e.active > 0
	e.mu.Unlock()
	if !busy {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// sweepPage sweeps the entries of a page, some at once. After an error it ends with what is under way.
func (c *Claims) sweepPage(ctx context.Context, page Page) (int, error) {
	var changed atomic.Int64
	for some := range slices.Chunk(page.Entries, sweepers) {
		errs := make([]error, len(some))
		var under sync.WaitGroup
		for i, entry := range some {
			under.Go(func() {
				did, err := c.Sweep(ctx, entry, page.Now)
				if errs[i] = err; did {
					changed.Add(1)
				}
			})
		}
		under.Wait()
		for _, err := range errs {
			if err != nil {
				return int(changed.Load()), err
			}
		}
	}
	return int(changed.Load()), nil
}

// Sweep does to one entry, as it stood at now, what its times ask for. An unreadable entry is left alone.
func (c *Claims) Sweep(ctx context.Context, e Entry, now time.Time) (changed bool, err error) {
	rec, err := e.record()
	if err != nil {
		return false, nil
	}
	ed := decide(meet(&e, &rec, now), sweep)
	if ed == nil || ed.to == e.State {
		return false, nil
	}
	var next Entry
	drop := ed.to == Absent
	switch {
	case ed.to == Unknown:
		next = c.declaredOver(e, rec)
	case ed.to == Tombstone:
		next = buried(e, rec, now)
	case ed.fence && len(rec.history) > 0: // kept Free, and no longer its owner's
		before := e
		before.Epoch, rec.nonce = nextEpoch(e.epoch(), now), NewRev()
		next, drop = c.ended(before, rec, Outcome{State: Free}), false
	}
	rep, err := c.replace(ctx, e, next, drop)
	return rep.OK, err
}

// buried is what is remembered of an operation when its answer is no longer kept.
func buried(e Entry, rec record, now time.Time) Entry {
	e.State, rec.answer = Tombstone, nil
	e = rebased(e, rec, now)
	rec, _ = e.record()
	e.Due = e.TTL
	e.put(rec)
	return e
}

// counts is how often each answer was replayed since the last flush: approximate, per process and bounded.
type counts struct {
	mu sync.Mutex
	n  map[ID]uint64
}

// maxCounted bounds the keys that are counted between two flushes; further ones go uncounted.
const maxCounted = 1 << 16

func (c *counts) add(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[ID]uint64{}
	}
	if _, known := c.n[id]; known || len(c.n) < maxCounted {
		c.n[id]++
	}
}

func (c *counts) of(id ID) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[id]
}

func (c *counts) take() map[ID]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

// flushReplays adds the counts to their entries. What cannot be written is dropped: a count is no promise.
func (e *Executor) flushReplays(ctx context.Context) {
	claims := e.claims.Load()
	if claims == nil {
		return
	}
	for id, n := range e.replays.take() {
		if ctx.Err() != nil || claims.countReplays(ctx, id, n) != nil {
			return
		}
	}
}

func (c *Claims) countReplays(ctx context.Context, id ID, n uint64) error {
	entries, now, err := c.get(ctx, id)
	if err != nil || len(entries) == 0 {
		return err
	}
	e := entries[0]
	rec, err := e.record()
	if s := meet(&e, &rec, now); err != nil || s != done && s != failed {
		return nil
	}
	rec.replays += n
	_, err = c.replace(ctx, e, rebased(e, rec, now), false)
	return err
}
