package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The laboratory of the gateway's tests: a gateway over a store in memory, and raw connections on both of its sides.

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// A lab is a gateway and what it stands on.
type lab struct {
	*gateway.Gateway
	executor *retrysafe.Executor
	log      *logbook
}

// newLab returns a gateway to an upstream of that URL, in the shared scope.
func newLab(t *testing.T, upstream string, o gateway.Options) *lab {
	t.Helper()
	return labOver(t, memstore.New(nil), upstream, idemhttp.SharedScope, o)
}

func labOver(t *testing.T, s retrysafe.Store, upstream string, scope idemhttp.ScopeFunc, o gateway.Options) *lab {
	t.Helper()
	l := &lab{log: &logbook{}}
	o.Logger = slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.KeepAlive = true // the harder case: what one request leaves on a connection could reach another
	e, err := retrysafe.New(s, &retrysafe.Options{Logger: o.Logger})
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	if l.Gateway, err = gateway.New(e, u, scope, &o); err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	l.executor = e
	t.Cleanup(func() { l.wantSilentLog(t) })
	return l
}

// A logbook is a log that many goroutines may write.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A reply is what a caller was told.
type reply struct {
	status int
	header http.Header
	body   string
	cut    bool // the connection was cut: the answer is not whole
}

// post returns a charge under a key, with further header lines, given as names and values in turn.
func post(key, body string, lines ...string) *http.Request {
	return request(http.MethodPost, "/charges?source=query-secret", body, append([]string{"Idempotency-Key", key, "Content-Type", "application/json"}, lines...)...)
}

func request(method, target, body string, lines ...string) *http.Request {
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, from)
	r.RemoteAddr = "127.0.0.1:4711"
	for i := 0; i < len(lines); i += 2 {
		r.Header.Add(lines[i], lines[i+1])
	}
	return r
}

// do has the gateway answer r as a server would.
func (l *lab) do(r *http.Request) (got reply) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	w := httptest.NewRecorder()
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			got = reply{cut: true}
		default:
			panic(p)
		}
	}()
	l.ServeHTTP(finals{w}, r.WithContext(ctx))
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: string(body)}
}

// finals records the final answer: a recorder takes an informational one for it.
type finals struct{ *httptest.ResponseRecorder }

func (f finals) WriteHeader(status int) {
	if status >= 200 {
		f.ResponseRecorder.WriteHeader(status)
	}
}

// serve returns the address of a real server in front of h.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A caller is a client's end of a raw connection.
type caller struct {
	*net.TCPConn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *caller {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &caller{c.(*net.TCPConn), bufio.NewReader(c)}
}

func (c *caller) send(t *testing.T, text string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(c, text, args...); err != nil {
		t.Fatalf("write to the gateway: %v", err)
	}
}

// answer reads a whole answer to a request of that method.
func (c *caller) answer(t *testing.T, method string) reply {
	t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), err != nil}
}

// recv waits for what must come on a channel.
func recv[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}

// wantCreated expects what created says, from the upstream or as a replay.
func wantCreated(t *testing.T, what string, got reply, replayed bool) {
	t.Helper()
	if got.status != 201 || got.body != `{"id":"1"}` || got.header.Get("Location") != "/charges/1" {
		t.Errorf("%s: got %d %q, want the charge", what, got.status, got.body)
	}
	if marker := got.header.Get("Idempotent-Replayed"); (marker == "true") != replayed {
		t.Errorf("%s: Idempotent-Replayed is %q, want it: %v", what, marker, replayed)
	}
}

// wantProblem expects an answer of the gateway's own, with an Idempotency-Status or "" for none.
func wantProblem(t *testing.T, what string, got reply, status int, code problem.Code, said string) {
	t.Helper()
	var p struct {
		Status int
		Code   problem.Code
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		t.Fatalf("%s: got %d %q, want a problem with code %s", what, got.status, got.body, code)
	}
	if got.status != status || p.Status != status || p.Code != code || got.header.Get("Idempotency-Status") != said {
		t.Errorf("%s: got %d, body status %d, code %s, Idempotency-Status %q: want %d %s %q", what, got.status, p.Status, p.Code, got.header.Get("Idempotency-Status"), status, code, said)
	}
	if strings.Contains(got.body, "secret") {
		t.Errorf("%s: the problem tells what was asked or answered: %s", what, got.body)
	}
}

// stands returns the state of a key of the shared scope.
func (l *lab) stands(t *testing.T, key string) retrysafe.Record {
	t.Helper()
	r, err := l.executor.Inspect(t.Context(), retrysafe.Key{Scope: "shared", Name: key}.ID())
	if err != nil && !errors.Is(err, retrysafe.ErrNotFound) {
		t.Fatalf("Inspect(%s): %v", key, err)
	}
	return r
}

// wantState expects a key to stand so.
func (l *lab) wantState(t *testing.T, key string, want retrysafe.State) {
	t.Helper()
	if got := l.stands(t, key).State; got != want {
		t.Errorf("key %s stands as %v, want %v", key, got, want)
	}
}

// wantSilentLog expects the log to hold neither keys nor payloads.
func (l *lab) wantSilentLog(t *testing.T) {
	t.Helper()
	if strings.Contains(l.log.String(), "secret") {
		t.Errorf("the log tells what was asked or answered: %s", l.log)
	}
}
