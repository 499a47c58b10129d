package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A gateway that is told to stop ends what is under way, and begins nothing.
func TestDrain(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	l := startGateway(t, url)
	idle, late := dial(t, l.url), dial(t, l.url)
	idle.post(t, "/ok", "zq-key-before", "a")
	idle.answer(t).wantStatus(t, 200)
	<-arrived
	late.postHead(t, "/ok", "zq-key-late", 1)

	underway := l.begin(t, "/block", "zq-key-underway", "a")
	<-arrived
	l.stop()
	l.stderr.await(t, "msg=draining at_most=30s")
	for l.get(t, "/readyz", false).status != 503 {
	}
	if a := l.get(t, "/readyz", false); !strings.Contains(a.body, `"reasons":["draining"]`) {
		t.Errorf("GET /readyz while draining: got %v, want the reason draining", a)
	}
	l.get(t, "/healthz", false).wantStatus(t, 200)

	// So that callers learn it, all are told to come again: whose request had begun to arrive before, who kept
	// a connection, and newcomers.
	late.write(t, "a")
	idle.post(t, "/ok", "zq-key-after", "a")
	for _, a := range []answer{late.answer(t), idle.answer(t), l.send(t, "POST", "/ok", "zq-key-newcomer", "a")} {
		a.wantProblem(t, 503, "draining")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("got %v, want Retry-After", a)
		}
	}
	if len(arrived) != 0 {
		t.Errorf("the upstream saw %s while draining", <-arrived)
	}

	release()
	(<-underway).wantStatus(t, 200)
	if got := <-l.status; got != exitOK {
		t.Errorf("got status %d, want 0", got)
	}
	l.stderr.await(t, "msg=drained$")
	if c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://")); err == nil {
		c.Close()
		t.Error("after the drain somebody listens still")
	}
}

// What does not end in time is cut off, and said.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"zq-key-1": `^retrysafe: drain: 1 operations were still under way: --drain-timeout 10ms is over: their callers were cut off$`,
		"":         `^retrysafe: drain: callers were cut off: --drain-timeout 10ms is over$`,
	} {
		url, arrived, _ := startStates(t)
		l := startGateway(t, url, "--drain-timeout", "10ms")
		cut := make(chan error, 1)
		r := l.request(t, "POST", "/block", key, "")
		go func() {
			_, err := do(l.client, r)
			cut <- err
		}()
		<-arrived
		l.stop()
		if got := <-l.status; got != exitError {
			t.Errorf("got status %d, want %d", got, exitError)
		}
		l.stderr.await(t, want)
		if err := <-cut; err == nil {
			t.Error("the request under way got an answer, want it cut off")
		}
	}
}

// A wire is a connection to a gateway on which the test writes by itself.
type wire struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, url string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	return &wire{c, bufio.NewReader(c)}
}

func (w *wire) text(path, key, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
}

func (w *wire) post(t *testing.T, path, key, body string) {
	t.Helper()
	w.write(t, w.text(path, key, body))
}

// postHead sends a POST but for its body, and returns when its handler runs: the server says 100 only once the
// body is read (RFC 9110, 10.1.1).
func (w *wire) postHead(t *testing.T, path, key string, length int) {
	t.Helper()
	w.write(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nIdempotency-Key: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, key, length))
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if got, err := w.answers.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

func (w *wire) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func (w *wire) answer(t *testing.T) answer {
	t.Helper()
	res, err := http.ReadResponse(w.answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}
