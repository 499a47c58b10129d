package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A caller who never reads its answer does not hold up a drain, nor does one who stops sending.
func TestDrainDoesNotWaitForStuckCallers(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(bytes.Repeat([]byte("x"), 32<<20)) // more than the systems' buffers take
	}))
	t.Cleanup(up.Close)
	l := startGateway(t, up.URL, "--write-timeout", "200ms", "--body-timeout", "200ms")
	for _, key := range []string{"zq-key-1", "zq-key-2"} {
		stuck := dial(t, l.url)
		stuck.post(t, "/large", key, "a")
		if _, err := stuck.answers.Peek(1); err != nil { // it has begun to go out, and nobody reads on
			t.Fatal(err)
		}
	}
	dial(t, l.url).postHead(t, "/large", "zq-key-3", 10)
	l.stop()
	if got := <-l.status; got != exitOK {
		t.Errorf("got status %d, want 0; it said:\n%s", got, l.stderr)
	}
	l.stderr.await(t, "msg=drained$")
}

// --max-bodies and --max-connections reach what they bound.
func TestBoundsOfFlags(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	l := startGateway(t, url, "--max-body", "10", "--max-bodies", "10", "--max-connections", "2")
	first := l.begin(t, "/block", "zq-key-1", "zq-body-10")
	<-arrived
	second := dial(t, l.url)
	second.post(t, "/ok", "zq-key-2", "a")
	second.answer(t).wantProblem(t, 503, "overloaded")
	third := dial(t, l.url)
	third.post(t, "/ok", "zq-key-3", "")
	second.post(t, "/ok", "zq-key-2", "") // a connection that stands is served
	second.answer(t).wantStatus(t, 200)
	if got := len(arrived); got != 1 {
		t.Errorf("%d requests reached the upstream, want that of the second connection alone", got)
	}
	release()
	(<-first).wantStatus(t, 200)
	second.Close()
	third.answer(t).wantStatus(t, 200)
}

// The first signal ends a command that waits for standard input.
func TestInterruptedWhileReadingInput(t *testing.T) {
	t.Parallel()
	l := startGateway(t, "http://127.0.0.1:9")
	ctx, interrupt := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	defer typed.Close()
	var out, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"key", "resolve", "--key", "zq-key-1", "--complete", "--by", "a", "--reason", "b", "--status", "200", "--body", "-",
			"--admin", l.admin, "--admin-token", token}, in, &out, &stderr)
	}()
	if _, err := typed.Write([]byte("half")); err != nil { // the command reads
		t.Fatal(err)
	}
	interrupt()
	if got := <-ended; got != exitError || !strings.HasSuffix(stderr.String(), "interrupted: nothing was decided\n") {
		t.Errorf("got status %d, %q: want 1 and that it was interrupted", got, stderr.String())
	}
}
