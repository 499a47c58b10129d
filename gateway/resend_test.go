package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// GW-1, GW-2, trap 8: one send, always. Go's client sends a request again by itself when a kept-alive connection
// breaks before the first byte of an answer, if the request bears an Idempotency-Key and its body can be rewound.

// silentAfterOne serves the first request of its first connection, and executes the next ones without an answer.
func silentAfterOne(p *peer) {
	if _, ok := p.request(); !ok {
		return
	}
	if p.n == 1 {
		p.answer(created)
		p.request()
	}
}

// sendings are bodies as callers send them.
var sendings = []struct {
	name    string
	body    string
	chunked bool
}{
	{"empty", "", false},
	{"small", "body", false},
	{"1 MiB", strings.Repeat("0123456789abcdef", 1<<16), false},
	{"empty, chunked", "", true},
	{"small, chunked", "body", true},
	{"1 MiB, chunked", strings.Repeat("0123456789abcdef", 1<<16), true},
}

func TestOneSend(t *testing.T) {
	for _, s := range sendings {
		for _, tt := range []struct {
			name  string
			lines []string
			keyed bool
		}{
			{"with a key", []string{"Idempotency-Key", "k"}, true},
			{"with both keys", []string{"Idempotency-Key", "k", "X-Idempotency-Key", "x"}, true},
			{"without a key", nil, false},
			{"without a key, with another's", []string{"X-Idempotency-Key", "x"}, false},
		} {
			t.Run(s.name+", "+tt.name, func(t *testing.T) {
				up := newUpstream(t, silentAfterOne)
				l := newLab(t, up.url(), gateway.Options{})
				wantCreated(t, "the first of the connection", l.do(post("warm", "x")), false)

				r := request(http.MethodPost, "/charges", s.body, tt.lines...)
				if s.chunked {
					r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
					r.Body = io.NopCloser(strings.NewReader(s.body))
				}
				got := l.do(r)
				requests := up.requests()
				if len(requests) != 2 || requests[1].conn != 1 {
					t.Fatalf("%d requests reached the upstream, want 2 on one connection", len(requests))
				}
				if !bytes.Equal(requests[1].body, []byte(s.body)) {
					t.Errorf("the upstream got %d bytes of body, want %d", len(requests[1].body), len(s.body))
				}
				if !tt.keyed {
					if got.status != 502 {
						t.Errorf("got %d, want 502", got.status)
					}
					return
				}
				wantProblem(t, "first", got, 502, problem.OutcomeUnknown, "unknown")
				l.wantState(t, "k", retrysafe.Unknown)
				up.wantRequests(t, 2)
			})
		}
	}
}

// The danger is real: a plain reverse proxy has the upstream execute twice. When this fails, Go has changed.
func TestPlainReverseProxySendsTwice(t *testing.T) {
	up := newUpstream(t, silentAfterOne)
	u, err := url.Parse(up.url())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) }}
	for _, key := range []string{"warm", "k"} {
		proxy.ServeHTTP(httptest.NewRecorder(), request(http.MethodPost, "/", "", "Idempotency-Key", key))
	}
	if n := len(up.requests()); n < 3 {
		t.Errorf("%d requests reached the upstream: want one more than were sent", n)
	}
}

// A keyed request of another method, not guarded, is sent once too.
func TestUnguardedMethodIsSentOnce(t *testing.T) {
	for _, method := range []string{"PUT", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			up := newUpstream(t, silentAfterOne)
			l := newLab(t, up.url(), gateway.Options{})
			l.do(post("warm", "x"))
			if got := l.do(request(method, "/charges/1", "", "Idempotency-Key", "k")); got.status != 502 {
				t.Errorf("got %d, want 502", got.status)
			}
			up.wantRequests(t, 2)
		})
	}
}

// Every method that may be guarded is sent once, with a body and without.
func TestGuardedMethodsAreSentOnce(t *testing.T) {
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		for name, body := range map[string]string{"empty": "", "small": "body"} {
			t.Run(method+", "+name, func(t *testing.T) {
				up := newUpstream(t, silentAfterOne)
				l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Methods: []string{"POST", "PATCH", "PUT", "DELETE"}}})
				l.do(post("warm", "x"))
				got := l.do(request(method, "/charges/1", body, "Idempotency-Key", "k"))
				wantProblem(t, "first", got, 502, problem.OutcomeUnknown, "unknown")
				up.wantRequests(t, 2)
				if last := up.requests()[1]; last.chunked || string(last.body) != body {
					t.Errorf("upstream: chunked %v, body %q", last.chunked, last.body)
				}
			})
		}
	}
}

