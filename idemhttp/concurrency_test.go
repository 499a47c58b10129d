package idemhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// CC-1, trap 1: of many attempts at once, over several processes on one store, one runs; every other is told that
// it is in flight, or gets the same answer.
func TestManyAtOnce(t *testing.T) {
	const processes, attempts = 5, 200
	first := newLab(t, setup{}, charged)
	guards := []http.Handler{first}
	var runs atomic.Int64
	for range processes - 1 {
		e, err := retrysafe.New(first.store, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := idemhttp.New(e, idemhttp.SharedScope, nil)
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			charged(w, r)
		})))
	}
	var all sync.WaitGroup
	start := make(chan struct{})
	var whole, busy atomic.Int64
	for i := range attempts {
		all.Go(func() {
			<-start
			switch got := answered(guards[i%processes], post("k")); {
			case got.status == 409:
				wantProblem(t, "attempt", got, 409, problem.InFlight)
				busy.Add(1)
			default:
				wantCharged(t, "attempt", got, got.header.Get("Idempotent-Replayed") != "")
				whole.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if n := first.runs.Load() + runs.Load(); n != 1 || whole.Load()+busy.Load() != attempts {
		t.Errorf("%d runs, %d answers, %d in flight, of %d attempts: want 1 run", n, whole.Load(), busy.Load(), attempts)
	}
}

// CC-2: an attempt that stood still just before its claim finds what was done meanwhile.
func TestPauseBeforeTheClaim(t *testing.T) {
	l := newLab(t, setup{}, charged)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var paused atomic.Bool
	l.store.hook(func(_ context.Context, verb string) error {
		if verb == "create" && paused.CompareAndSwap(false, true) {
			close(arrived)
			<-goOn
		}
		return nil
	})
	late := l.start(post("k"))
	recv(t, "the late one", arrived)
	wantCharged(t, "the other", l.do(post("k")), false)
	close(goOn)
	wantCharged(t, "the late one", recv(t, "the late one", late), true)
	l.wantRuns(t, 1)
}

// CC-5: who is refused takes nothing from the owner.
func TestRefusedAttemptsChangeNothing(t *testing.T) {
	h, running, letGo := blocking()
	l := newLab(t, setup{}, h)
	first := l.start(post("k"))
	recv(t, "the first", running)
	before := l.store.dump(t)
	for range 3 {
		wantProblem(t, "the same", l.do(post("k")), 409, problem.InFlight)
		wantProblem(t, "another", l.do(request(http.MethodPost, "/", "other", "Idempotency-Key", "k")), 422, problem.KeyReused)
	}
	if l.store.dump(t) != before {
		t.Error("refused attempts changed what stands")
	}
	close(letGo)
	wantCharged(t, "first", recv(t, "the first", first), false)
	wantCharged(t, "again", l.do(post("k")), true)
	l.wantRuns(t, 1)
}

// CC-14: the keys of one caller do not stand in each other's way.
func TestKeysAreIndependent(t *testing.T) {
	h, running, letGo := blocking()
	l := newLab(t, setup{}, h)
	var calls []<-chan reply
	for i := range 10 {
		calls = append(calls, l.start(post(fmt.Sprint("k", i))))
	}
	for range calls {
		recv(t, "each runs", running)
	}
	close(letGo)
	for i, c := range calls {
		wantCharged(t, fmt.Sprint("k", i), recv(t, "each", c), false)
	}
}

// TN-1: the scope is part of the key. Nothing of one caller can be seen, or be stood in the way of, by another.
func TestScopesNeverMeet(t *testing.T) {
	for _, tt := range []struct{ name, scope1, key1, scope2, key2 string }{
		{"the same key", "tenant-1", "k", "tenant-2", "k"},
		{"the same bytes in all", "ab", "c", "a", "bc"},
		{"case", "Tenant", "k", "tenant", "k"},
		{"separators", "a:b", "c", "a", "b:c"},
		{"NUL", "a\x00b", "c", "a", `"b c"`},
		{"SQL", "a", "' or 1=1 --", "a' or 1=1 --", "' or 1=1 --"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, running, letGo := blocking()
			scope := func(r *http.Request) (string, error) { return r.Header.Get("X-Scope"), nil }
			l := newLab(t, setup{scope: scope}, h)
			one := l.start(post(tt.key1, "X-Scope", tt.scope1))
			recv(t, "one", running)
			two := l.start(post(tt.key2, "X-Scope", tt.scope2))
			recv(t, "the other runs too", running)
			close(letGo)
			wantCharged(t, "one", recv(t, "one", one), false)
			wantCharged(t, "two", recv(t, "two", two), false)
			other := request(http.MethodPost, "/", "other", "Idempotency-Key", tt.key2, "X-Scope", tt.scope2)
			wantProblem(t, "a mismatch is the caller's own", l.do(other), 422, problem.KeyReused)
			l.wantRuns(t, 2)
		})
	}
}

// CC-16, TO-2: with Wait, a retry gets the answer when the first ends, or is told to come again.
func TestWaiting(t *testing.T) {
	for _, tt := range []struct {
		name     string
		took     time.Duration // by the first
		answered time.Duration // the second
		status   int
	}{{"the first ends in time", 500 * time.Millisecond, 500 * time.Millisecond, 201}, {"it does not", 5 * time.Second, 2 * time.Second, 409}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, setup{guard: idemhttp.Options{Wait: 2 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
					<-time.After(tt.took)
					charged(w, r)
				})
				first := l.start(post("k"))
				synctest.Wait()
				began := time.Now()
				got := l.do(post("k"))
				if waited := time.Since(began); waited < tt.answered || waited > tt.answered+100*time.Millisecond {
					t.Errorf("the second was answered after %v, want %v", waited, tt.answered)
				}
				if tt.status == 201 {
					wantCharged(t, "second", got, true)
				} else {
					wantProblem(t, "second", got, tt.status, problem.InFlight)
					wantRetryAfter(t, "second", got, 30)
				}
				wantCharged(t, "first", <-first, false)
				l.wantRuns(t, 1)
			})
		})
	}
}

