// Package memstore is a Store in the memory of one process: for tests, for development, and for a single
// process whose keys may die with it. It is bounded. When it is full it refuses new keys with [ErrFull]
// (over HTTP a 503, nothing runs) and drops nothing but what is no longer remembered: a live claim, a held
// outcome or a kept answer never gives way to a newer key.
//
// Durable on return means as long as the process lives. The clock is the process's own, and monotonic.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/wake"
)

// Options bound a Store. Nil, and the zero value of each field, is the default.
type Options struct {
	MaxEntries int // defaults to 1,000,000
	MaxBytes   int // of entries with their bodies, estimated. Defaults to 1 GiB
}

// ErrFull says that a bound is reached and that nothing can be dropped. Nothing was written.
var ErrFull = errors.New("memory store is full")

// shards keep listings and waiters of some keys out of the way of the others. A power of two.
const shards = 64

// A Store keeps entries in memory. Use New.
type Store struct {
	shards     [shards]shard
	maxEntries int64
	maxBytes   int64
	entries    atomic.Int64
	bytes      atomic.Int64
	soonest    atomic.Int64 // when the memory of some entry ends next, or earlier; Unix microseconds
}

var (
	_ retrysafe.Store     = (*Store)(nil)
	_ retrysafe.Waiter    = (*Store)(nil)
	_ retrysafe.Inspector = (*Store)(nil)
)

// A shard holds the entries whose ID begins with the same bits. Its stamps never repeat: the entry created
// after a deletion is younger than the deleted one, whatever the wall clock does.
type shard struct {
	mu      sync.Mutex
	entries map[retrysafe.ID]item
	waiting wake.Set
	start   time.Time // of the store: its clock goes on from there whatever the wall clock does
	last    time.Time // stamp given last
}

// New returns an empty Store.
func New(o *Options) *Store {
	s := &Store{maxEntries: 1_000_000, maxBytes: 1 << 30}
	if o != nil && o.MaxEntries > 0 {
		s.maxEntries = int64(o.MaxEntries)
	}
	if o != nil && o.MaxBytes > 0 {
		s.maxBytes = int64(o.MaxBytes)
	}
	s.soonest.Store(math.MaxInt64)
	start := time.Now()
	for i := range s.shards {
		s.shards[i].start = start
		s.shards[i].entries = map[retrysafe.ID]item{}
	}
	return s
}

// lock returns the shard of id, locked.
func (s *Store) lock(id retrysafe.ID) *shard {
	sh := &s.shards[id[0]%shards]
	sh.mu.Lock()
	return sh
}

// since is the clock: the wall clock at start and the monotonic time that has passed since. A wall clock that is
// set forward must not end leases and forget keys.
func since(start time.Time) time.Time {
	return start.Add(time.Since(start)).Truncate(time.Microsecond) // Truncate drops the monotonic reading
}

// now is the clock in whole microseconds, never behind the last stamp.
func (sh *shard) now() time.Time {
	now := since(sh.start)
	if now.Before(sh.last) {
		return sh.last
	}
	return now
}

// Create writes e unless an entry stands.
func (s *Store) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Reply{}, notWritten(err)
	}
	if rep, ok := s.create(e); ok {
		return rep, nil
	}
	s.dropForgotten()
	if rep, ok := s.create(e); ok {
		return rep, nil
	}
	return retrysafe.Reply{}, notWritten(ErrFull)
}

// create is Create as long as there is room.
func (s *Store) create(e retrysafe.Entry) (rep retrysafe.Reply, ok bool) {
	sh := s.lock(e.ID)
	defer sh.mu.Unlock()
	if standing := sh.entries[e.ID]; standing != none {
		return sh.refusal(e.ID, standing, standing.is(e.Rev)), true
	}
	if !s.reserve(size(itemLen(&e))) {
		return retrysafe.Reply{}, false
	}
	return s.put(sh, e), true
}

// Swap writes e over the entry whose Rev is old. It is refused by no bound: an outcome must find its place.
func (s *Store) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Reply{}, notWritten(err)
	}
	sh := s.lock(e.ID)
	defer sh.mu.Unlock()
	standing := sh.entries[e.ID]
	if !standing.is(old) {
		return sh.refusal(e.ID, standing, standing.is(e.Rev)), nil
	}
	s.bytes.Add(size(itemLen(&e)) - size(len(standing)))
	return s.put(sh, e), nil
}

