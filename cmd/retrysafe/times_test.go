package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
)

// What the flags say of times and of a lease's end stands in every claim. What they do there is proven where the
// clock can be turned: in the core.
func TestPolicyOfFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		flags []string
		want  admin.Policy
	}{
		{"defaults", nil, admin.Policy{OnLeaseEnd: "hold", Lease: 30, Retention: 86400, Remember: 30 * 86400}},
		{"all given", []string{"--on-lease-end", "rerun", "--lease", "90s", "--retention", "1d12h", "--remember", "7d"},
			admin.Policy{OnLeaseEnd: "rerun", Lease: 90, Retention: 36 * 3600, Remember: 7 * 86400}},
		{"Stripe's", []string{"--preset", "stripe"}, admin.Policy{OnLeaseEnd: "hold", Lease: 30, Retention: 86400, Remember: 0}},
		{"Stripe's, remembered", []string{"--preset", "stripe", "--remember", "7d"}, admin.Policy{OnLeaseEnd: "hold", Lease: 30, Retention: 86400, Remember: 7 * 86400}},
		{"not remembered", []string{"--remember", "0s"}, admin.Policy{OnLeaseEnd: "hold", Lease: 30, Retention: 86400, Remember: 0}},
	}
	url, _, _ := startStates(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := startGateway(t, url, tt.flags...)
			l.send(t, "POST", "/ok", "zq-key-1", "").wantStatus(t, 200)
			var d admin.Detail
			s := l.key(t, "show", "--key", "zq-key-1", "--json")
			if err := json.Unmarshal([]byte(s.out), &d); err != nil || d.Policy == nil || *d.Policy != tt.want {
				t.Errorf("policy with %q: got %+v, %v, want %+v", tt.flags, d.Policy, err, tt.want)
			}
		})
	}
}

// When its retention is over an answer is gone: told so while the key is remembered, and else a key like new.
func TestRetention(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	remembers := startGateway(t, api.url, "--retention", "1us")
	remembers.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantStatus(t, 201)
	remembers.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 410, "answer-expired")
	remembers.send(t, "POST", "/charges", "zq-key-1", charge(2)).wantProblem(t, 422, "key-reused")
	if ids := remembers.ids(t, "--state", "expired"); ids["zq-key-1"] == "" {
		t.Errorf("key list --state expired: got %v, want zq-key-1", ids)
	}
	if got := api.count(t); got != 1 {
		t.Errorf("got %d charges while the key is remembered, want 1", got)
	}
	forgets := startGateway(t, api.url, "--retention", "1us", "--remember", "0s")
	for range 2 {
		forgets.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantStatus(t, 201)
	}
	if got := api.count(t); got != 3 {
		t.Errorf("got %d charges, want 3: two more from a gateway that remembers nothing", got)
	}
}

// A retry waits for the first attempt, and gets its answer.
func TestWait(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	l := startGateway(t, url, "--wait", "1m")
	first := l.begin(t, "/block", "zq-key-1", "")
	<-arrived
	second := l.begin(t, "/block", "zq-key-1", "")
	for !strings.Contains(l.get(t, "/metrics", true).body, `retrysafe_claims_total{verdict="busy"} 1`) {
	}
	select {
	case a := <-second:
		t.Fatalf("the retry while the first runs: got %v, want it to wait", a)
	default:
	}
	release()
	(<-second).wantReplayOf(t, <-first)
	if n := len(arrived); n != 0 {
		t.Errorf("the upstream saw %d requests more than the first", n)
	}
}

func TestNoWait(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	l := startGateway(t, url)
	first := l.begin(t, "/block", "zq-key-1", "")
	<-arrived
	a := l.send(t, "POST", "/block", "zq-key-1", "")
	a.wantProblem(t, 409, "in-flight")
	if got := a.header.Get("Retry-After"); got == "" {
		t.Errorf("got %v, want Retry-After", a)
	}
	release()
	(<-first).wantStatus(t, 200)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	served := make(chan int64, 4)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served <- r.ContentLength
		w.Write(make([]byte, r.ContentLength))
	}))
	defer upstream.Close()
	l := startGateway(t, upstream.URL, "--max-body", "2KiB", "--max-response", "1KiB")
	l.send(t, "POST", "/", "zq-key-1", strings.Repeat("a", 2049)).wantProblem(t, 413, "body-too-large")
	if len(served) != 0 {
		t.Error("a body over --max-body reached the upstream")
	}
	small := l.send(t, "POST", "/", "zq-key-1", strings.Repeat("a", 1024))
	l.send(t, "POST", "/", "zq-key-1", strings.Repeat("a", 1024)).wantReplayOf(t, small)
	large := l.send(t, "POST", "/", "zq-key-2", strings.Repeat("a", 1025))
	if large.status != 200 || len(large.body) != 1025 {
		t.Errorf("an answer over --max-response: got %d and %d bytes, want it passed on whole", large.status, len(large.body))
	}
	again := l.send(t, "POST", "/", "zq-key-2", strings.Repeat("a", 1025))
	if again.status != 200 || again.body != "" || again.header.Get("Idempotency-Status") != "answer-not-kept" {
		t.Errorf("its retry: got %v, want 200 without a body, told that it was not kept", again)
	}
	if got := len(served); got != 2 {
		t.Errorf("the upstream served %d requests, want 2", got)
	}
}

// An upstream that does not answer in time may have acted.
func TestUpstreamTimeout(t *testing.T) {
	t.Parallel()
	url, arrived, _ := startStates(t)
	l := startGateway(t, url, "--upstream-timeout", "50ms")
	a := l.send(t, "POST", "/block", "zq-key-1", "")
	a.wantProblem(t, 504, "outcome-unknown")
	if got := a.header.Get("Idempotency-Status"); got != "unknown" {
		t.Errorf("got Idempotency-Status %q, want unknown", got)
	}
	<-arrived
	l.send(t, "POST", "/block", "zq-key-1", "").wantProblem(t, 409, "outcome-unknown")
}

// A connection to the upstream that nobody uses is dropped by the gateway, before the upstream does it.
func TestUpstreamIdle(t *testing.T) {
	t.Parallel()
	closed := make(chan string, 8)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }))
	upstream.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- c.RemoteAddr().String()
		}
	}
	upstream.Start()
	defer upstream.Close()
	patient, quick := startGateway(t, upstream.URL, "--upstream-keep-alive", "--upstream-idle", "1h"), startGateway(t, upstream.URL, "--upstream-keep-alive", "--upstream-idle", "1ms")
	patient.send(t, "POST", "/", "zq-key-1", "").wantStatus(t, 200)
	want := quick.send(t, "POST", "/", "zq-key-1", "").body
	if got := <-closed; got != want {
		t.Errorf("the first connection to be dropped came from %s, want that of the gateway with --upstream-idle 1ms, %s", got, want)
	}
}
