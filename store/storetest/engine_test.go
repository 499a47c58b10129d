package storetest_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A disk is what survives a crash. While it is stalled, nothing reaches it.
type disk struct {
	mu      sync.Mutex
	entries map[retrysafe.ID]retrysafe.Entry // guarded by mu
	running chan struct{}                    // closed while the disk is not stalled; guarded by mu
	last    time.Time                        // stamp given last; guarded by engine.lock
}

func newDisk(entries map[retrysafe.ID]retrysafe.Entry, last time.Time) *disk {
	d := &disk{entries: entries, running: make(chan struct{}), last: last}
	close(d.running)
	return d
}

func (d *disk) stall() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	running := make(chan struct{})
	d.running = running
	return func() { close(running) }
}

// ready waits until the disk is not stalled.
func (d *disk) ready(ctx context.Context) error {
	d.mu.Lock()
	running := d.running
	d.mu.Unlock()
	select {
	case <-running:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *disk) put(id retrysafe.ID, e *retrysafe.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set(d.entries, id, e)
}

func set(m map[retrysafe.ID]retrysafe.Entry, id retrysafe.ID, e *retrysafe.Entry) {
	if e == nil {
		delete(m, id)
		return
	}
	m[id] = *e
}

// An engine is the smallest correct store with a stage of durability: one call at a time, and none sees a write
// that has not reached the disk.
type engine struct {
	disk    *disk
	lock    chan struct{}                    // holds a token while nobody is at work; guards what follows
	entries map[retrysafe.ID]retrysafe.Entry // what callers see
	changed chan struct{}                    // closed at the next write

	// Faults replace these.
	key    func(retrysafe.ID) retrysafe.ID // under which an entry is kept
	clock  func() time.Time
	stamp  func(s *engine, e retrysafe.Entry) time.Time
	commit func(ctx context.Context, s *engine, id retrysafe.ID, e *retrysafe.Entry) error // makes a write durable and visible
}

func newEngine(d *disk) *engine {
	s := &engine{disk: d, lock: make(chan struct{}, 1), entries: maps.Clone(d.entries), changed: make(chan struct{}),
		key: func(id retrysafe.ID) retrysafe.ID { return id }, clock: microseconds, stamp: laterThanAny, commit: syncThenShow}
	s.release()
	return s
}

func microseconds() time.Time { return time.Now().Truncate(time.Microsecond) }

// now is the clock, never behind a stamp.
func (s *engine) now() time.Time {
	now := s.clock()
	if now.Before(s.disk.last) {
		return s.disk.last
	}
	return now
}

func laterThanAny(s *engine, _ retrysafe.Entry) time.Time {
	if now := s.now(); now.After(s.disk.last) {
		return now
	}
	return s.disk.last.Add(time.Microsecond)
}

func syncThenShow(ctx context.Context, s *engine, id retrysafe.ID, e *retrysafe.Entry) error {
	if err := s.disk.ready(ctx); err != nil {
		return fmt.Errorf("sync: %w: %w", retrysafe.ErrNotWritten, err)
	}
	s.disk.put(s.key(id), e)
	s.show(id, e)
	return nil
}

func (s *engine) show(id retrysafe.ID, e *retrysafe.Entry) {
	set(s.entries, s.key(id), e)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *engine) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", retrysafe.ErrNotWritten, err)
	}
	select {
	case <-s.lock:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", retrysafe.ErrNotWritten, ctx.Err())
	}
}

func (s *engine) release() { s.lock <- struct{}{} }

