// Package wake is who waits, within one process, for entries of a store to change.
package wake

import (
	"context"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// A Set is who waits, by the entry that they wait for. Its zero value is empty and ready.
type Set struct {
	mu      sync.Mutex // guards what follows
	waiting map[retrysafe.ID]*Ticket
	closed  bool
}

// A Ticket is a place in a Set: Wait for it, once.
type Ticket struct {
	set     *Set
	id      retrysafe.ID
	changed chan struct{}
	count   int // of those who wait; guarded by the set's mu
}

// Join returns a place among those who wait for id. Who joins while the entry cannot change, and has seen that it
// did not, misses no change.
func (s *Set) Join(id retrysafe.ID) *Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.waiting[id]
	if t == nil {
		t = &Ticket{set: s, id: id, changed: make(chan struct{})}
		if s.closed {
			close(t.changed)
			return t
		}
		if s.waiting == nil {
			s.waiting = map[retrysafe.ID]*Ticket{}
		}
		s.waiting[id] = t
	}
	t.count++
	return t
}

// Wait returns nil when the entry has changed since Join, or the Set was closed, and ctx's error when that ends first.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.changed:
		return nil
	case <-ctx.Done():
	}
	t.set.leave(t)
	return ctx.Err()
}

func (s *Set) leave(t *Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.count--; t.count == 0 && s.waiting[t.id] == t {
		delete(s.waiting, t.id)
	}
}

// Wake tells all who wait for id that it has changed.
func (s *Set) Wake(id retrysafe.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.waiting[id]; t != nil {
		close(t.changed)
		delete(s.waiting, id)
	}
}

// Close wakes all who wait, and whoever comes to wait after that.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.waiting {
		close(t.changed)
	}
	clear(s.waiting)
}

// Len returns for how many entries somebody waits.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