// Delete removes the entry whose Rev is old.
func (s *Store) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Reply{}, notWritten(err)
	}
	sh := s.lock(id)
	defer sh.mu.Unlock()
	standing := sh.entries[id]
	if !standing.is(old) {
		return sh.refusal(id, standing, standing == none), nil
	}
	s.drop(sh, id, standing)
	return retrysafe.Reply{OK: true, Now: sh.now()}, nil
}

// Get returns the entries that stand under ids.
func (s *Store) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, fmt.Errorf("memstore: %w", err)
	}
	var found []retrysafe.Entry
	latest := since(s.shards[0].start)
	for _, id := range ids {
		sh := s.lock(id)
		if standing := sh.entries[id]; standing != none {
			found = append(found, standing.entry(id))
		}
		if now := sh.now(); now.After(latest) {
			latest = now
		}
		sh.mu.Unlock()
	}
	return found, latest, nil
}

func notWritten(err error) error {
	return fmt.Errorf("memstore: %w: %w", retrysafe.ErrNotWritten, err)
}

// put writes e, for which there is room, with a new stamp, and tells who waits for it.
func (s *Store) put(sh *shard, e retrysafe.Entry) retrysafe.Reply {
	now := sh.now()
	if !now.After(sh.last) {
		now = sh.last.Add(time.Microsecond)
	}
	sh.last, e.Stamp = now, now
	if e.TTL > 0 {
		s.endsAt(now.Add(e.TTL))
	}
	sh.entries[e.ID] = itemOf(&e)
	sh.waiting.Wake(e.ID)
	return retrysafe.Reply{Entry: e, Found: true, OK: true, Now: now}
}

// refusal is the reply to a write that found another entry, its own from an earlier sending, or none.
func (sh *shard) refusal(id retrysafe.ID, standing item, ok bool) retrysafe.Reply {
	rep := retrysafe.Reply{OK: ok, Now: sh.now()}
	if standing != none {
		rep.Entry, rep.Found = standing.entry(id), true
	}
	return rep
}

func (s *Store) drop(sh *shard, id retrysafe.ID, standing item) {
	delete(sh.entries, id)
	s.entries.Add(-1)
	s.bytes.Add(-size(len(standing)))
	sh.waiting.Wake(id)
}

// reserve makes room for one more entry, if the bounds allow it.
func (s *Store) reserve(bytes int64) bool {
	if s.entries.Add(1) > s.maxEntries {
		s.entries.Add(-1)
		return false
	}
	if s.bytes.Add(bytes) > s.maxBytes {
		s.bytes.Add(-bytes)
		s.entries.Add(-1)
		return false
	}
	return true
}

// endsAt notes that the memory of an entry ends at t.
func (s *Store) endsAt(t time.Time) {
	for at := t.UnixMicro(); ; {
		known := s.soonest.Load()
		if at >= known || s.soonest.CompareAndSwap(known, at) {
			return
		}
	}
}

// dropForgotten drops what is no longer remembered. It looks through the entries only when the memory of one of
// them can have ended: a store that is full and refuses must not be slow as well.
func (s *Store) dropForgotten() {
	if since(s.shards[0].start).UnixMicro() < s.soonest.Load() {
		return
	}
	s.soonest.Store(math.MaxInt64)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		now := sh.now()
		for id, e := range sh.entries {
			switch {
			case e.ttl() > 0 && now.Sub(e.stamp()) >= e.ttl():
				s.drop(sh, id, e)
			case e.ttl() > 0:
				s.endsAt(e.stamp().Add(e.ttl()))
			}
		}
		sh.mu.Unlock()
	}
}

// Wait returns when the Rev under id is not old any more.
func (s *Store) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	sh := s.lock(id)
	if !sh.entries[id].is(old) {
		sh.mu.Unlock()
		return nil
	}
	ticket := sh.waiting.Join(id)
	sh.mu.Unlock()
	if err := ticket.Wait(ctx); err != nil {
		return fmt.Errorf("memstore: wait: %w", err)
	}
	return nil
}
