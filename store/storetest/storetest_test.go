package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/storetest"
)

// faultVariable makes a process run the suite over one broken store: a suite that fails fails its process.
const faultVariable = "STORETEST_FAULT"

// atOnce is how many such processes run beside each other. They wait more than they work.
const atOnce = 4

// faults is everything that a store is seen to be wrong in.
var faults = slices.Concat(writeFaults, readFaults)

// options are for a store in which f is wrong. Peer and Reopen break what they open as well.
func options(f fault) *storetest.Options {
	base := func(s retrysafe.Store) *engine { return s.(*faulty).engine }
	return &storetest.Options{
		Peer:      func(_ *testing.T, s retrysafe.Store) retrysafe.Store { return f.in(base(s)) },
		Reopen:    func(_ *testing.T, s retrysafe.Store) retrysafe.Store { return f.in(newEngine(base(s).crash())) },
		StallSync: func(_ *testing.T, s retrysafe.Store) func() { return base(s).disk.stall() },
		Load:      400,
		MaxBody:   1 << 17,
		Patience:  2 * time.Second,
	}
}

func run(t *testing.T, f fault, o *storetest.Options) {
	storetest.Run(t, func(*testing.T) retrysafe.Store {
		return f.in(newEngine(newDisk(map[retrysafe.ID]retrysafe.Entry{}, time.Time{})))
	}, o)
}

// limited is a Store and nothing else. It knows how many calls were under way at once, at most.
type limited struct {
	s           retrysafe.Store
	calls, most *atomic.Int64
}

func (l limited) call() (end func()) {
	n := l.calls.Add(1)
	for most := l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
	}
	return func() { l.calls.Add(-1) }
}

func (l limited) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	defer l.call()()
	return l.s.Create(ctx, e)
}

func (l limited) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	defer l.call()()
	return l.s.Swap(ctx, old, e)
}

func (l limited) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	defer l.call()()
	return l.s.Delete(ctx, id, old)
}

func (l limited) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	defer l.call()()
	return l.s.Get(ctx, ids...)
}

func TestPlainStorePassesWithFewCallersAtOnce(t *testing.T) {
	var calls, most atomic.Int64
	storetest.Run(t, func(*testing.T) retrysafe.Store {
		return limited{newEngine(newDisk(map[retrysafe.ID]retrysafe.Entry{}, time.Time{})), &calls, &most}
	}, &storetest.Options{Callers: 3, Load: 400})
	if n := most.Load(); n < 2 || n > 3 {
		t.Errorf("%d calls were under way at once, want 2 or 3", n)
	}
}

func TestCorrectStorePasses(t *testing.T) {
	o := options(fault{})
	o.Load, o.Patience = 2000, 10*time.Second
	run(t, fault{}, o)
}

// TestFaultsAreFound runs the suite over each broken store. The case that names the broken promise must fail,
// in both modes; and where every answer arrives, none but those that break with it. No case may be left that
// nothing makes fail.
func TestFaultsAreFound(t *testing.T) {
	if name := os.Getenv(faultVariable); name != "" {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		run(t, faults[i], options(faults[i]))
		return
	}
	var mu sync.Mutex
	seen, idle := 0, map[string]bool{} // cases, and whether none of their runs has failed
	slots := make(chan struct{}, atOnce)
	t.Run("each", func(t *testing.T) {
		for _, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				o := inSlot(t, f, slots)
				o.check(t, f)
				mu.Lock()
				defer mu.Unlock()
				seen++
				for name, failed := range o.arriving {
					stillIdle, known := idle[name]
					idle[name] = !failed && (stillIdle || !known)
				}
			})
		}
	})
	for name, never := range idle {
		if never && seen == len(faults) {
			t.Errorf("no fault makes the case %q fail", name)
		}
	}
}

// inSlot starts a run as soon as there is a slot, and waits for it beside the other tests. A race shows by
// chance: on a busy machine it may take more than one run.
func inSlot(t *testing.T, f fault, slots chan struct{}) outcome {
	t.Helper()
	slots <- struct{}{}
	first := make(chan outcome, 1)
	go func() {
		defer func() { <-slots }()
		first <- runBroken(t, f)
	}()
	t.Parallel()
	o := <-first
	for again := 0; again < 2 && !o.found(f); again++ {
		o = runBroken(t, f)
	}
	return o
}

// An outcome is which cases failed of those that ran, in each mode.
type outcome struct {
	arriving, lost map[string]bool
	output         string
}

// found tells whether the case that names the promise failed in both modes.
func (o *outcome) found(f fault) bool { return o.arriving[f.fails] && o.lost[f.fails] }

func (o *outcome) check(t *testing.T, f fault) {
	t.Helper()
	if !o.found(f) {
		t.Errorf("case %q failed: %v where answers arrive, %v where they are lost; want both\n%s", f.fails, o.arriving[f.fails], o.lost[f.fails], o.output)
	}
	for name, failed := range o.arriving {
		if failed && name != f.fails && !slices.Contains(f.also, name) && !slices.Equal(f.also, everything) {
			t.Errorf("case %q failed too", name)
		}
	}
}

var verdictLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestFaultsAreFound/([^/\n]+)/([^/\n]+) \(`)

// runBroken runs the suite over a store with f in a process of its own: all cases where every answer arrives,
// and the one that must fail where first answers are lost.
func runBroken(t *testing.T, f fault) outcome {
	const self = "^TestFaultsAreFound$"
	pattern := self + "/^every answer arrives$|" + self + "/^first answers are lost$/^" + regexp.QuoteMeta(f.fails) + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+pattern, "-test.timeout=3m")
	cmd.Env = append(os.Environ(), faultVariable+"="+f.name)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Errorf("run the suite in a process of its own: %v", err)
	}
	o := outcome{arriving: map[string]bool{}, lost: map[string]bool{}, output: string(out)}
	for _, m := range verdictLine.FindAllStringSubmatch(o.output, -1) {
		failed := o.arriving
		if m[2] == "first_answers_are_lost" {
			failed = o.lost
		}
		failed[strings.ReplaceAll(m[3], "_", " ")] = m[1] == "FAIL"
	}
	return o
}
