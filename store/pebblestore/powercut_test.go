package pebblestore

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// The power is cut around every sync, while many write. What was told before must be there afterwards: what was
// acknowledged, and what was shown to a reader or told to a caller who was refused.

var cuts = flag.Int("cuts", defaultCuts, "how often TestPowerCut cuts the power")

// A load is writers at work on a store. The nth write of an ID is told by n: a create, three swaps, a delete, and
// again. So it is enough to know of each ID how far it has come.
type load struct {
	store *Store
	disk  *disk
	ids   []retrysafe.ID
	sent  []atomic.Int64 // of each ID: the write that was sent last
	known []atomic.Int64 // the last one of which anybody was told that it took place
	stamp atomic.Int64   // latest that anybody was told
	under atomic.Int64   // calls that wait
	told  atomic.Int64   // writes that were acknowledged

	mu   sync.Mutex
	cuts []cut
}

const round = 5 // writes from one create to the next

// A cut is what is left of a disk, and what was known before.
type cut struct {
	disk    *disk
	percent int
	what    string
	known   []int64
	sent    []int64
	stamp   int64
	under   int64 // calls that were waiting
	commit  bool  // it fell on a sync of the log
}

func newLoad(d *disk, s *Store, ids int) *load {
	l := &load{store: s, disk: d, ids: make([]retrysafe.ID, ids), sent: make([]atomic.Int64, ids), known: make([]atomic.Int64, ids)}
	for i := range l.ids {
		l.ids[i] = idOf(i)
	}
	return l
}

// raise makes n the value of a, unless it is higher.
func raise(a *atomic.Int64, n int64) {
	for was := a.Load(); was < n && !a.CompareAndSwap(was, n); was = a.Load() {
	}
}

// learn takes note of what somebody was told that stands under the ith ID.
func (l *load) learn(i int, e retrysafe.Entry) {
	raise(&l.known[i], e.Epoch)
	raise(&l.stamp, e.Stamp.UnixMicro())
}

// write sends the next write of the ith ID. One goroutine at a time.
func (l *load) write(t *testing.T, i int) error {
	n := l.sent[i].Add(1)
	l.under.Add(1)
	defer l.under.Add(-1)
	rep, err := l.send(t, i, n)
	if err != nil {
		return err
	}
	if !rep.OK {
		return fmt.Errorf("write %d under ID %d was refused: %d stands", n, i, rep.Entry.Epoch)
	}
	raise(&l.known[i], n)
	raise(&l.stamp, rep.Entry.Stamp.UnixMicro())
	l.told.Add(1)
	return nil
}

func (l *load) send(t *testing.T, i int, n int64) (retrysafe.Reply, error) {
	id, before := l.ids[i], numbered(l.ids[i], n-1, retrysafe.InFlight).Rev
	switch n % round {
	case 1:
		return l.store.Create(t.Context(), numbered(id, n, retrysafe.InFlight))
	case 0:
		return l.store.Delete(t.Context(), id, before)
	}
	return l.store.Swap(t.Context(), before, numbered(id, n, retrysafe.Completed))
}

// look asks for the ith ID as a reader, or as somebody who would create it too.
func (l *load) look(t *testing.T, i int, create bool) error {
	if !create {
		entries, _, err := l.store.Get(t.Context(), l.ids[i])
		if err == nil && len(entries) == 1 {
			l.learn(i, entries[0])
		}
		return err
	}
	if l.known[i].Load()%round == 0 { // it might be created
		return nil
	}
	rep, err := l.store.Swap(t.Context(), retrysafe.Rev{1}, retrysafe.Entry{ID: l.ids[i]})
	if err == nil && rep.Found {
		l.learn(i, rep.Entry)
	}
	return err
}

