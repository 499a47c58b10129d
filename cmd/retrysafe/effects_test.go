package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// What flags and routes say reaches the callers: each row shows the one difference that it makes.

// A tally is an API that counts its runs, and answers with what it is asked for in X-Status.
type tally struct {
	runs atomic.Int64
	key  atomic.Value // of the last request, as it came
}

func (c *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := c.runs.Add(1)
	c.key.Store(strings.Join(r.Header.Values("Idempotency-Key"), "|"))
	if r.Header.Get("X-Cut") != "" {
		panic(http.ErrAbortHandler)
	}
	status := http.StatusCreated
	fmt.Sscan(r.Header.Get("X-Status"), &status)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	fmt.Fprint(w, "run ", n)
}

func serveTally(t *testing.T) (*tally, string) {
	t.Helper()
	c := &tally{}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL
}

func TestFlagsTakeEffect(t *testing.T) {
	const page = "https://shop.example.com"
	for _, tt := range []struct {
		name  string
		flags []string
		do    func(t *testing.T, l *lab)
	}{
		{"quota-rate", []string{"--quota-rate", "0.001", "--quota-burst", "2"}, func(t *testing.T, l *lab) {
			l.send(t, "POST", "/", "zq-key-1", "zq-body").wantStatus(t, 201)
			l.send(t, "POST", "/", "zq-key-2", "zq-body-2").wantStatus(t, 201)
			l.send(t, "POST", "/", "zq-key-3", "zq-body-3").wantProblem(t, 429, "quota-exceeded")
		}},
		{"cors-origin", []string{"--cors-origin", page, "--cors-credentials"}, func(t *testing.T, l *lab) {
			l.send(t, "POST", "/", "zq-key", "zq-body", "Origin", page)
			again := l.send(t, "POST", "/", "zq-key", "zq-body", "Origin", page)
			if again.header.Get("Access-Control-Allow-Origin") != page || again.header.Get("Access-Control-Allow-Credentials") != "true" {
				t.Errorf("the replay: %v, want it for the page, with cookies", again)
			}
		}},
		{"no-specification", []string{"--no-specification"}, func(t *testing.T, l *lab) {
			if got := l.send(t, "GET", "/.well-known/idempotency", "", ""); got.body != "run 1" {
				t.Errorf("got %v, want the upstream's answer", got)
			}
		}},
		{"with the specification", []string{"--require-key", "--max-body", "1KiB", "--wait", "2s", "--retention", "1h", "--remember", "2h", "--preset", "ietf-strict"}, func(t *testing.T, l *lab) {
			got := l.send(t, "GET", "/.well-known/idempotency", "", "").body
			for _, said := range []string{`"required": true`, `"max_body_bytes": 1024`, `"wait_seconds": 2`, `"retention_seconds": 3600`, `"remember_seconds": 7200`, `"syntax": "ietf-strict"`, `"scope": "shared"`, `"fingerprint": "raw"`} {
				if !strings.Contains(got, said) {
					t.Errorf("it does not publish %s: %s", said, got)
				}
			}
			l.send(t, "POST", "/", "zq-key", "zq-body").wantProblem(t, 400, "key-invalid")
		}},
		{"preset", []string{"--preset", "stripe"}, func(t *testing.T, l *lab) {
			l.send(t, "POST", "/", "zq-key", "zq-body").wantStatus(t, 201)
			if got := l.send(t, "POST", "/", "zq-key", "zq-body-2"); got.status != 400 || !strings.Contains(got.body, "idempotency_error") {
				t.Errorf("another request: %v, want Stripe's error", got)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, upstream := serveTally(t)
			tt.do(t, startGateway(t, upstream, append([]string{"--store", "memory:"}, tt.flags...)...))
		})
	}
}

func TestRoutesTakeEffect(t *testing.T) {
	for _, tt := range []struct {
		name, lines string
		do          func(t *testing.T, l *lab, up *tally)
		runs        int64
	}{
		{"required", "required: true", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "", "zq-body").wantProblem(t, 400, "key-missing")
		}, 0},
		{"preset", "preset: ietf-strict", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "zq-key", "zq-body").wantProblem(t, 400, "key-invalid")
		}, 0},
		{"key in a header", "key: {headers: [X-Order]}", func(t *testing.T, l *lab, _ *tally) { twice(t, l, "/a", `{}`, "X-Order", "zq-key") }, 1},
		{"key in the query", "key: {query: order}", func(t *testing.T, l *lab, _ *tally) { twice(t, l, "/a?order=zq-key", `{}`) }, 1},
		{"key in the body", "key: {pointer: /id}", func(t *testing.T, l *lab, _ *tally) { twice(t, l, "/a", `{"id":"zq-key"}`) }, 1},
		{"business key", "key: {fields: [/order_no]}", func(t *testing.T, l *lab, _ *tally) { twice(t, l, "/a", `{"order_no":17}`) }, 1},
		{"fingerprint", "fingerprint: {mode: json, exclude: [/trace]}", func(t *testing.T, l *lab, _ *tally) {
			first := l.send(t, "POST", "/a", "zq-key", `{"amount":1,"trace":"a"}`)
			l.send(t, "POST", "/a", "zq-key", `{"trace": "b", "amount": 1}`).wantReplayOf(t, first)
			l.send(t, "POST", "/a", "zq-key", `{"amount":2,"trace":"a"}`).wantProblem(t, 422, "key-reused")
		}, 1},
		{"outcomes", "outcomes: {404: release, 429: keep}", func(t *testing.T, l *lab, _ *tally) {
			for range 2 {
				l.send(t, "POST", "/a", "zq-key-1", "zq-body", "X-Status", "404").wantStatus(t, 404)
				l.send(t, "POST", "/a", "zq-key-2", "zq-body", "X-Status", "429").wantStatus(t, 429)
			}
		}, 3},
		{"drop-answers", "drop-answers: true", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "zq-key", "zq-body").wantStatus(t, 201)
			if got := l.send(t, "POST", "/a", "zq-key", "zq-body"); got.header.Get("Idempotency-Status") != "answer-not-kept" {
				t.Errorf("again: %v, want it not to be kept", got)
			}
		}, 1},
		{"honours-keys", "honours-keys: true", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "zq-key", "zq-body", "X-Cut", "1").wantProblem(t, 502, "outcome-unknown")
			if got := l.send(t, "POST", "/a", "zq-key", "zq-body"); got.body != "run 2" || got.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("again: %v, want what the upstream says of the same key", got)
			}
		}, 2},
		{"limits", "limits: {max-key: 6, max-body: 8, max-response: 2}", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "zq-key-", "zq-body").wantProblem(t, 400, "key-invalid")
			l.send(t, "POST", "/a", "zq-key", "zq-body-9").wantProblem(t, 413, "body-too-large")
			l.send(t, "POST", "/a", "zq-key", "zq-body").wantStatus(t, 201)
			if got := l.send(t, "POST", "/a", "zq-key", "zq-body"); got.header.Get("Idempotency-Status") != "answer-not-kept" {
				t.Errorf("again: %v, want it to be too large to keep", got)
			}
		}, 1},
		{"forward-key", "forward-key: none", func(t *testing.T, l *lab, up *tally) {
			twice(t, l, "/a", `{}`, "Idempotency-Key", "zq-key")
			if got := up.key.Load(); got != "" {
				t.Errorf("the upstream got the key %q, want none", got)
			}
		}, 1},
		{"forward-key, derived", "forward-key: derived", func(t *testing.T, l *lab, up *tally) {
			twice(t, l, "/a", `{}`, "Idempotency-Key", "zq-key")
			if got, _ := up.key.Load().(string); len(got) != 64 || strings.Contains(got, "zq") {
				t.Errorf("the upstream got the key %q, want one of the gateway's own", got)
			}
		}, 1},
		{"scope", "scope: 'header:X-Tenant'", func(t *testing.T, l *lab, _ *tally) {
			l.send(t, "POST", "/a", "zq-key", "zq-body", "X-Tenant", "zq-tenant-1").wantStatus(t, 201)
			l.send(t, "POST", "/a", "zq-key", "zq-body", "X-Tenant", "zq-tenant-2").wantStatus(t, 201)
			l.send(t, "POST", "/a", "zq-key", "zq-body").wantProblem(t, 401, "scope-missing")
		}, 2},
		{"unguarded", "unguarded: true", func(t *testing.T, l *lab, _ *tally) {
			for range 2 {
				l.send(t, "POST", "/a", "zq-key", "zq-body").wantStatus(t, 201)
			}
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up, upstream := serveTally(t)
			dir := t.TempDir()
			file, secret := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "secret")
			if status := run(t.Context(), []string{"keys", "new", "--out", secret}, nil, io.Discard, io.Discard); status != exitOK {
				t.Fatalf("keys new: status %d", status)
			}
			if err := os.WriteFile(file, []byte(inRoute(tt.lines)), 0o600); err != nil {
				t.Fatal(err)
			}
			tt.do(t, startGateway(t, upstream, "--store", "memory:", "--config", file, "--forward-key-secret", secret), up)
			if got := up.runs.Load(); got != tt.runs {
				t.Errorf("the upstream ran %d requests, want %d", got, tt.runs)
			}
		})
	}
}

// twice sends a request and its retry, which is answered without the upstream.
func twice(t *testing.T, l *lab, target, body string, header ...string) {
	t.Helper()
	first := l.send(t, "POST", target, "", body, header...)
	first.wantStatus(t, 201)
	l.send(t, "POST", target, "", body, header...).wantReplayOf(t, first)
}
