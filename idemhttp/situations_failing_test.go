package idemhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Scenarios of the protocol in which something fails: the store, the upstream, the body, the handler, the process.

// upstream returns a gateway to addr.
func upstream(t *testing.T, addr string, timeout time.Duration) http.Handler {
	t.Helper()
	l := newLab(t, setup{}, charged) // for its executor
	g, err := gateway.New(l.executor, &url.URL{Scheme: "http", Host: addr}, idemhttp.SharedScope, &gateway.Options{UpstreamTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func playUnreachable(t *testing.T, s problem.Situation) {
	ln := listen(t, "127.0.0.1:0")
	addr := ln.Addr().String()
	ln.Close()
	g := upstream(t, addr, time.Minute)
	wantRow(t, s, answered(g, post("key-secret")), 502)
	up := &httptest.Server{Listener: listen(t, addr), Config: &http.Server{Handler: http.HandlerFunc(charged)}}
	up.Start()
	defer up.Close()
	wantCharged(t, "when it is up", answered(g, post("key-secret")), false)
}

func playUpstreamMayHaveActed(t *testing.T, s problem.Situation) {
	silent, ended := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("say") == "nothing" {
			defer close(ended)
			<-silent
			return
		}
		panic(http.ErrAbortHandler) // acts, and breaks off
	}))
	defer up.Close()
	g := upstream(t, strings.TrimPrefix(up.URL, "http://"), 50*time.Millisecond)
	got := answered(g, post("key-secret"))
	wantRow(t, s, got, 502)
	wantStatus(t, s.Name, got, 502, "unknown")
	wantProblem(t, "again", answered(g, post("key-secret")), 409, problem.OutcomeUnknown)

	late := func() *http.Request {
		return request(http.MethodPost, "/charges?say=nothing", "", "Idempotency-Key", "late-secret")
	}
	got = answered(g, late())
	wantRow(t, s, got, 504)
	wantStatus(t, s.Name, got, 504, "unknown")
	wantProblem(t, "again", answered(g, late()), 409, problem.OutcomeUnknown)
	close(silent)
	<-ended
}

func playExpired(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{core: retrysafe.Options{Retention: time.Hour, Remember: time.Hour}}, charged)
	l.do(post("key-secret"))
	advance(time.Hour + time.Second)
	wantRow(t, s, l.do(post("key-secret")), 410)
	l.wantRuns(t, 1)
	advance(time.Hour + time.Second)
	wantCharged(t, "when it is forgotten", l.do(post("key-secret")), false)
	l.wantRuns(t, 2)
}

func playUnrecorded(t *testing.T, s problem.Situation) {
	var l *lab
	l = newLab(t, setup{core: retrysafe.Options{RecordWait: 10 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		l.store.down()
		charged(w, r)
	})
	began := time.Now()
	got := l.do(post("k"))
	wantCharged(t, s.Name, got, false)
	wantStatus(t, s.Name, got, 201, string(s.Code))
	if held := time.Since(began); held < 10*time.Second || held > 11*time.Second {
		t.Errorf("the answer was held back for %v, want RecordWait", held)
	}
	l.store.up()
	advance(time.Minute)
	wantCharged(t, "when the store is back", l.do(post("k")), true)
	l.wantRuns(t, 1)
}

// playScopeMissing, TN-2: callers of whom nobody knows who they are share nothing.
func playScopeMissing(t *testing.T, s problem.Situation) {
	tenant, failure := "", error(nil)
	l := newLab(t, setup{scope: func(*http.Request) (string, error) { return tenant, failure }}, charged)
	wantRow(t, s, l.do(post("key-secret")), 401)
	tenant, failure = "tenant-secret", errors.New("token-secret has expired")
	wantRow(t, s, l.do(post("key-secret")), 401)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	failure = nil
	wantCharged(t, "with a scope", l.do(post("key-secret")), false)
}

// playScopeUnavailable: who cannot be known for a fault of ours is not told to stop.
func playScopeUnavailable(t *testing.T, s problem.Situation) {
	failure := fmt.Errorf("keys of the issuer-secret: %w", idemhttp.ErrScopeUnavailable)
	l := newLab(t, setup{scope: func(*http.Request) (string, error) { return "tenant", failure }}, charged)
	wantRow(t, s, l.do(post("key-secret")), 503)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	failure = nil
	wantCharged(t, "again", l.do(post("key-secret")), false)
}

// playQuota has a limiter behind the guard, as one that counts a tenant's keys must be: the guard releases the key.
func playQuota(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{guard: idemhttp.Options{Quota: idemhttp.Quota{Rate: 1, Burst: 1}}}, charged)
	wantCharged(t, "first", l.do(post("key-1")), false)
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 429)
	wantRetryAfter(t, s.Name, got, 1)
	advance(time.Second)
	wantCharged(t, "with room again", l.do(post("key-secret")), false)
}

func playRecovering(t *testing.T, s problem.Situation) {
	asked, answer := make(chan struct{}), make(chan struct{})
	recovering := func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
		close(asked)
		<-answer
		return retrysafe.Outcome{State: retrysafe.Free}, nil
	}
	h, gates := gated()
	l := newLab(t, setup{core: retrysafe.Options{Lease: 3 * time.Second, MaxRun: time.Second, OnLeaseEnd: retrysafe.Recover, Recover: recovering}}, h)
	lost := l.start(post("key-secret")) // its heartbeat ends after MaxRun, as if its process had died
	late := <-gates
	advance(time.Minute)
	second := l.start(post("key-secret"))
	<-asked
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantRetryAfter(t, s.Name, got, 3)
	close(answer)
	close(<-gates)
	wantCharged(t, "it had not happened", <-second, false)
	close(late)
	wantCharged(t, "the lost one", <-lost, true)
	wantCharged(t, "again", l.do(post("key-secret")), true)
	l.wantRuns(t, 2)
}

