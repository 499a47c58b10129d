package idemhttp_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Lease, retention and memory as callers meet them.

// TT-1: an answer is kept from the end of the operation, not from the claim. TT-2: nothing but the clock decides
// that it is over; no sweeper runs here.
func TestRetentionCountsFromTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := retrysafe.Options{Retention: 2 * time.Hour, Remember: time.Hour}
		l := newLab(t, setup{core: core}, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(90 * time.Minute)
			charged(w, r)
		})
		l.executor.Sweep(t.Context())
		wantCharged(t, "first", l.do(post("k")), false)
		advance(119 * time.Minute)
		wantCharged(t, "within retention of its end", l.do(post("k")), true)
		advance(2 * time.Minute)
		wantProblem(t, "TT-7 after retention", l.do(post("k")), 410, problem.AnswerExpired)
		advance(time.Hour)
		wantCharged(t, "after memory", l.do(post("k")), false)
		l.wantRuns(t, 2)
	})
}

// With memory off, a late retry is a first request.
func TestMemoryOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{core: retrysafe.Options{Retention: time.Hour, Remember: retrysafe.Off}}, charged)
		l.do(post("k"))
		advance(61 * time.Minute)
		wantCharged(t, "after retention", l.do(post("k")), false)
		l.wantRuns(t, 2)
	})
}

// TT-8: an operator frees a key on purpose.
func TestForgottenKeyRunsAgain(t *testing.T) {
	l := newLab(t, setup{}, charged)
	l.do(post("k"))
	if _, err := l.executor.Forget(t.Context(), idOf("k"), "operator", "double booking was undone", true); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	wantCharged(t, "after it was forgotten", l.do(post("k")), false)
	l.wantRuns(t, 2)
}

// TO-4: the lease is short and kept alive while the handler runs. TT-5: Retry-After stays within it and grows with
// the operation's age, so that who obeys it backs off.
func TestSlowHandlerKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{core: retrysafe.Options{Lease: 9 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(10 * time.Minute)
			charged(w, r)
		})
		first := l.start(post("k"))
		synctest.Wait()
		for range 5 {
			got := l.do(post("k"))
			wantProblem(t, "meanwhile", got, 409, problem.InFlight)
			wantRetryAfter(t, "meanwhile", got, 9)
			advance(time.Minute)
		}
		wantCharged(t, "first", <-first, false)
		wantCharged(t, "again", l.do(post("k")), true)
		l.wantRuns(t, 1)
	})
}

// gated returns a handler each of whose runs shows its gate and answers like charged once that is closed.
func gated() (http.HandlerFunc, <-chan chan struct{}) {
	gates := make(chan chan struct{}, 8)
	return func(w http.ResponseWriter, r *http.Request) {
		gate := make(chan struct{})
		gates <- gate
		<-gate
		charged(w, r)
	}, gates
}

// abandoned starts a request whose owner gives no sign of life after a second, as if its process had died, and lets
// its lease of 2 s end.
func abandoned(t *testing.T, end retrysafe.LeaseEnd) (l *lab, gone <-chan reply, gates <-chan chan struct{}) {
	h, gates := gated()
	policy := &retrysafe.Policy{OnLeaseEnd: end, Lease: 2 * time.Second, Retention: time.Hour, Remember: time.Hour}
	l = newLab(t, setup{core: retrysafe.Options{MaxRun: time.Second}, guard: idemhttp.Options{Policy: policy}}, h)
	gone = l.start(post("k"))
	synctest.Wait()
	advance(time.Second)
	wantProblem(t, "within the lease", l.do(post("k")), 409, problem.InFlight)
	advance(2 * time.Second)
	return l, gone, gates
}

// CR-1: when a process dies, its keys are decided when their lease ends, as their policy says, not a day later.
func TestOwnerIsGoneAndHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, gone, gates := abandoned(t, retrysafe.Hold)
		got := l.do(post("k"))
		wantProblem(t, "after the lease", got, 409, problem.OutcomeUnknown)
		wantStatus(t, "after the lease", got, 409, "unknown")
		wantRetryAfter(t, "after the lease", got, 0)
		close(<-gates)
		wantStatus(t, "the late one", <-gone, 201, "")
		wantCharged(t, "again", l.do(post("k")), true)
		l.wantRuns(t, 1)
	})
}

// Where a second owner took over, the late one changes nothing: its caller is told that its answer is not recorded,
// or gets the second's, when that is there.
func TestOwnerIsGoneAndRerun(t *testing.T) {
	for name, lateFirst := range map[string]bool{"the late one ends first": true, "the late one ends last": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, gone, gates := abandoned(t, retrysafe.Rerun)
				second := l.start(post("k"))
				first, taken := <-gates, <-gates
				if lateFirst {
					close(first)
					got := <-gone
					wantCharged(t, "the late one", got, false)
					wantStatus(t, "the late one", got, 201, "unrecorded")
					wantProblem(t, "meanwhile", l.do(post("k")), 409, problem.InFlight)
				}
				close(taken)
				wantCharged(t, "second", <-second, false)
				if !lateFirst {
					close(first)
					wantCharged(t, "the late one", <-gone, true)
				}
				wantCharged(t, "again", l.do(post("k")), true)
				l.wantRuns(t, 2)
			})
		})
	}
}

