package idemhttp_test

import (
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// What a page of another origin may see.

const shop = "https://shop.example.com"

// sharing is a handler that does its own CORS.
func sharing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	w.Header().Add("Vary", "Origin")
	w.Header().Set("Access-Control-Expose-Headers", "X-Total, retry-after")
	charged(w, r)
}

func wantHeader(t *testing.T, what string, got reply, name string, want ...string) {
	t.Helper()
	lines := got.header.Values(name)
	same := len(lines) == len(want)
	for i := range want {
		same = same && lines[i] == want[i]
	}
	if !same {
		t.Errorf("%s: %s is %q, want %q", what, name, lines, want)
	}
}

// HR-5: a page may read that it is a replay.
func TestExposedHeaders(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{CORSOrigins: []string{shop, "https://other.example.com"}}}, sharing)
	first := l.do(post("k", "Origin", shop))
	wantCharged(t, "first", first, false)
	wantHeader(t, "first", first, "Access-Control-Expose-Headers", "X-Total, retry-after", "Idempotent-Replayed, Idempotency-Status")
	wantHeader(t, "first", first, "Access-Control-Allow-Origin", shop)

	again := l.do(post("k", "Origin", "https://other.example.com"))
	wantCharged(t, "again", again, true)
	wantHeader(t, "again", again, "Access-Control-Allow-Origin", "https://other.example.com")
	wantHeader(t, "again", again, "Vary", "Origin")
	wantHeader(t, "again", again, "Access-Control-Expose-Headers", "Idempotent-Replayed, Idempotency-Status, Retry-After")
	wantHeader(t, "again", again, "Access-Control-Allow-Credentials")

	refusal := l.do(post("a,b", "Origin", shop))
	wantProblem(t, "refusal", refusal, 400, problem.KeyInvalid)
	wantHeader(t, "refusal", refusal, "Access-Control-Allow-Origin", shop)

	stranger := l.do(post("k", "Origin", "https://evil.example.com"))
	wantHeader(t, "a page that is not named", stranger, "Access-Control-Allow-Origin")
	wantHeader(t, "a page that is not named", stranger, "Access-Control-Expose-Headers")
	wantHeader(t, "a page that is not named", stranger, "Vary", "Origin")
}

func TestOrigins(t *testing.T) {
	for _, tt := range []struct {
		name           string
		o              idemhttp.Options
		origin         string
		allowed, login []string
	}{
		{"nobody is named", idemhttp.Options{}, shop, nil, nil},
		{"all", idemhttp.Options{CORSOrigins: []string{"*"}}, shop, []string{"*"}, nil},
		{"with cookies", idemhttp.Options{CORSOrigins: []string{shop}, CORSCredentials: true}, shop, []string{shop}, []string{"true"}},
		{"no page", idemhttp.Options{CORSOrigins: []string{shop}}, "", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{guard: tt.o}, charged)
			for range 2 {
				r := post("k")
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
				got := l.do(r)
				if got.header.Get("Idempotent-Replayed") == "" {
					wantHeader(t, "first", got, "Access-Control-Allow-Origin") // the handler's word alone
					continue
				}
				wantHeader(t, "again", got, "Access-Control-Allow-Origin", tt.allowed...)
				wantHeader(t, "again", got, "Access-Control-Allow-Credentials", tt.login...)
			}
		})
	}
}

// What a layer outside said stands.
func TestCORSOutside(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{CORSOrigins: []string{shop}}}, charged)
	outside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://outside.example.com")
		w.Header().Set("Access-Control-Expose-Headers", "*")
		l.ServeHTTP(w, r)
	})
	for _, what := range []string{"first", "again"} {
		got := answered(outside, post("k", "Origin", shop))
		wantHeader(t, what, got, "Access-Control-Allow-Origin", "https://outside.example.com")
		wantHeader(t, what, got, "Access-Control-Expose-Headers", "*")
	}
}

func TestOriginsAreRefused(t *testing.T) {
	l := newLab(t, setup{}, charged)
	for _, o := range []idemhttp.Options{
		{CORSOrigins: []string{"shop.example.com"}},
		{CORSOrigins: []string{shop + "/"}},
		{CORSOrigins: []string{"null"}},
		{CORSOrigins: []string{"*"}, CORSCredentials: true},
	} {
		if _, err := idemhttp.New(l.executor, idemhttp.SharedScope, &o); err == nil {
			t.Errorf("%q: taken", o.CORSOrigins)
		}
	}
}
