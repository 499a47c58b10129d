package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

const (
	mib  = 1 << 20
	huge = 100 * mib
)

// heap returns the bytes of the live objects and of those that were not collected yet.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// pour sends a body of chunks of 64 KiB until it is whole or nobody takes it any more. It returns how much was taken,
// and by how much the heap grew at most.
func (c *caller) pour(size int) (taken int, grew int64) {
	runtime.GC()
	before := heap()
	chunk := []byte(fmt.Sprintf("10000\r\n%s\r\n", strings.Repeat("x", 64<<10)))
	for taken < size {
		if _, err := c.Write(chunk); err != nil {
			return taken, grew
		}
		if taken += 64 << 10; taken%mib == 0 {
			grew = max(grew, heap()-before)
		}
	}
	c.Write([]byte("0\r\n\r\n"))
	return taken, grew
}

// BE-1: a body without a length is counted as it comes: it is refused at the limit, and what was read of it is all
// that it ever took.
func TestHugeBodyIsRefusedAtTheLimit(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxBody: 10 * mib}})
	c := dial(t, serve(t, l))
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
	taken, grew := c.pour(huge)
	wantProblem(t, "request", c.answer(t, "POST"), 413, problem.BodyTooLarge, "")
	t.Logf("%d MiB were taken, the heap grew by %d MiB", taken/mib, grew/mib)
	if taken > 32*mib || grew > 32*mib { // a body doubles as it grows: 8 MiB, 16 MiB, and what is not collected yet
		t.Errorf("%d MiB were taken, the heap grew by %d MiB: want little more than the limit of 10 MiB", taken/mib, grew/mib)
	}
	l.wantState(t, "k", retrysafe.Absent)
	up.wantRequests(t, 0)
}

// BE-1: a length over the limit is refused before a byte of the body.
func TestHugeLengthIsRefusedAtOnce(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxBody: 10 * mib}})
	c := dial(t, serve(t, l))
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n", huge)
	wantProblem(t, "request", c.answer(t, "POST"), 413, problem.BodyTooLarge, "")
	l.wantState(t, "k", retrysafe.Absent)
	up.wantRequests(t, 0)
}

// What is not guarded has no limit, and needs no memory either.
func TestHugeBodyPassesInConstantMemory(t *testing.T) {
	got := make(chan int64, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got <- n
	}))
	t.Cleanup(s.Close)
	c := dial(t, serve(t, newLab(t, s.URL, gateway.Options{Guard: idemhttp.Options{MaxBody: 10 * mib}})))
	c.send(t, "PUT / HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n")
	_, grew := c.pour(huge)
	if res := c.answer(t, "PUT"); res.status != 200 {
		t.Errorf("got %d", res.status)
	}
	if n := recv(t, "the body", got); n != huge || grew > 24*mib {
		t.Errorf("%d MiB came, the heap grew by %d MiB, want %d MiB and next to nothing", n/mib, grew/mib, huge/mib)
	}
}

// BE-4: a body that ends early claims nothing, and the whole request runs afterwards.
func TestTruncatedUpload(t *testing.T) {
	for name, framing := range map[string]string{"with a length": "Content-Length: 100\r\n\r\n" + strings.Repeat("x", 40), "in chunks": "Transfer-Encoding: chunked\r\n\r\n28\r\n" + strings.Repeat("x", 40) + "\r\n"} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{})
			addr := serve(t, l)
			c := dial(t, addr)
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n%s", framing)
			c.CloseWrite()
			if got, err := http.ReadResponse(c.r, nil); err == nil && got.StatusCode != 400 {
				t.Errorf("got %d, want 400 or nothing", got.StatusCode)
			}
			l.wantState(t, "k", retrysafe.Absent)
			up.wantRequests(t, 0)
			c = dial(t, addr)
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n%s", strings.Repeat("x", 100))
			wantCreated(t, "whole", c.answer(t, "POST"), false)
			if got := recv(t, "the request", up.told); len(got.body) != 100 {
				t.Errorf("%d bytes came upstream, want 100", len(got.body))
			}
		})
	}
}
