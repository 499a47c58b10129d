package gateway_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// limitedServer serves h with at most n connections.
func limitedServer(t *testing.T, n int, h http.Handler) (addr string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener = gateway.LimitConnections(s.Listener, n)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A connection beyond the limit waits until another closes.
func TestLimitConnections(t *testing.T) {
	up := newUpstream(t, charging)
	served := make(chan string, 10)
	l := newLab(t, up.url(), gateway.Options{})
	addr := limitedServer(t, 2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		l.ServeHTTP(w, r)
	}))
	var open []*caller
	for range 2 {
		c := dial(t, addr)
		c.send(t, "%s", unkeyed)
		wantCreated(t, "within the limit", c.answer(t, http.MethodPost), false)
		<-served
		open = append(open, c)
	}
	third := dial(t, addr)
	third.send(t, "%s", strings.Replace(unkeyed, "/charges", "/third", 1))
	open[0].send(t, "%s", unkeyed) // a connection that stands is served
	wantCreated(t, "again", open[0].answer(t, http.MethodPost), false)
	if got := recv(t, "a request", served); got != "/charges" {
		t.Errorf("%s was served beyond the limit", got)
	}
	open[0].Close()
	wantCreated(t, "beyond the limit, when there is room", third.answer(t, http.MethodPost), false)
}

// Who is refused before the body was read whole sees why: the server ends its side first, and resets nothing.
func TestLimitedConnectionClosesForWriting(t *testing.T) {
	up := newUpstream(t, charging)
	addr := limitedServer(t, 1, newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxBody: 10}}))
	for range 2 {
		c := dial(t, addr)
		c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 1000000\r\n\r\n%s", strings.Repeat("x", 500_000))
		wantProblem(t, "refused", c.answer(t, http.MethodPost), 413, problem.BodyTooLarge, "")
		if n, err := c.r.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, net.ErrClosed) {
			t.Errorf("got %d bytes, %v: want the end", n, err)
		}
		c.Close()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := gateway.LimitConnections(ln, 1)
	defer limited.Close()
	dial(t, ln.Addr().String())
	conn, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		t.Error("the connection cannot be closed for writing alone")
	}
}

// Accept ends with its listener, also while it waits for room.
func TestLimitedListenerCloses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := gateway.LimitConnections(ln, 1)
	dial(t, ln.Addr().String())
	conn, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := limited.Accept()
		ended <- err
	}()
	limited.Close()
	if err := recv(t, "the end of Accept", ended); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want that the listener is closed", err)
	}
}