func playPanicked(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, func(http.ResponseWriter, *http.Request) { panic("panic-secret") })
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 500)
	wantStatus(t, s.Name, got, 500, "unknown")
	got = l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantStatus(t, "again", got, 409, "unknown")
	l.wantRuns(t, 1)
	if strings.Contains(l.log.String(), "secret") {
		t.Errorf("the log tells: %s", l.log)
	}
}

func playUnreadable(t *testing.T, s problem.Situation) {
	for _, damage := range []int{0, 1, 40} { // the version, the checksum, the record
		l := newLab(t, setup{}, charged)
		l.do(post("key-secret"))
		entries, _, err := l.store.Store.Get(t.Context(), idOf("key-secret"))
		if err != nil || len(entries) != 1 {
			t.Fatalf("Get: %d entries, %v", len(entries), err)
		}
		whole := entries[0]
		broken := whole
		broken.Body, broken.Rev = []byte(string(whole.Body)), retrysafe.NewRev()
		broken.Body[damage] ^= 0xff
		l.store.Swap(t.Context(), whole.Rev, broken)
		wantRow(t, s, l.do(post("key-secret")), 503)
		l.wantRuns(t, 1)
		whole.Rev = retrysafe.NewRev()
		l.store.Swap(t.Context(), broken.Rev, whole)
		wantCharged(t, "repaired", l.do(post("key-secret")), true)
	}
}

func playDraining(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	l.do(post("done-secret"))
	if err := l.executor.Drain(t.Context()); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	wantRow(t, s, l.do(post("key-secret")), 503)
	wantRow(t, s, l.do(post("done-secret")), 503)
	l.wantRuns(t, 1)
	if r := l.stands(t, "key-secret"); r.State != retrysafe.Absent {
		t.Errorf("%v stands under the refused key", r.State)
	}
}

func playStoreDown(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	l.store.down()
	wantRow(t, s, l.do(post("key-secret")), 503)
	wantRow(t, s, l.do(post("key-secret")), 503)
	l.wantRuns(t, 0)
	l.store.up()
	wantCharged(t, "when it is up", l.do(post("key-secret")), false)
}

func playBodyTooLarge(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{guard: idemhttp.Options{MaxBody: 10}}, charged)
	wantRow(t, s, l.do(post("key-secret")), 413)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "a smaller one", l.do(request(http.MethodPost, "/charges", "0123456789", "Idempotency-Key", "key-secret")), false)
}

func playBodyBrokeOff(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	r := post("key-secret")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"card":"body-`), brokenOff{}))
	wantRow(t, s, l.do(r), 400)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "sent whole", l.do(post("key-secret")), false)
}

func playTooEarly(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	for _, lines := range [][]string{{"1"}, {"0"}, {""}, {"1", "1"}} { // whatever stands there is a 1 (RFC 8470, 5.1)
		r := post("key-secret")
		r.Header["Early-Data"] = lines
		wantRow(t, s, l.do(r), 425)
	}
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "after the handshake", l.do(post("key-secret")), false)
	without := post("", "Early-Data", "1")
	without.Header.Del("Idempotency-Key")
	wantCharged(t, "not guarded: the handler's to decide", l.do(without), false)
}

func playOverloaded(t *testing.T, s problem.Situation) {
	h, running, letGo := blocking()
	l := newLab(t, setup{guard: idemhttp.Options{MaxBody: 30, MaxBodies: 30}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "first" {
			h(w, r)
			return
		}
		charged(w, r)
	})
	first := l.start(post("first"))
	<-running
	before := l.store.calls.Load()
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 503)
	wantRetryAfter(t, s.Name, got, 1)
	if l.runs.Load() != 1 || l.store.calls.Load() != before {
		t.Errorf("%d runs and %d store calls, want those of the first", l.runs.Load(), l.store.calls.Load())
	}
	close(letGo)
	wantCharged(t, "first", <-first, false)
	wantCharged(t, "with room again", l.do(post("key-secret")), false)
}

// playLoop has the gateway for its own upstream.
func playLoop(t *testing.T, s problem.Situation) {
	ln := listen(t, "127.0.0.1:0")
	g := upstream(t, ln.Addr().String(), time.Minute)
	front := &httptest.Server{Listener: ln, Config: &http.Server{Handler: g}}
	front.Start()
	defer front.Close()
	wantRow(t, s, answered(g, post("key-secret")), 508)
}

// playAmbiguous has a gateway with a route, and spells its path in another way.
func playAmbiguous(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	u, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(l.executor, u, idemhttp.SharedScope, &gateway.Options{Routes: []gateway.Route{{Path: "/charges", Guard: idemhttp.Options{Required: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := post("key-secret")
	r.URL.Path, r.URL.RawPath = "/charges", "/%63harges"
	wantRow(t, s, answered(g, r), 400)
	l.wantRuns(t, 0)
}

// brokenOff is the end of a body whose sender went away.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