// CC-7: a waiter that gives up leaves the claim where it is. TO-1: so does a provider that delivers again.
func TestWaiterThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{guard: idemhttp.Options{Wait: 200 * time.Millisecond}}, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(10 * time.Second)
			charged(w, r)
		})
		first := l.start(post("k"))
		for range 3 {
			advance(2800 * time.Millisecond)
			wantProblem(t, "delivered again", l.do(post("k")), 409, problem.InFlight)
		}
		wantCharged(t, "first", <-first, false)
		wantCharged(t, "delivered again", l.do(post("k")), true)
		l.wantRuns(t, 1)
	})
}

// Another request does not wait, nor does one for a held key.
func TestOnlyRetriesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := newLab(t, setup{guard: idemhttp.Options{Wait: time.Hour}}, h)
		first := l.start(post("k"))
		<-running
		began := time.Now()
		wantProblem(t, "another request", l.do(request(http.MethodPost, "/", "other", "Idempotency-Key", "k")), 422, problem.KeyReused)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another request waited %v", waited)
		}
		close(letGo)
		<-first
	})
}

// TO-5: a thousand waiters on one key cost the store no more than one does.
func TestThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := newLab(t, setup{guard: idemhttp.Options{Wait: time.Minute}}, h)
		first := l.start(post("k"))
		<-running
		l.store.calls.Store(0)
		var waiting []<-chan reply
		for range 1000 {
			waiting = append(waiting, l.start(post("k")))
		}
		advance(25 * time.Second)
		if n := l.store.calls.Load(); n > 1000+10 {
			t.Errorf("%d store calls by 1000 waiters in 25 s: want one each, and the heartbeats", n)
		}
		close(letGo)
		wantCharged(t, "first", <-first, false)
		for _, w := range waiting {
			wantCharged(t, "a waiter", <-w, true)
		}
		l.wantRuns(t, 1)
	})
}
