package idemhttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// What becomes of an operation whose owner is gone, where the handler honours the key itself.

// died returns a lab whose first request to the key k ended as nobody knows: the handler said so, as a gateway does
// whose upstream broke off. From then on it answers like h.
func died(t *testing.T, o idemhttp.Options, h http.HandlerFunc) *lab {
	t.Helper()
	o.Resend = true
	first := true
	l := newLab(t, setup{guard: o}, func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			idemhttp.MayHaveActed(r.Context(), "it broke off")
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"card":"body-secret"}` {
			t.Errorf("asked again, the handler read %q, %v", body, err)
		}
		h(w, r)
	})
	wantStatus(t, "first", l.do(post("k")), http.StatusBadGateway, "unknown")
	return l
}

func TestResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := died(t, idemhttp.Options{}, charged)
		wantProblem(t, "another request", l.do(post("k", "Content-Type", "text/plain")), 422, problem.KeyReused)
		wantCharged(t, "again", l.do(post("k")), true)
		wantCharged(t, "and again", l.do(post("k")), true)
		l.wantRuns(t, 2)
	})
}

// Who asks while another is asking is told that it is being worked on.
func TestResendIsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := died(t, idemhttp.Options{}, h)
		asking := l.start(post("k"))
		<-running
		wantProblem(t, "meanwhile", l.do(post("k")), 409, problem.InFlight)
		close(letGo)
		wantCharged(t, "again", <-asking, true)
		l.wantRuns(t, 2)
	})
}

// What is no answer to the first request leaves its outcome unknown, and the next retry asks again.
func TestResendThatTellsNothing(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a status that releases": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"it did nothing": func(w http.ResponseWriter, r *http.Request) {
			idemhttp.DidNothing(r.Context())
			w.Header().Set("X-Left", "over")
			w.WriteHeader(http.StatusBadGateway)
		},
		"nobody knows again": func(w http.ResponseWriter, r *http.Request) {
			idemhttp.MayHaveActed(r.Context(), "it broke off")
			w.WriteHeader(http.StatusBadGateway)
		},
		"it panics":              func(http.ResponseWriter, *http.Request) { panic("answer-secret") },
		"it cuts the connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it breaks off":          func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := false
				l := died(t, idemhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
					if answers {
						charged(w, r)
						return
					}
					h(w, r)
				})
				got := l.do(post("k"))
				wantStatus(t, "again", got, 409, "unknown")
				wantProblem(t, "again", reply{got.status, without(got.header, "Idempotency-Status"), got.body, false}, 409, problem.OutcomeUnknown)
				if got.header.Get("X-Left") != "" || got.header.Get("Content-Length") != "" {
					t.Errorf("headers of the run that told nothing: %v", got.header)
				}
				answers = true
				wantCharged(t, "and again", l.do(post("k")), true)
				l.wantRuns(t, 3)
			})
		})
	}
}

func without(h http.Header, name string) http.Header {
	h = h.Clone()
	h.Del(name)
	return h
}

// An answer to the question that cannot be kept goes to who asked.
func TestResendThatStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := died(t, idemhttp.Options{MaxResponse: 4}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a long answer") })
		if got := l.do(post("k")); got.status != 200 || got.body != "a long answer" {
			t.Errorf("again: got %d %q", got.status, got.body)
		}
		wantStatus(t, "and again", l.do(post("k")), 200, "answer-not-kept")
		l.wantRuns(t, 2)
	})
}

func TestResendIsRefusedBesideRecover(t *testing.T) {
	l := newLab(t, setup{}, charged)
	o := &idemhttp.Options{Resend: true, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) { return retrysafe.Outcome{}, nil }}
	if _, err := idemhttp.New(l.executor, idemhttp.SharedScope, o); err == nil {
		t.Error("taken")
	}
}