// CR-10: a handler that outlives its lease and fails then is remembered from its end.
func TestFailureAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Hour)
			w.WriteHeader(500)
		}
		l := newLab(t, setup{core: retrysafe.Options{Lease: 2 * time.Second, MaxRun: time.Second, Retention: time.Minute, Remember: time.Minute}}, h)
		wantStatus(t, "first", l.do(post("k")), 500, "")
		advance(59 * time.Second)
		wantStatus(t, "again", l.do(post("k")), 500, "unknown")
		advance(2 * time.Second)
		wantProblem(t, "after retention", l.do(post("k")), 410, problem.AnswerExpired)
		l.wantRuns(t, 1)
	})
}

// Recovery that finds what happened answers with it; one that finds nothing lets the caller run; one that fails
// leaves the key held.
func TestRecovery(t *testing.T) {
	found := retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}
	for _, tt := range []struct {
		name    string
		outcome retrysafe.Outcome
		status  int
		said    string
	}{
		{"it happened", found, 204, "answer-not-kept"},
		{"it did not", retrysafe.Outcome{State: retrysafe.Free}, 201, ""},
		{"nobody knows", retrysafe.Outcome{}, 409, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held := true
			asked := 0
			recovering := func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) { asked++; return tt.outcome, nil }
			policy := &retrysafe.Policy{OnLeaseEnd: retrysafe.Recover, Lease: time.Minute, Retention: time.Hour}
			l := newLab(t, setup{guard: idemhttp.Options{Recover: recovering, Policy: policy}}, func(w http.ResponseWriter, r *http.Request) {
				if held {
					idemhttp.MayHaveActed(r.Context(), "")
				}
				charged(w, r)
			})
			wantStatus(t, "first", l.do(post("k")), 201, "unknown")
			held = false
			wantStatus(t, "again", l.do(post("k")), tt.status, tt.said)
			if asked != 1 {
				t.Errorf("the world was asked %d times, want once", asked)
			}
		})
	}
}

// What makes no sense is refused at construction.
func TestNewRefuses(t *testing.T) {
	e := newLab(t, setup{}, charged).executor
	for _, tt := range []struct {
		name  string
		e     *retrysafe.Executor
		scope idemhttp.ScopeFunc
		o     *idemhttp.Options
	}{
		{"no executor", nil, idemhttp.SharedScope, nil},
		{"no scope", e, nil, nil},
		{"GET", e, idemhttp.SharedScope, &idemhttp.Options{Methods: []string{"POST", "GET"}}},
		{"CONNECT", e, idemhttp.SharedScope, &idemhttp.Options{Methods: []string{"CONNECT"}}},
		{"a method in small letters", e, idemhttp.SharedScope, &idemhttp.Options{Methods: []string{"post"}}},
		{"MaxKey", e, idemhttp.SharedScope, &idemhttp.Options{MaxKey: -1}},
		{"MaxBody", e, idemhttp.SharedScope, &idemhttp.Options{MaxBody: -1}},
		{"MaxResponse", e, idemhttp.SharedScope, &idemhttp.Options{MaxResponse: -1}},
		{"MaxBodies", e, idemhttp.SharedScope, &idemhttp.Options{MaxBodies: -1}},
		{"Bodies below MaxBody", e, idemhttp.SharedScope, &idemhttp.Options{MaxBody: 2, Bodies: idemhttp.NewBodies(1)}},
		{"MaxBodies below MaxBody", e, idemhttp.SharedScope, &idemhttp.Options{MaxBody: 2, MaxBodies: 1}},
		{"BodyTimeout", e, idemhttp.SharedScope, &idemhttp.Options{BodyTimeout: -2}},
		{"Wait", e, idemhttp.SharedScope, &idemhttp.Options{Wait: -1}},
		{"a header that is none", e, idemhttp.SharedScope, &idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"Idempotency Key"}}}},
		{"CR-2 a policy without a lease", e, idemhttp.SharedScope, &idemhttp.Options{Policy: &retrysafe.Policy{Retention: time.Hour}}},
		{"a policy with a negative lease", e, idemhttp.SharedScope, &idemhttp.Options{Policy: &retrysafe.Policy{Lease: -time.Second, Retention: time.Hour}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := idemhttp.New(tt.e, tt.scope, tt.o); err == nil {
				t.Errorf("New gave %v, want an error", m)
			}
		})
	}
	if _, err := idemhttp.New(e, idemhttp.SharedScope, nil); err != nil {
		t.Errorf("New with defaults: %v", err)
	}
}

// The links in problems lead where the configuration says.
func TestDocsBase(t *testing.T) {
	for _, base := range []string{"https://docs.example/api", "https://docs.example/api/"} {
		l := newLab(t, setup{guard: idemhttp.Options{DocsBase: base}}, charged)
		got := l.do(post(""))
		if want := `<https://docs.example/api/protocol.md#key-invalid>; rel="describedby"; type="text/html"`; got.header.Get("Link") != want {
			t.Errorf("Link is %s, want %s", got.header.Get("Link"), want)
		}
	}
}
