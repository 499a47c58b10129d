package idemhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Bodies of many requests at once, and bodies that stop coming.

// upload begins a request that declares length bytes and sends body.
func upload(t *testing.T, addr, key string, length int, body string) *wire {
	t.Helper()
	c := dial(t, addr)
	c.send(t, fmt.Sprintf("POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, length, body))
	return c
}

// What counts against the bound over all bodies is what came: an unfinished upload does, what it declared does not,
// and whatever way a request ends its bytes are given back.
func TestBodiesTogether(t *testing.T) {
	const limit = 1 << 20
	l := newLab(t, setup{guard: idemhttp.Options{MaxBody: limit, MaxBodies: limit}}, charged)
	arrived := make(chan struct{})
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "unfinished" {
			r.Body = &counted{ReadCloser: r.Body, until: limit - 200, counted: arrived}
		}
		l.ServeHTTP(w, r)
	}))
	for i := range 50 {
		upload(t, addr, fmt.Sprintf("declares-%d", i), limit, "x")
	}
	half := strings.Repeat("x", limit/2)
	wantCharged(t, "beside what is only declared", upload(t, addr, "k0", limit/2, half).answer(t), false)

	unfinished := upload(t, addr, "unfinished", limit-100, strings.Repeat("x", limit-200))
	recv(t, "the unfinished upload", arrived)
	refused := upload(t, addr, "refused", limit/2, half).answer(t)
	wantProblem(t, "no room", refused, 503, problem.Overloaded)
	wantRetryAfter(t, "no room", refused, 1)

	unfinished.send(t, strings.Repeat("x", 100))
	wantCharged(t, "the upload, finished", unfinished.answer(t), false)
	for i := range 20 { // nothing stays taken: of those that ran, were refused, or broke off
		c := upload(t, addr, fmt.Sprintf("broken-%d", i), limit/2, half[1:])
		c.CloseWrite()
		wantProblem(t, "broken off", c.answer(t), 400, problem.BodyUnreadable)
		wantProblem(t, "too large", chunked(t, addr, half+half+"x").answer(t), 413, problem.BodyTooLarge)
		wantCharged(t, "with room again", upload(t, addr, fmt.Sprintf("after-%d", i), limit/2, half).answer(t), false)
	}
}

// A counted body tells when so much of it was read, and more is asked for.
type counted struct {
	io.ReadCloser
	until   int
	counted chan struct{}
}

func (c *counted) Read(p []byte) (n int, err error) {
	if c.until == 0 {
		close(c.counted)
	}
	n, err = c.ReadCloser.Read(p)
	c.until -= n
	return n, err
}

func chunked(t *testing.T, addr, body string) *wire {
	t.Helper()
	c := dial(t, addr)
	c.send(t, fmt.Sprintf("POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: chunked\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	return c
}

// A body that stops coming is refused in time. The key is free, and what came of the body is given back.
func TestBodyStopsComing(t *testing.T) {
	l, _ := reading(t, idemhttp.Options{MaxBody: 100, MaxBodies: 100, BodyTimeout: 100 * time.Millisecond})
	addr := serve(t, l)
	for range 2 {
		wantProblem(t, "silence", upload(t, addr, "k", 100, strings.Repeat("x", 99)).answer(t), 400, problem.BodyUnreadable)
	}
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "whole", upload(t, addr, "k", 3, "abc").answer(t), false)
}

// The time-out of a body is over when the body has come: a handler that takes longer keeps its caller.
func TestBodyTimeoutEndsWithTheBody(t *testing.T) {
	gone := make(chan bool, 1)
	l := newLab(t, setup{guard: idemhttp.Options{BodyTimeout: 50 * time.Millisecond}}, charged)
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.ServeHTTP(w, r)
		select {
		case <-r.Context().Done():
			gone <- true
		case <-time.After(300 * time.Millisecond):
			gone <- false
		}
	}))
	wantCharged(t, "request", upload(t, addr, "k", 3, "abc").answer(t), false)
	if recv(t, "what became of the caller", gone) {
		t.Error("the request's context ended, though its caller is there")
	}
}

// Switched off, a server's own deadline is the only one.
func TestBodyTimeoutOff(t *testing.T) {
	l, _ := reading(t, idemhttp.Options{BodyTimeout: retrysafe.Off})
	s := httptest.NewUnstartedServer(l)
	s.Config.ReadTimeout = 200 * time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	wantProblem(t, "silence", upload(t, s.Listener.Addr().String(), "k", 100, "x").answer(t), 400, problem.BodyUnreadable)
}
