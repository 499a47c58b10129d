package idemhttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// published reads what a guard publishes, as a caller would.
func published(t *testing.T, m *idemhttp.Middleware) (s idemhttp.Specification) {
	t.Helper()
	got := answered(m.Specification().Handler(), request(http.MethodGet, idemhttp.SpecificationPath, ""))
	d := json.NewDecoder(strings.NewReader(got.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil || got.status != http.StatusOK {
		t.Fatalf("got %d %q: %v", got.status, got.body, err)
	}
	if again := answered(m.Specification().Handler(), request(http.MethodGet, idemhttp.SpecificationPath, "", "If-None-Match", got.header.Get("Etag"))); again.status != http.StatusNotModified {
		t.Errorf("asked again with its tag: got %d", again.status)
	}
	return s
}

// HR-7: what is published is what is done.
func TestSpecification(t *testing.T) {
	policy := &retrysafe.Policy{Lease: time.Minute, Retention: time.Hour, Remember: 2 * time.Hour}
	for _, tt := range []struct {
		name string
		o    idemhttp.Options
	}{
		{"defaults", idemhttp.Options{}},
		{"another guard", idemhttp.Options{Preset: idemhttp.IETFStrict, Required: true, Methods: []string{"POST", "PUT"}, MaxKey: 9, MaxBody: 40, Policy: policy,
			Key: idemhttp.KeySource{Headers: []string{"X-Key", "X-Other-Key"}}}},
		{"Stripe's", idemhttp.Options{Preset: idemhttp.Stripe, Wait: 2 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wantPublished(t, tt.o) })
		})
	}
}

func wantPublished(t *testing.T, o idemhttp.Options) {
	h, running, letGo := blocking()
	blocked := false
	l := newLab(t, setup{guard: o}, func(w http.ResponseWriter, r *http.Request) {
		if blocked {
			blocked = false
			h(w, r)
			return
		}
		charged(w, r)
	})
	s := published(t, l.guard)
	send := func(method, key string) *http.Request {
		if s.Syntax != "stripe" && key != "" {
			key = `"` + key + `"`
		}
		r := request(method, "/", `{"card":"body-secret"}`)
		if key != "" {
			r.Header.Set(s.Header, key)
		}
		return r
	}
	long := strings.Repeat("k", s.MaxKeyLength)
	wantCharged(t, "a key of the greatest length", l.do(send("POST", long)), false)
	wantProblem(t, "one byte more", l.do(send("POST", long+"k")), 400, problem.KeyInvalid)
	if got := l.do(send("POST", "")); (got.status == 400) != s.Required {
		t.Errorf("without a key: got %d, published is required: %v", got.status, s.Required)
	}
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		l.do(send(method, "m-"+method))
		guarded := l.do(send(method, "m-"+method)).header.Get("Idempotent-Replayed") == "true"
		if said := strings.Contains(strings.Join(s.Methods, " "), method); said != guarded {
			t.Errorf("%s is guarded: %v, published: %v", method, guarded, said)
		}
	}
	big := send("POST", "big")
	big.Body, big.ContentLength = http.NoBody, s.MaxBody+1
	wantProblem(t, "a body one byte too large", l.do(big), 413, problem.BodyTooLarge)

	blocked = true
	first := l.start(send("POST", "busy"))
	<-running
	began := time.Now()
	busy := l.do(send("POST", "busy"))
	if waited := time.Since(began); busy.status != s.InFlight.Status || waited != time.Duration(s.InFlight.Wait)*time.Second || (busy.header.Get("Retry-After") != "") != s.InFlight.RetryAfter {
		t.Errorf("in flight: got %d after %v, published %+v", busy.status, waited, *s.InFlight)
	}
	close(letGo)
	<-first

	wantCharged(t, "first", l.do(send("POST", "old")), false)
	advance(time.Duration(s.Retention)*time.Second - time.Second)
	wantCharged(t, "at the end of retention", l.do(send("POST", "old")), true)
	advance(2 * time.Second)
	if got := l.do(send("POST", "old")); (got.status == http.StatusGone) != (s.Remember > 0) {
		t.Errorf("after retention: got %d, published is that it is remembered for %d s", got.status, s.Remember)
	}
	advance(time.Duration(s.Remember) * time.Second)
	wantStatus(t, "after it was remembered", l.do(send("POST", "old")), 201, "")
}

// Published errors are those that are answered.
func TestSpecifiedErrors(t *testing.T) {
	for _, preset := range []idemhttp.Preset{idemhttp.IETF, idemhttp.Stripe} {
		l := newLab(t, setup{guard: idemhttp.Options{Preset: preset, Required: true, MaxBody: 30}}, charged)
		said := map[string]int{}
		for _, e := range published(t, l.guard).Errors {
			said[e.Code] = e.Status
		}
		l.do(post("k"))
		for code, r := range map[problem.Code]*http.Request{
			problem.KeyMissing:   request("POST", "/", "x"),
			problem.KeyInvalid:   post("\x01"),
			problem.KeyReused:    post("k", "Content-Type", "text/plain"),
			problem.BodyTooLarge: request("POST", "/", strings.Repeat("x", 31), "Idempotency-Key", "k"),
		} {
			if got := l.do(r); got.status != said[string(code)] {
				t.Errorf("%v: %s: got %d, published %d", preset, code, got.status, said[string(code)])
			}
		}
	}
}
