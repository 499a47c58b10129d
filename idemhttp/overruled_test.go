package idemhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// An operator decides while the handler runs: the handler's answer cannot be recorded any more. Its caller gets what
// every other caller gets, if there is an answer by then, and nothing of the handler's own.
func TestOperatorDecidesWhileTheHandlerRuns(t *testing.T) {
	decided := answer.Answer{Status: 200, Header: http.Header{"Etag": {`"decided"`}}, Body: []byte("decided")}
	resolve := func(r retrysafe.Resolution) func(t *testing.T, l *lab) {
		r.By, r.Why, r.Force = "operator", "looked it up", true
		return func(t *testing.T, l *lab) {
			if _, err := l.executor.Resolve(t.Context(), idOf("k"), r); err != nil {
				t.Errorf("Resolve: %v", err)
			}
		}
	}
	forget := func(t *testing.T, l *lab) {
		if _, err := l.executor.Forget(t.Context(), idOf("k"), "operator", "wrong key", true); err != nil {
			t.Errorf("Forget: %v", err)
		}
	}
	const own = `{"id":"answer-secret"}`
	for _, tt := range []struct {
		name   string
		decide func(t *testing.T, l *lab)
		end    func(w http.ResponseWriter)
		status int
		body   string
		said   string
		marker bool
		log    string
	}{
		{"it happened, with an answer", resolve(retrysafe.Resolution{Happened: true, Answer: decided.Encode()}), nil, 200, "decided", "", true, ""},
		{"it happened, without one", resolve(retrysafe.Resolution{Happened: true}), nil, 204, "", "answer-not-kept", true, ""},
		{"it did not happen", resolve(retrysafe.Resolution{}), nil, 201, own, "unrecorded", false, ""},
		{"it is forgotten", forget, nil, 201, own, "unrecorded", false, ""},
		{"it happened, and the handler panics", resolve(retrysafe.Resolution{Happened: true, Answer: decided.Encode()}),
			func(http.ResponseWriter) { panic("boom-secret") }, 200, "decided", "", true, "handler panicked"},
		{"it happened, and the handler streams", resolve(retrysafe.Resolution{Happened: true, Answer: decided.Encode()}),
			func(w http.ResponseWriter) { w.(http.Flusher).Flush(); io.WriteString(w, "streamed") }, 200, "streamed", "unrecorded", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l *lab
			l = newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				tt.decide(t, l)
				w.Header().Set("X-Own", "1")
				if tt.end != nil {
					tt.end(w)
					return
				}
				charged(w, r)
			})
			got := l.do(post("k"))
			wantStatus(t, "first", got, tt.status, tt.said)
			wantMarker(t, "first", got, tt.marker)
			if got.body != tt.body || (got.header.Get("X-Own") == "") != tt.marker {
				t.Errorf("first: got %q with X-Own %q, want %q", got.body, got.header.Get("X-Own"), tt.body)
			}
			if log := l.log.String(); !strings.Contains(log, tt.log) || strings.Contains(log, "secret") {
				t.Errorf("the log is %q, want it to say %q", log, tt.log)
			}
			if tt.marker {
				again := l.do(post("k"))
				wantStatus(t, "again", again, tt.status, tt.said)
				l.wantRuns(t, 1)
			}
		})
	}
}

// Another request under the key that was forgotten is none of the late handler's business.
func TestKeyIsForgottenAndUsedAnew(t *testing.T) {
	h, gates := gated()
	l := newLab(t, setup{}, h)
	late := l.start(post("k"))
	gate := recv(t, "the first", gates)
	if _, err := l.executor.Forget(t.Context(), idOf("k"), "operator", "wrong key", true); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	other := l.start(request(http.MethodPost, "/other", "other", "Idempotency-Key", "k"))
	close(recv(t, "the other", gates))
	wantCharged(t, "the other", recv(t, "the other", other), false)
	close(gate)
	got := recv(t, "the late one", late)
	wantCharged(t, "the late one", got, false)
	wantStatus(t, "the late one", got, 201, "unrecorded")
	wantProblem(t, "the first again", l.do(post("k")), 422, problem.KeyReused)
}
