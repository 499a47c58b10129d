package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// closeMidway answers half and closes the connection.
func closeMidway(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, "half")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestConnectionClosedMidwayIsToldAndReplaced(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, call, withKey int) {
		if call%10 == 0 {
			closeMidway(w)
		}
		created(w, call, withKey)
	})
	got := r.run(t, testPlan(r.URL))
	broken := uint64(r.calls / 10)
	if broken == 0 || got.Errors != broken || got.Requests != uint64(r.calls)-broken {
		t.Errorf("%d requests, %d errors; the server had %d and broke %d", got.Requests, got.Errors, r.calls, broken)
	}
	if want := "read body of answer with status 200: unexpected EOF"; got.FirstError != want || got.GaveUp != 0 {
		t.Errorf("first error %q, %d gave up; want %q and none", got.FirstError, got.GaveUp, want)
	}
}

func TestServerWithoutKeepAliveIsTold(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, call, withKey int) {
		w.Header().Set("Connection", "close")
		created(w, call, withKey)
	})
	got := r.run(t, testPlan(r.URL))
	if got.Requests != 0 || got.Rate != 0 || got.FirstError != errClosing.Error() {
		t.Errorf("%d requests, rate %v, first error %q; want 0, 0, %q", got.Requests, got.Rate, got.FirstError, errClosing)
	}
}

func TestClientsGiveUpOnAServerThatAlwaysFails(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, _, _ int) { closeMidway(w) })
	p := testPlan(r.URL)
	p.Duration = time.Hour // giving up ends the run long before
	got := r.run(t, p)
	if got.GaveUp != p.Connections || got.Errors != uint64(p.Connections*maxFailures) || r.calls != p.Connections*maxFailures {
		t.Errorf("%d gave up after %d errors and %d calls; want %d after %d", got.GaveUp, got.Errors, r.calls, p.Connections, p.Connections*maxFailures)
	}
}

func TestNoServerIsTold(t *testing.T) {
	r := newRecorder(t, created)
	p := testPlan(r.URL)
	p.Mode, p.Duration = Replay, time.Hour
	r.Close()
	got := r.run(t, p)
	if got.GaveUp != p.Connections || got.Sent != 0 || !strings.HasPrefix(got.FirstError, "connect: ") {
		t.Errorf("%d gave up, %d sent, first error %q; want all, none, a connect error", got.GaveUp, got.Sent, got.FirstError)
	}
}

func TestServerThatHangsIsTold(t *testing.T) {
	release := make(chan struct{})
	r := newRecorder(t, func(http.ResponseWriter, int, int) { <-release })
	p := testPlan(r.URL)
	p.Timeout = 20 * time.Millisecond
	g, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Run(t.Context())
	close(release)
	if err != nil || got.Requests != 0 || !strings.Contains(got.FirstError, "i/o timeout") {
		t.Errorf("Run = %d requests, first error %q, %v; want a timeout", got.Requests, got.FirstError, err)
	}
}

// An answer that comes after the window belongs to it if its request does: else a
// server could hide its stalls at the end.
func TestStallAtTheEndIsMeasured(t *testing.T) {
	const stall = 60 * time.Millisecond
	r := newRecorder(t, func(w http.ResponseWriter, call, withKey int) {
		<-time.After(stall)
		created(w, call, withKey)
	})
	p := testPlan(r.URL)
	p.Duration = 10 * time.Millisecond
	got := r.run(t, p)
	checkClean(t, got, 201)
	if got.Requests != uint64(p.Connections) || got.Latency.P50 < 60e3 || got.Seconds < stall.Seconds() {
		t.Errorf("%d requests, median %v us, %v s; want %d that took %v", got.Requests, got.Latency.P50, got.Seconds, p.Connections, stall)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	r := newRecorder(t, func(http.ResponseWriter, int, int) {
		cancel()
		<-release
	})
	p := testPlan(r.URL)
	p.Duration, p.Timeout = time.Hour, time.Hour
	g, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Run(ctx)
	close(release)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: error %v; want %v", err, context.Canceled)
	}
}