// update lets decide look at what stands, and commits what it returns where it says so.
func (s *engine) update(ctx context.Context, id retrysafe.ID, decide func(*retrysafe.Reply) (write bool, e *retrysafe.Entry)) (rep retrysafe.Reply, err error) {
	if err := s.acquire(ctx); err != nil {
		return rep, err
	}
	defer s.release()
	rep.Entry, rep.Found = s.entries[s.key(id)]
	write, e := decide(&rep)
	if rep.Now = s.now(); !write {
		rep.Entry.Body = bytes.Clone(rep.Entry.Body)
		return rep, nil
	}
	if e != nil {
		e.Stamp, e.Body = s.stamp(s, *e), bytes.Clone(e.Body)
		s.disk.last = e.Stamp
	}
	if err := s.commit(ctx, s, id, e); err != nil {
		return retrysafe.Reply{}, err
	}
	rep = retrysafe.Reply{Found: e != nil, OK: true, Now: s.now()}
	if e != nil {
		rep.Entry = *e
		rep.Entry.Body = bytes.Clone(e.Body)
	}
	return rep, nil
}

func (s *engine) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.update(ctx, e.ID, func(rep *retrysafe.Reply) (bool, *retrysafe.Entry) {
		rep.OK = rep.Found && rep.Entry.Rev == e.Rev
		return !rep.Found, &e
	})
}

func (s *engine) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.update(ctx, e.ID, func(rep *retrysafe.Reply) (bool, *retrysafe.Entry) {
		rep.OK = rep.Found && rep.Entry.Rev == e.Rev
		return rep.Found && rep.Entry.Rev == old, &e
	})
}

func (s *engine) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	return s.update(ctx, id, func(rep *retrysafe.Reply) (bool, *retrysafe.Entry) {
		rep.OK = !rep.Found
		return rep.Found && rep.Entry.Rev == old, nil
	})
}

// force writes e, or deletes what stands, whatever stands. Only faults do so.
func (s *engine) force(ctx context.Context, id retrysafe.ID, e *retrysafe.Entry) (retrysafe.Reply, error) {
	return s.update(ctx, id, func(*retrysafe.Reply) (bool, *retrysafe.Entry) { return true, e })
}

func (s *engine) Get(ctx context.Context, ids ...retrysafe.ID) (found []retrysafe.Entry, now time.Time, err error) {
	if err := s.acquire(ctx); err != nil {
		return nil, now, err
	}
	defer s.release()
	for _, id := range ids {
		if e, ok := s.entries[s.key(id)]; ok {
			e.Body = bytes.Clone(e.Body)
			found = append(found, e)
		}
	}
	return found, s.now(), nil
}

func (s *engine) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	for {
		if err := s.acquire(ctx); err != nil {
			return ctx.Err()
		}
		e, found := s.entries[s.key(id)]
		changed := s.changed
		s.release()
		if !found || e.Rev != old {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *engine) List(ctx context.Context, q retrysafe.Query) (page retrysafe.Page, err error) {
	last, err := hex.DecodeString(q.Cursor)
	if err != nil || len(last) != 0 && len(last) != len(retrysafe.ID{}) {
		return page, fmt.Errorf("list: %w: foreign cursor", retrysafe.ErrInvalid)
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if err := s.acquire(ctx); err != nil {
		return page, err
	}
	defer s.release()
	page.Now = s.now()
	for _, e := range slices.SortedFunc(maps.Values(s.entries), byID) {
		if bytes.Compare(e.ID[:], last) <= 0 && len(last) > 0 || !selects(q, e, page.Now) {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.Next = page.Entries[q.Limit-1].ID.String()
			break
		}
		e.Body = bytes.Clone(e.Body)
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

func byID(a, b retrysafe.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) }

func selects(q retrysafe.Query, e retrysafe.Entry, now time.Time) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, e.State)) &&
		(q.Scope == "" || q.Scope == e.Scope) && strings.HasPrefix(e.Display, q.Prefix) && (!q.Due || now.Sub(e.Stamp) >= e.Due)
}

// crash returns what another engine finds on the disk as it is now.
func (s *engine) crash() *disk {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	var last time.Time
	for _, e := range s.disk.entries {
		if e.Stamp.After(last) {
			last = e.Stamp
		}
	}
	return newDisk(maps.Clone(s.disk.entries), last)
}
