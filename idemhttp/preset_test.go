package idemhttp_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

func TestParsePreset(t *testing.T) {
	for _, p := range []idemhttp.Preset{idemhttp.IETF, idemhttp.IETFStrict, idemhttp.Stripe} {
		if got, err := idemhttp.ParsePreset(p.String()); err != nil || got != p {
			t.Errorf("ParsePreset(%q) = %v, %v", p, got, err)
		}
	}
	if p, err := idemhttp.ParsePreset("Stripe"); err == nil {
		t.Errorf("ParsePreset(Stripe) = %v", p)
	}
}

// wantStripe expects an error as Stripe's clients read it.
func wantStripe(t *testing.T, what string, got reply, status int, kind, code string) {
	t.Helper()
	var body struct {
		Error struct{ Type, Code, Message, Doc_url string }
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%s: got %d %q: %v", what, got.status, got.body, err)
	}
	e := body.Error
	if got.status != status || e.Type != kind || e.Code != code || e.Message == "" || e.Doc_url == "" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: got %d %v %+v, want %d %s %q", what, got.status, got.header, e, status, kind, code)
	}
}

// The preset changes how keys are read, and how two refusals look; all else is as ever.
func TestStripe(t *testing.T) {
	h, running, letGo := blocking()
	l := newLab(t, setup{guard: idemhttp.Options{Preset: idemhttp.Stripe}}, h)
	first := l.start(post("k"))
	<-running
	busy := l.do(post("k"))
	wantStripe(t, "in flight", busy, 409, "invalid_request_error", "idempotency_key_in_use")
	wantRetryAfter(t, "in flight", busy, 30)
	close(letGo)
	wantCharged(t, "first", <-first, false)
	wantCharged(t, "again", l.do(post("k")), true)
	wantStripe(t, "another request", l.do(post("k", "Content-Type", "text/plain")), 400, "idempotency_error", "")
	wantCharged(t, "quotes are part of the key", l.do(post(`"k"`)), false)
	wantCharged(t, "commas too", l.do(post(`a,b`)), false)
	wantProblem(t, "not ASCII", l.do(post("clé")), 400, problem.KeyInvalid)
	wantProblem(t, "256 bytes", l.do(post(string(make([]byte, 256)))), 400, problem.KeyInvalid)
	l.wantRuns(t, 3)
}

// Stripe forgets keys with their answers; a policy that is given wins.
func TestStripeForgets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy *retrysafe.Policy
		again  bool
	}{
		{"by itself", nil, true},
		{"told to remember", &retrysafe.Policy{Lease: time.Minute, Retention: 24 * time.Hour, Remember: time.Hour}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, setup{guard: idemhttp.Options{Preset: idemhttp.Stripe, Policy: tt.policy}}, charged)
				wantCharged(t, "first", l.do(post("k")), false)
				advance(24*time.Hour + time.Second)
				got := l.do(post("k"))
				if tt.again {
					wantCharged(t, "after retention", got, false)
					return
				}
				wantProblem(t, "after retention", got, http.StatusGone, problem.AnswerExpired)
			})
		})
	}
}