// run has writers at work, each on IDs of its own, and readers among them, until stop says so.
func (l *load) run(t *testing.T, writers int, stop func() bool) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(w), 1)); !stop(); {
				own := r.IntN(len(l.ids)/writers)*writers + w
				err := l.write(t, own)
				if err == nil && r.IntN(4) == 0 {
					err = l.look(t, r.IntN(len(l.ids)), r.IntN(2) == 0)
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// cut cuts the power, percent of what is not synced survives. What is known is read before, what was sent after:
// the truth at the cut lies between.
func (l *load) cut(name string, percent int, seed uint64) cut {
	c := cut{percent: percent, what: fmt.Sprintf("%s, %d %% of what was not synced, seed %d", name, percent, seed), stamp: l.stamp.Load(),
		under: l.under.Load(), commit: strings.HasSuffix(name, ".log")}
	for i := range l.known {
		c.known = append(c.known, l.known[i].Load())
	}
	c.disk = l.disk.cut(percent, seed)
	for i := range l.sent {
		c.sent = append(c.sent, l.sent[i].Load())
	}
	return c
}

// percentOf is for every other cut nothing of what was not synced, else some of it.
func percentOf(seed uint64) int {
	if seed%2 == 0 {
		return 0
	}
	return 1 + int(seed*31%100)
}

// cutting takes up to n cuts around the syncs of the load's disk, and tells whether it has them.
func (l *load) cutting(n int, seed uint64, percent func(uint64) int) (done func() bool) {
	var taken atomic.Int64
	l.disk.watch(func(name string) {
		if i := taken.Add(1); i <= int64(n) {
			c := l.cut(name, percent(seed+uint64(i)), seed+uint64(i))
			l.mu.Lock()
			defer l.mu.Unlock()
			l.cuts = append(l.cuts, c)
		}
	})
	return func() bool { return taken.Load() >= int64(n) }
}

// lost says of which IDs the store does not hold what was known before the cut.
func (c *cut) lost(t *testing.T, s *Store) (lost []string) {
	entries, err := listAll(t.Context(), s, retrysafe.Query{Limit: 1000})
	if err != nil {
		t.Fatalf("%s: List: %v", c.what, err)
	}
	at := map[retrysafe.ID]retrysafe.Entry{}
	for _, e := range entries {
		at[e.ID] = e
	}
	for i := range c.known {
		e, found := at[idOf(i)]
		if n := e.Epoch; !c.possible(i, n, found) {
			lost = append(lost, fmt.Sprintf("ID %d: write %d stands (%v), known were %d, sent %d", i, n, found, c.known[i], c.sent[i]))
		}
		if found {
			c.whole(t, e)
		}
	}
	return lost
}

// possible tells whether write n, or nothing, may stand under the ith ID.
func (c *cut) possible(i int, n int64, found bool) bool {
	if found {
		return n >= c.known[i] && n <= c.sent[i] && n%round != 0
	}
	return c.known[i]%round == 0 || c.sent[i]/round > c.known[i]/round // a delete was known, or may have come since
}

// whole checks that e is one write, not a mixture of two.
func (c *cut) whole(t *testing.T, e retrysafe.Entry) {
	state := retrysafe.Completed
	if e.Epoch%round == 1 {
		state = retrysafe.InFlight
	}
	want := numbered(e.ID, e.Epoch, state)
	want.Orphan = state == retrysafe.InFlight
	if diff := differs(e, want); diff != "" {
		t.Errorf("%s: write %d of %.12s is torn (-want +got):\n%s", c.what, e.Epoch, e.ID, diff)
	}
}

// survives checks all that is promised of a cut.
func (c *cut) survives(t *testing.T) {
	t.Helper()
	if r, err := verify(t.Context(), "keys", c.disk); err != nil && !c.early() || r.Wrong != 0 {
		t.Errorf("%s: Verify: %v, problems %q", c.what, err, r.Problems)
	}
	s, err := open("keys", on(c.disk, small))
	if err != nil {
		t.Errorf("%s: Open: %v", c.what, err)
		return
	}
	defer s.Close()
	if lost := c.lost(t, s); len(lost) > 0 {
		t.Errorf("%s: lost %d: %s", c.what, len(lost), lost[0])
	}
	rep, err := s.Create(t.Context(), numbered(idOf(1<<20), 1, retrysafe.InFlight))
	if err != nil || !rep.OK {
		t.Errorf("%s: Create afterwards: %+v, %v", c.what, rep, err)
	}
	if got := rep.Entry.Stamp.UnixMicro(); got <= c.stamp {
		t.Errorf("%s: stamp %d given, after %d was", c.what, got, c.stamp)
	}
}

// copy is the same cut, for another to open.
func (c cut) copy() cut {
	c.disk = c.disk.killed()
	return c
}

// early tells whether nothing can be asked of Verify: the first opening had not come to its end.
func (c *cut) early() bool { return c.stamp == 0 }

// small makes tables often, so that cuts fall among them.
var small = &Options{memTable: 32 << 10}

// TestPowerCut holds the promise of the package: what was told is there after a power cut.
func TestPowerCut(t *testing.T) {
	const perRound = 80
	var fell, commits, under, told int
	var wg sync.WaitGroup
	gate := make(chan struct{}, 2) // cuts that are looked at at once
	for seed := uint64(0); fell < *cuts && !t.Failed(); seed += perRound {
		l := loaded(t, min(perRound, *cuts-fell), seed)
		told += int(l.told.Load())
		for _, c := range l.cuts {
			fell++
			if c.commit {
				commits++
			}
			if c.under > 0 {
				under++
			}
			gate <- struct{}{}
			wg.Go(func() { defer func() { <-gate }(); c.survives(t) })
		}
	}
	wg.Wait()
	t.Logf("%d power cuts, %d on a sync of the log, %d while calls were waiting; %d writes acknowledged", fell, commits, under, told)
	if fell < *cuts || under < fell/2 || commits < fell/4 || commits == fell || told < 2*fell {
		t.Errorf("void: too little was under way")
	}
}

// loaded is a load that went on until it was cut n times, each sync twice.
func loaded(t *testing.T, n int, seed uint64) *load {
	t.Helper()
	d := newDisk()
	l := newLoad(d, openOn(t, d, small), 64)
	l.run(t, 16, func() bool { return l.told.Load() > 400 || t.Failed() })
	done := l.cutting(n, seed, percentOf)
	l.run(t, 16, func() bool { return done() || t.Failed() })
	until(t, "the last cut is there", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.cuts) == n || t.Failed()
	})
	return l
}

