package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// The upstream is asked what became of an operation whose owner is gone.

// A ledger is a real upstream, over pipes, so that its time is the test's: it loses the answer to its first POST, and
// answers questions as it is told to.
type ledger struct {
	asked   http.HandlerFunc // a GET or HEAD
	mu      sync.Mutex
	posts   int      // guarded by mu
	queries []string // guarded by mu: the targets of GET and HEAD
	headers []http.Header
}

func (u *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	if r.Method != "POST" {
		u.queries, u.headers = append(u.queries, r.RequestURI), append(u.headers, r.Header)
		u.mu.Unlock()
		u.asked(w, r)
		return
	}
	io.Copy(io.Discard, r.Body)
	u.posts++
	n := u.posts
	u.mu.Unlock()
	if n == 1 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Location", "/charges/1")
	w.WriteHeader(201)
	io.WriteString(w, `{"id":"1"}`)
}

func (u *ledger) counts() (posts, queries int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.posts, len(u.queries)
}

// sayings returns a handler that answers with each status in turn, and the last for ever.
func sayings(statuses ...int) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "of=the-probe")
		w.WriteHeader(statuses[0])
		io.WriteString(w, `{"id":"1","asked":true}`)
		statuses = statuses[min(1, len(statuses)-1):]
	}
}

// A pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// overPipes returns a gateway to a real server in front of h, for a test in a bubble of synctest. stop ends the server.
func overPipes(t *testing.T, h http.Handler, o gateway.Options) (l *lab, stop func()) {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(p) }()
	l = newLab(t, "http://upstream/base", o)
	l.DialBy(p.dial)
	return l, func() {
		l.CloseIdle()
		s.Close()
		<-served
	}
}

const probeLease = 30 * time.Second

// probing is a policy that recovers, and a probe.
func probing(p gateway.Probe) gateway.Options {
	if p.Path == "" {
		p.Path = "/charges?key={key}"
	}
	if p.Happened == nil && p.Absent == nil {
		p.Happened, p.Absent = []int{200}, []int{404, 410}
	}
	policy := &retrysafe.Policy{OnLeaseEnd: retrysafe.Recover, Lease: probeLease, Retention: 24 * time.Hour}
	return gateway.Options{UpstreamTimeout: 10 * time.Second, Probe: &p, Guard: idemhttp.Options{Policy: policy, MaxResponse: 64}}
}

// longGone is when a request that the owner sent cannot be on its way any more, whatever the steps of the store's clock.
const longGone = 10*time.Second + time.Minute + probeLease + time.Millisecond

func advance(d time.Duration) { <-time.After(d) }

func TestProbe(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name  string
		asked http.HandlerFunc
		quiet time.Duration // before the retry
		probe gateway.Probe
		want  int // status of the retry
		said  string
		posts int
		asks  int
	}{
		{"it happened", sayings(200), 0, gateway.Probe{}, 200, "", 1, 1},
		{"it happened, asked by HEAD", sayings(200), 0, gateway.Probe{Method: "HEAD"}, 204, "answer-not-kept", 1, 1},
		{"it happened, the answer is dropped", sayings(200), 0, gateway.Probe{DropAnswer: true}, 204, "answer-not-kept", 1, 1},
		{"it happened, the answer is too large", func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 65)) }, 0, gateway.Probe{}, 200, "answer-not-kept", 1, 1},
		{"absent, and may be on its way", sayings(404), 0, gateway.Probe{}, 409, "unknown", 1, 1},
		{"absent, and may just be on its way", sayings(404), longGone - 2*time.Millisecond, gateway.Probe{}, 409, "unknown", 1, 1},
		{"absent for good", sayings(404), longGone, gateway.Probe{}, 201, "", 2, 2},
		{"absent, and then it is there", sayings(404, 200), longGone, gateway.Probe{}, 409, "unknown", 1, 2},
		{"absent, and then otherwise", sayings(404, 410), longGone, gateway.Probe{}, 409, "unknown", 1, 2},
		{"absent, and then an error", sayings(404, 500), longGone, gateway.Probe{}, 409, "unknown", 1, 2},
		{"absent, and nobody listed it", sayings(404), longGone, gateway.Probe{Happened: []int{200}}, 409, "unknown", 1, 1},
		{"it is there, and nobody listed it", sayings(200), longGone, gateway.Probe{Absent: []int{404}}, 409, "unknown", 1, 1},
		{"an error", sayings(500), longGone, gateway.Probe{}, 409, "unknown", 1, 1},
		{"a redirect", http.RedirectHandler("/base/charges?key=other", http.StatusFound).ServeHTTP, longGone, gateway.Probe{}, 409, "unknown", 1, 1},
		{"no answer", hang, longGone, gateway.Probe{}, 409, "unknown", 1, 1},
		{"an answer that breaks off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.Write([]byte("1"))
			panic(http.ErrAbortHandler)
		}, longGone, gateway.Probe{}, 409, "unknown", 1, 1},
		{"an answer that stops", func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("1"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, longGone, gateway.Probe{}, 409, "unknown", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &ledger{asked: tt.asked}
				l, stop := overPipes(t, up, probing(tt.probe))
				defer stop()
				wantProblem(t, "first", l.do(post("key-secret", "body", "Authorization", "secret")), 502, problem.OutcomeUnknown, "unknown")
				advance(tt.quiet)
				got := l.do(post("key-secret", "body", "Authorization", "secret"))
				if got.status != tt.want || got.header.Get("Idempotency-Status") != tt.said {
					t.Errorf("the retry: got %d %q, want %d %q", got.status, got.header.Get("Idempotency-Status"), tt.want, tt.said)
				}
				if posts, asks := up.counts(); posts != tt.posts || asks != tt.asks {
					t.Errorf("the upstream got %d posts and %d questions, want %d and %d", posts, asks, tt.posts, tt.asks)
				}
				for i, target := range up.queries {
					if target != "/base/charges?key=key-secret" || up.headers[i].Get("Authorization") != "" || up.headers[i].Get("Idempotency-Key") != "" {
						t.Errorf("it was asked at %s with %v", target, up.headers[i])
					}
				}
				l.wantSilentLog(t)
			})
		})
	}
}

