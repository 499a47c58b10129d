package idemhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Real servers and raw connections, for what only the wire shows.

// serve returns the address of a real server in front of h.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A wire is a client's end of a connection.
type wire struct {
	*net.TCPConn
	r *bufio.Reader
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &wire{c.(*net.TCPConn), bufio.NewReader(c)}
}

func (w *wire) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("write to the server: %v", err)
	}
}

// line reads one line without its end.
func (w *wire) line(t *testing.T) string {
	t.Helper()
	line, err := w.r.ReadString('\n')
	if err != nil {
		t.Fatalf("read from the server: %v after %q", err, line)
	}
	return line[:len(line)-2]
}

// answer reads the answer to a POST.
func (w *wire) answer(t *testing.T) reply {
	t.Helper()
	res, err := http.ReadResponse(w.r, &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), err != nil}
}

// reset closes the connection the hard way: the server sees it at its next read or write.
func (w *wire) reset() {
	w.SetLinger(0)
	w.Close()
}

// post sends a POST under a key to a real server.
func (w *wire) post(t *testing.T, path, key, body string) {
	t.Helper()
	w.send(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: api\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body))
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