// The key reaches the upstream as it stood, so that each stage can recognise the retry.
func TestKeyOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header string
		field  string
	}{
		{"bare", "Idempotency-Key", "k-1"},
		{"quoted", "Idempotency-Key", `"k-1"`},
		{"quoted, with a parameter", "Idempotency-Key", `"k-1";v=1`},
		{"quoted, escapes", "Idempotency-Key", `"a\"b\\c"`},
		{"case", "Idempotency-Key", "AbC"},
		{"under another name", "X-Request-Reference", "k-1"},
		{"under the other name that Go looks for", "X-Idempotency-Key", "k-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"X-Other", tt.header}}}})
			wantCreated(t, "first", l.do(request(http.MethodPost, "/", "x", tt.header, tt.field)), false)
			wantCreated(t, "again", l.do(request(http.MethodPost, "/", "x", tt.header, tt.field)), true)
			up.wantRequests(t, 1)
			if got := recv(t, "the request", up.told).header(tt.header); !slices.Equal(got, []string{tt.field}) {
				t.Errorf("%s is %q upstream, want %q once", tt.header, got, tt.field)
			}
		})
	}
}

// A kept-alive connection that the upstream has given up dies at its first write: nothing left, so the key is
// released, and a retry on a fresh connection runs.
func TestDeadIdleConnection(t *testing.T) {
	for _, s := range sendings {
		t.Run(s.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{})
			var dead atomic.Bool
			l.DialBy(func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &mortal{Conn: c, dead: &dead}, err
			})
			wantCreated(t, "the first of the connection", l.do(post("warm", "x")), false)
			dead.Store(true)
			sent := func() *http.Request {
				r := post("k", s.body)
				if s.chunked {
					r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(s.body))
				}
				return r
			}
			got := l.do(sent())
			wantProblem(t, "on the dead connection", got, 502, problem.UpstreamUnreachable, "")
			if got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			l.wantState(t, "k", retrysafe.Absent)
			dead.Store(false)
			wantCreated(t, "again", l.do(sent()), false)
			up.wantRequests(t, 2)
		})
	}
}

// A mortal connection takes no byte once it is dead.
type mortal struct {
	net.Conn
	dead *atomic.Bool
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.dead.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return m.Conn.Write(p)
}

// CC-1 over processes: of many attempts at two gateways on one store, one reaches the upstream.
func TestTwoGatewaysOneRun(t *testing.T) {
	up := newUpstream(t, charging)
	s := memstore.New(nil)
	gateways := []*lab{labOver(t, s, up.url(), idemhttp.SharedScope, gateway.Options{}), labOver(t, s, up.url(), idemhttp.SharedScope, gateway.Options{})}
	start := make(chan struct{})
	var all sync.WaitGroup
	var whole atomic.Int64
	for i := range 200 {
		all.Go(func() {
			<-start
			switch got := gateways[i%2].do(post("k", "body")); got.status {
			case 409:
				wantProblem(t, "attempt", got, 409, problem.InFlight, "")
			default:
				wantCreated(t, fmt.Sprint("attempt ", i), got, got.header.Get("Idempotent-Replayed") != "")
				whole.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	up.wantRequests(t, 1)
	if whole.Load() == 0 {
		t.Error("nobody got the answer")
	}
	for _, g := range gateways {
		wantCreated(t, "afterwards", g.do(post("k", "body")), true)
	}
}

// GW-8: different keys are different operations, also over one connection.
func TestManyKeys(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	for i := range 50 {
		wantCreated(t, "first", l.do(post(fmt.Sprint("k", i), "body")), false)
	}
	up.wantRequests(t, 50)
	for i := range 50 {
		wantCreated(t, "again", l.do(post(fmt.Sprint("k", i), "body")), true)
	}
	up.wantRequests(t, 50)
}