// What was learned is what every later retry gets, as if the first had been answered so.
func TestProbeAnswerIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := overPipes(t, &ledger{asked: sayings(200, 500)}, probing(gateway.Probe{}))
		defer stop()
		l.do(post("k", "body"))
		for _, what := range []string{"the retry that asked", "the next"} {
			got := l.do(post("k", "body"))
			if got.status != 200 || got.body != `{"id":"1","asked":true}` || got.header.Get("Content-Type") != "application/json" || got.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: got %d %q %v", what, got.status, got.body, got.header)
			}
			if got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: a cookie of the probe was kept", what)
			}
		}
		wantProblem(t, "another body", l.do(post("k", "other")), 422, problem.KeyReused, "")
	})
}

// A question that told nothing is asked again by the next retry; what the owner sent long ago ages on meanwhile.
func TestProbeIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &ledger{asked: sayings(500, 404, 404, 404)}
		l, stop := overPipes(t, up, probing(gateway.Probe{}))
		defer stop()
		l.do(post("k", "body"))
		for _, quiet := range []time.Duration{0, longGone / 2} {
			advance(quiet)
			wantProblem(t, "a retry that learns nothing", l.do(post("k", "body")), 409, problem.OutcomeUnknown, "unknown")
		}
		advance(longGone / 2)
		wantCreated(t, "a retry that learns it", l.do(post("k", "body")), false)
		wantCreated(t, "the next", l.do(post("k", "body")), true)
	})
}

// Of two retries one asks; the other is told that it is in flight.
func TestProbeByTwoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		up := &ledger{}
		up.asked = func(w http.ResponseWriter, r *http.Request) { <-goOn; sayings(200)(w, r) }
		l, stop := overPipes(t, up, probing(gateway.Probe{}))
		defer stop()
		l.do(post("k", "body"))
		asks := make(chan reply)
		go func() { asks <- l.do(post("k", "body")) }()
		synctest.Wait()
		wantProblem(t, "the other", l.do(post("k", "body")), 409, problem.InFlight, "")
		close(goOn)
		if got := recv(t, "the one that asks", asks); got.status != 200 {
			t.Errorf("the one that asks: got %d", got.status)
		}
		if _, n := up.counts(); n != 1 {
			t.Errorf("the upstream was asked %d times, want once", n)
		}
	})
}