// TestPowerCutWhileOpening cuts the power around every sync of an opening, the first one of a folder and those after
// a power cut, and then around those of the opening after that.
func TestPowerCutWhileOpening(t *testing.T) {
	fresh := newLoad(newDisk(), nil, 1)
	fell := reopened(t, fresh.cut("nothing yet", 0, 0), 2)
	l := loaded(t, 12, 5)
	for _, c := range l.cuts[len(l.cuts)-4:] {
		fell += reopened(t, c, 1)
	}
	t.Logf("%d power cuts while a folder was opened", fell)
	if fell < 100 {
		t.Errorf("void: too few cuts")
	}
}

// reopened opens what a cut left, cuts again around every sync of that, and checks each; deep says how often so.
func reopened(t *testing.T, c cut, deep int) (fell int) {
	t.Helper()
	var mu sync.Mutex
	var again []cut
	c.disk.watch(func(name string) {
		mu.Lock()
		defer mu.Unlock()
		next := c
		seed := uint64(len(again))
		next.what = fmt.Sprintf("%s; then opening, cut at %s, seed %d", c.what, name, seed)
		next.disk = c.disk.cut(percentOf(seed), seed)
		again = append(again, next)
	})
	s, err := open("keys", on(c.disk, small))
	if err != nil {
		t.Fatalf("%s: Open: %v", c.what, err)
	}
	c.disk.watch(nil)
	s.Close()
	for i, next := range again {
		if deep > 1 && (i%8 == 0 || *cuts > 10_000) {
			fell += reopened(t, next.copy(), deep-1)
		}
		next.survives(t)
	}
	return fell + len(again)
}

// TestUnsyncedWritesAreLost is the control: the same load, with writes that are not synced, must be seen to lose some.
// If it does not, the tests above prove nothing.
func TestUnsyncedWritesAreLost(t *testing.T) {
	d := newDisk()
	l := newLoad(d, openOn(t, d, &Options{noSync: true}), 64)
	began := time.Now()
	l.run(t, 16, func() bool { return l.told.Load() > 2000 || time.Since(began) > patience })
	c := l.cut("the end", 0, 0)
	s, err := open("keys", on(c.disk, small))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	lost := c.lost(t, s)
	t.Logf("%d of %d IDs lost what was acknowledged", len(lost), len(c.known))
	if len(lost) == 0 {
		t.Errorf("nothing was lost: the cut does not cut, or the check does not see")
	}
}
