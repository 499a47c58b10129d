package idemhttp_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

func byTenant(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

// TN-8: who asks too much is told when to come again, and disturbs nobody else.
func TestQuotaOfRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{scope: byTenant, guard: idemhttp.Options{Quota: idemhttp.Quota{Rate: 0.5, Burst: 2}}}, charged)
		wantCharged(t, "first", l.do(post("1", "X-Tenant", "a")), false)
		wantCharged(t, "again", l.do(post("1", "X-Tenant", "a")), true)
		got := l.do(post("2", "X-Tenant", "a"))
		wantProblem(t, "one too many", got, 429, problem.QuotaExceeded)
		wantRetryAfter(t, "one too many", got, 2)
		calls := l.store.calls.Load()
		for i := range 100 {
			wantProblem(t, "a flood", l.do(post(fmt.Sprint(i), "X-Tenant", "a")), 429, problem.QuotaExceeded)
		}
		if n := l.store.calls.Load() - calls; n != 0 {
			t.Errorf("a flood made %d store calls, want none", n)
		}
		wantCharged(t, "another tenant", l.do(post("2", "X-Tenant", "b")), false)
		advance(2 * time.Second) // as it was told
		wantCharged(t, "when it was told to come", l.do(post("2", "X-Tenant", "a")), false)
		l.wantRuns(t, 3)
	})
}

func TestQuotaOfRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := newLab(t, setup{scope: byTenant, guard: idemhttp.Options{Quota: idemhttp.Quota{InFlight: 2}}}, h)
		one, two := l.start(post("1", "X-Tenant", "a")), l.start(post("2", "X-Tenant", "a"))
		<-running
		<-running
		got := l.do(post("3", "X-Tenant", "a"))
		wantProblem(t, "a third at once", got, 429, problem.QuotaExceeded)
		wantRetryAfter(t, "a third at once", got, 1)
		other := l.start(post("1", "X-Tenant", "b"))
		<-running
		close(letGo)
		for _, done := range []<-chan reply{one, two, other} {
			wantCharged(t, "first", <-done, false)
		}
		wantCharged(t, "when there is room", l.do(post("3", "X-Tenant", "a")), false)
	})
}

// A request that panics, or is refused, leaves its place.
func TestPlacesAreLeft(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Quota: idemhttp.Quota{InFlight: 1}}}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for i := range 3 {
		if got := l.do(post(fmt.Sprint(i))); !got.cut {
			t.Errorf("request %d: got %d, want it to run", i, got.status)
		}
	}
}

func TestQuotaIsRefused(t *testing.T) {
	l := newLab(t, setup{}, charged)
	for _, q := range []idemhttp.Quota{{Rate: -1}, {Burst: -1}, {InFlight: -1}} {
		if _, err := idemhttp.New(l.executor, idemhttp.SharedScope, &idemhttp.Options{Quota: q}); err == nil {
			t.Errorf("%+v: taken", q)
		}
	}
}

// A flood of scopes does not fill the memory, and takes nobody's place who is under way.
func TestQuotaForgetsScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		first := true
		l := newLab(t, setup{scope: byTenant, guard: idemhttp.Options{Quota: idemhttp.Quota{Rate: 1, InFlight: 1}}}, func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				h(w, r)
			}
		})
		done := l.start(post("1", "X-Tenant", "a"))
		<-running
		for i := range idemhttp.MaxTenants + 100 {
			if got := l.do(post("1", "X-Tenant", fmt.Sprint(i))); got.status != 200 {
				t.Fatalf("scope %d: got %d", i, got.status)
			}
		}
		if n := idemhttp.Tenants(l.guard); n > idemhttp.MaxTenants {
			t.Errorf("%d scopes are remembered", n)
		}
		wantProblem(t, "who is under way", l.do(post("2", "X-Tenant", "a")), 429, problem.QuotaExceeded)
		close(letGo)
		<-done
	})
}