// Whatever a key holds, it is one segment or one value where it is asked about; or it is not asked about.
func TestProbeTarget(t *testing.T) {
	const odd = `/?&#% é+=;:@"{scope}`
	const escaped = `%2F%3F%26%23%25%20%C3%A9%2B%3D%3B%3A%40%22%7Bscope%7D`
	for _, tt := range []struct{ path, key, want string }{
		{"/charges/{key}", "k-1._~", "/charges/k-1._~"},
		{"/charges/{key}", odd, "/charges/" + escaped},
		{"/charges?key={key}", odd, "/charges?key=" + escaped},
		{"/charges?a=b&key={key}&c={key}", "a&b", "/charges?a=b&key=a%26b&c=a%26b"},
		{"/charges/{scope}/{key}.json?x", "k", "/charges/tenant%2F1/k.json?x"},
		{"/charges?", "k", "/charges?"},
		{"/caf%C3%A9/{key}", "k", "/caf%C3%A9/k"},
		{"/charges?key={key}", "..", "/charges?key=.."},
		{"/charges/{key}", "..", ""},
		{"/charges/{key}", ".", ""},
		{"/charges/{key}", "../admin", ""},
		{"/charges/{key}", `a\..\admin`, ""},
		{"/charges/.{key}", ".", ""},
		{"/charges/{key}", "...", "/charges/..."},
	} {
		got := gateway.ProbeTarget(gateway.Probe{Path: tt.path}, retrysafe.Key{Scope: "tenant/1", Name: tt.key})
		if got != tt.want {
			t.Errorf("%s, key %q: asks at %q, want %q", tt.path, tt.key, got, tt.want)
		}
		if got == "" {
			continue
		}
		u, err := url.ParseRequestURI(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if v := u.Query().Get("key"); v != "" && v != tt.key {
			t.Errorf("%q: the upstream reads the key %q, want %q", got, v, tt.key)
		}
	}
}

// FuzzProbeTarget: no key reaches a path, or a parameter, that is not its own.
func FuzzProbeTarget(f *testing.F) {
	for _, key := range []string{"k", "..", "a/../b", "a&key=b", "%2e%2e", "é", "\x00"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got := gateway.ProbeTarget(gateway.Probe{Path: "/charges/{key}/state?key={key}"}, retrysafe.Key{Name: key})
		if got == "" {
			return
		}
		u, err := url.ParseRequestURI(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if u.Path != "/charges/"+key+"/state" || strings.Count(u.EscapedPath(), "/") != 3 || !slices.Equal(u.Query()["key"], []string{key}) || len(u.Query()) != 1 {
			t.Errorf("key %q is asked about at %q", key, got)
		}
	})
}

func TestProbeIsRefused(t *testing.T) {
	recovers := &retrysafe.Policy{OnLeaseEnd: retrysafe.Recover, Lease: time.Second, Retention: time.Second}
	good := func() gateway.Probe { return gateway.Probe{Path: "/{key}", Happened: []int{200}} }
	for _, tt := range []struct {
		name string
		edit func(r *gateway.Route, p *gateway.Probe)
		want string
	}{
		{"a method that acts", func(_ *gateway.Route, p *gateway.Probe) { p.Method = "POST" }, "GET or HEAD"},
		{"no path", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "" }, "begin with one slash"},
		{"another host", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "//host/{key}" }, "begin with one slash"},
		{"a fragment", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "/#{key}" }, "no fragment"},
		{"no key", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "/charges" }, "{key}"},
		{"dots", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "/a/%2e%2e/{key}" }, "dot segments"},
		{"a space", func(_ *gateway.Route, p *gateway.Probe) { p.Path = "/a b/{key}" }, "can be asked at"},
		{"no status", func(_ *gateway.Route, p *gateway.Probe) { p.Happened = nil }, "needs a status"},
		{"a status that is none", func(_ *gateway.Route, p *gateway.Probe) { p.Absent = []int{101} }, "no status"},
		{"a status twice", func(_ *gateway.Route, p *gateway.Probe) { p.Absent = []int{200} }, "both"},
		{"a negative time", func(_ *gateway.Route, p *gateway.Probe) { p.Again = -1 }, "negative"},
		{"a policy that does not ask", func(r *gateway.Route, _ *gateway.Probe) { r.Guard.Policy = nil }, "OnLeaseEnd"},
		{"two ways to learn it", func(r *gateway.Route, _ *gateway.Probe) { r.Guard.Resend = true }, "give one"},
		{"an unguarded route", func(r *gateway.Route, _ *gateway.Probe) { r.Unguarded = true }, "nothing to ask about"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := good()
			r := gateway.Route{Path: "/a", Probe: &p, Guard: idemhttp.Options{Policy: recovers}}
			tt.edit(&r, &p)
			_, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "a"}, idemhttp.SharedScope, &gateway.Options{Routes: []gateway.Route{r}})
			route, ok := errors.AsType[*gateway.RouteError](err)
			if !ok || route.Field != "Probe" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want an error of field Probe that says %q", err, tt.want)
			}
		})
	}
	p := good()
	if _, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "a"}, idemhttp.SharedScope, &gateway.Options{Probe: &p, Guard: idemhttp.Options{Policy: recovers}}); err != nil {
		t.Errorf("New: %v, want none", err)
	}
	if fmt.Sprint(p) != fmt.Sprint(good()) {
		t.Errorf("New changed the caller's probe: %+v", p)
	}
}
