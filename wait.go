package retrysafe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// waiters lets many callers wait for claims to end at the cost of one reader: a thousand waiters on one key
// cost as many store reads as one, also while its lease is extended and when it ends. Goroutines run only
// while somebody waits.
type waiters struct {
	store    Store
	interval time.Duration
	timeout  time.Duration // of one store call

	mu       sync.Mutex
	watched  map[watchKey]*watch
	spinning bool // the poller runs
}

// A watchKey is the claim whose end is waited for.
type watchKey struct {
	id    ID
	epoch int64
}

// A watch is one claim with everybody who waits for its end. Its fields but ended are guarded by waiters.mu.
type watch struct {
	key    watchKey
	rev    Rev       // of its entry, as seen last
	lease  time.Time // its end, on our clock
	count  int       // waiters
	ended  chan struct{}
	reply  Reply // what stands instead, once ended is closed
	cancel context.CancelFunc
}

func (w *waiters) init(s Store, o *Options) {
	w.store, w.interval, w.timeout, w.watched = s, o.PollInterval, o.StoreTimeout, map[watchKey]*watch{}
}

// wait waits until the claim that stands in c's way has ended, and returns what stands then; or until its
// lease has, and returns nil. ok is false when patience or ctx ended first.
func (w *waiters) wait(ctx context.Context, c *Claim, patience time.Duration) (stands *Reply, ok bool) {
	wt := w.join(c)
	defer w.leave(wt)
	until := time.Now().Add(patience)
	for {
		left := w.leaseLeft(wt)
		if left <= 0 {
			return nil, true
		}
		if time.Until(until) <= 0 {
			return nil, false
		}
		timer := time.NewTimer(min(time.Until(until), left))
		select {
		case <-wt.ended:
			timer.Stop()
			return &wt.reply, true
		case <-ctx.Done():
			timer.Stop()
			return nil, false
		case <-timer.C:
		}
	}
}

// leaseLeft is 1 ms longer than the lease: the store's clock and ours need not agree to the tick.
func (w *waiters) leaseLeft(wt *watch) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(wt.lease) + time.Millisecond
}

func (w *waiters) join(c *Claim) *watch {
	key := watchKey{c.id, c.epoch}
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.watched[key]
	if wt == nil {
		wt = &watch{key: key, rev: c.entry.Rev, lease: time.Now().Add(c.Left), ended: make(chan struct{})}
		w.watched[key] = wt
		w.start(wt)
	}
	wt.count++
	return wt
}

// start makes somebody look after wt. It is called with mu held.
func (w *waiters) start(wt *watch) {
	ctx, cancel := context.WithCancel(context.Background())
	wt.cancel = cancel
	if s, ok := w.store.(Waiter); ok {
		go w.listen(ctx, s, wt)
		return
	}
	if !w.spinning {
		w.spinning = true
		go w.poll()
	}
}

func (w *waiters) leave(wt *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wt.count--; wt.count == 0 {
		w.drop(wt)
	}
}

func (w *waiters) drop(wt *watch) {
	wt.cancel()
	if w.watched[wt.key] == wt {
		delete(w.watched, wt.key)
	}
}

// saw takes in what stands under wt's ID at now: the same claim, perhaps extended, or its end.
func (w *waiters) saw(wt *watch, e Entry, found bool, now time.Time) (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found && e.State == InFlight && e.epoch() == wt.key.epoch {
		if e.Rev != wt.rev {
			wt.rev, wt.lease = e.Rev, time.Now().Add(e.Due-now.Sub(e.Stamp))
		}
		return false
	}
	if w.watched[wt.key] == wt {
		w.drop(wt)
		wt.reply = Reply{Entry: e, Found: found, Now: now}
		close(wt.ended)
	}
	return true
}

// listen waits with the store's own means, for as long as anybody waits for wt.
func (w *waiters) listen(ctx context.Context, s Waiter, wt *watch) {
	for {
		w.mu.Lock()
		rev := wt.rev
		w.mu.Unlock()
		if err := s.Wait(ctx, wt.key.id, rev); err == nil {
			ended, changed := w.look(ctx, wt, rev)
			if ended {
				return
			}
			if changed {
				continue
			}
		}
		select { // nothing new, or the store is in trouble: not in a tight loop
		case <-ctx.Done():
			return
		case <-time.After(w.interval):
		}
	}
}

func (w *waiters) look(ctx context.Context, wt *watch, rev Rev) (ended, changed bool) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	entries, now, err := w.store.Get(ctx, wt.key.id)
	if err != nil {
		return false, false
	}
	if len(entries) == 0 {
		return w.saw(wt, Entry{}, false, now), true
	}
	return w.saw(wt, entries[0], true, now), entries[0].Rev != rev
}

// pollBatch bounds the IDs of one Get.
const pollBatch = 500

// poll looks at all watched claims at every interval until nobody waits any more.
func (w *waiters) poll() {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for range ticker.C {
		all := w.pending()
		if all == nil {
			return
		}
		for part := range slices.Chunk(all, pollBatch) {
			w.lookAt(part)
		}
	}
}

// pending returns what is watched; with nothing, it says that the poller ends.
func (w *waiters) pending() []*watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) == 0 {
		w.spinning = false
		return nil
	}
	return slices.Collect(maps.Values(w.watched))
}

func (w *waiters) lookAt(part []*watch) {
	ids := make([]ID, 0, len(part))
	for _, wt := range part {
		ids = append(ids, wt.key.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	entries, now, err := w.store.Get(ctx, ids...)
	if err != nil {
		return // the waiters' own patience ends it
	}
	standing := make(map[ID]Entry, len(entries))
	for _, e := range entries {
		standing[e.ID] = e
	}
	for _, wt := range part {
		e, found := standing[wt.key.id]
		w.saw(wt, e, found, now)
	}
}
