package idemhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// OU-1, OU-2, RC-2: what each status means. The release list comes first; a 408 and any other 5xx may come after
// the effect; everything else is an answer.
func TestEveryStatus(t *testing.T) {
	released := []int{401, 403, 407, 413, 421, 425, 429}
	for status := 200; status <= 599; status++ {
		for _, retryAfter := range []bool{false, true} {
			want := retrysafe.Completed
			switch {
			case slices.Contains(released, status), status == 503 && retryAfter:
				want = retrysafe.Absent
			case status == 408, status >= 500:
				want = retrysafe.UnknownAnswered
			}
			t.Run(fmt.Sprintf("%d, Retry-After %v", status, retryAfter), func(t *testing.T) { statusMeans(t, status, retryAfter, want) })
		}
	}
}

func statusMeans(t *testing.T, status int, retryAfter bool, want retrysafe.State) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		io.WriteString(w, "answer")
	})
	body := "answer"
	if status == 204 || status == 304 {
		body = ""
	}
	first := l.do(post("k"))
	wantStatus(t, "first", first, status, "")
	wantMarker(t, "first", first, false)
	if first.body != body || (first.header.Get("Retry-After") == "1") != retryAfter {
		t.Errorf("first: body %q, Retry-After %q", first.body, first.header.Get("Retry-After"))
	}
	if got := l.stands(t, "k").State; got != want {
		t.Errorf("%d leaves the key %v, want %v", status, got, want)
	}
	again := l.do(post("k"))
	switch want {
	case retrysafe.Absent:
		wantStatus(t, "again", again, status, "")
		wantMarker(t, "again", again, false)
		l.wantRuns(t, 2)
		return
	case retrysafe.UnknownAnswered:
		wantStatus(t, "again", again, status, "unknown")
	default:
		wantStatus(t, "again", again, status, "")
	}
	wantMarker(t, "again", again, true)
	wantRetryAfter(t, "again", again, 0)
	if again.body != body {
		t.Errorf("again: body %q, want %q", again.body, body)
	}
	l.wantRuns(t, 1)
}

// What a handler says of itself counts more than its status.
func TestWhatAHandlerSays(t *testing.T) {
	did := func(ctx context.Context) bool { return idemhttp.DidNothing(ctx) }
	may := func(ctx context.Context) bool { return idemhttp.MayHaveActed(ctx, "") }
	tests := []struct {
		name   string
		say    []func(context.Context) bool
		status int
		said   string // Idempotency-Status of the first answer
		want   retrysafe.State
	}{
		{"DidNothing, 200", []func(context.Context) bool{did}, 200, "", retrysafe.Absent},
		{"DidNothing, 400", []func(context.Context) bool{did}, 400, "", retrysafe.Absent},
		{"DidNothing, 500", []func(context.Context) bool{did}, 500, "", retrysafe.Absent},
		{"MayHaveActed, 200", []func(context.Context) bool{may}, 200, "unknown", retrysafe.Unknown},
		{"MayHaveActed, 429", []func(context.Context) bool{may}, 429, "unknown", retrysafe.Unknown},
		{"MayHaveActed, 502", []func(context.Context) bool{may}, 502, "unknown", retrysafe.Unknown},
		{"DidNothing, then it acted", []func(context.Context) bool{did, may}, 500, "unknown", retrysafe.Unknown},
		{"MayHaveActed, then found that it did not", []func(context.Context) bool{may, did}, 500, "", retrysafe.Absent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				for _, say := range tt.say {
					ctx, cancel := context.WithCancel(r.Context()) // a handler's own contexts know it too
					defer cancel()
					if !say(ctx) {
						t.Error("the handler was not heard")
					}
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, "answer")
			})
			first := l.do(post("k"))
			wantStatus(t, "first", first, tt.status, tt.said)
			if first.body != "answer" {
				t.Errorf("first: body %q", first.body)
			}
			if got := l.stands(t, "k").State; got != tt.want {
				t.Errorf("the key stands as %v, want %v", got, tt.want)
			}
			again := l.do(post("k"))
			if tt.want == retrysafe.Unknown {
				wantProblem(t, "again", again, 409, problem.OutcomeUnknown)
				l.wantRuns(t, 1)
				return
			}
			wantStatus(t, "again", again, tt.status, tt.said)
			wantMarker(t, "again", again, false)
			l.wantRuns(t, 2)
		})
	}
}

// Outside of a guarded request there is nobody to tell.
func TestSaidOutside(t *testing.T) {
	if idemhttp.DidNothing(t.Context()) || idemhttp.MayHaveActed(t.Context(), "") {
		t.Error("a context without an operation was heard")
	}
	l := newLab(t, setup{}, func(_ http.ResponseWriter, r *http.Request) {
		if idemhttp.DidNothing(r.Context()) || idemhttp.MayHaveActed(r.Context(), "") {
			t.Error("an unguarded request was heard")
		}
	})
	l.do(request(http.MethodPost, "/", ""))
	l.wantRuns(t, 1)
}

// OU-5, CR-13: a refusal by the handler is an answer like another: it ends the claim and is replayed, and a
// corrected request under the key is another request.
func TestRefusalByTheHandler(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "amount is missing", 400) })
	l.do(post("k"))
	got := l.do(post("k"))
	if got.status != 400 || got.body != "amount is missing\n" {
		t.Errorf("again: got %d %q, want the refusal", got.status, got.body)
	}
	wantMarker(t, "again", got, true)
	corrected := request(http.MethodPost, "/charges", `{"amount":1}`, "Idempotency-Key", "k")
	wantProblem(t, "corrected", l.do(corrected), 422, problem.KeyReused)
	l.wantRuns(t, 1)
}

// The handler's context carries the caller's values and the operation, and does not end with the caller.
func TestHandlersContext(t *testing.T) {
	type tenant struct{}
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if ctx.Value(tenant{}) != "t-7" || retrysafe.EpochOf(ctx) == 0 {
			t.Errorf("the handler's context has value %v, epoch %d", ctx.Value(tenant{}), retrysafe.EpochOf(ctx))
		}
		if _, limited := ctx.Deadline(); limited || ctx.Err() != nil {
			t.Errorf("the handler's context ends with the caller's: %v", ctx.Err())
		}
		if _, err := retrysafe.Derive(ctx, "mail"); err != nil {
			t.Errorf("Derive: %v", err)
		}
		charged(w, r)
	})
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), tenant{}, "t-7"), patience)
	defer cancel()
	wantCharged(t, "first", l.do(post("k").WithContext(ctx)), false)
}

// CC-13: steps of a handler are kept under keys of their own: a re-run after a release resumes behind them.
func TestHandlersSteps(t *testing.T) {
	charges, mails := 0, 0
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		retrysafe.Step(r.Context(), "charge", func(context.Context) (int, error) { charges++; return charges, nil })
		if mails++; mails == 1 {
			w.WriteHeader(429) // the mailer is busy
			return
		}
		charged(w, r)
	})
	wantStatus(t, "first", l.do(post("k")), 429, "")
	wantCharged(t, "again", l.do(post("k")), false)
	if charges != 1 || mails != 2 {
		t.Errorf("%d charges and %d mails, want 1 and 2", charges, mails)
	}
}
