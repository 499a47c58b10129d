package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// ST-5: trailers are dropped on the guarded way, in both directions (RFC 9110, 6.5.1 allows it): a replay could not
// have them, and the first answer is not to differ from it.

func TestRequestTrailers(t *testing.T) {
	const chunked = "Trailer: X-Sum, Idempotency-Key\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nIdempotency-Key: other\r\n\r\n"
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	c := dial(t, serve(t, l))
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n"+chunked)
	wantCreated(t, "guarded", c.answer(t, "POST"), false)
	got := recv(t, "the request", up.told)
	wantLines(t, got, "Trailer")
	wantLines(t, got, "X-Sum")
	wantLines(t, got, "Idempotency-Key", "k")
	l.wantState(t, "k", retrysafe.Completed)
	l.wantState(t, "other", retrysafe.Absent)

	l = newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Required: true}})
	c = dial(t, serve(t, l))
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\n"+chunked)
	wantProblem(t, "a key in a trailer", c.answer(t, "POST"), 400, problem.KeyMissing, "")
	up.wantRequests(t, 1)
}

func TestAnswerTrailers(t *testing.T) {
	for _, tt := range []struct {
		name string
		kept bool
		o    gateway.Options
		head string
	}{
		{"kept", true, gateway.Options{}, "Content-Type: text/plain\r\n"},
		{"too large to be kept", false, gateway.Options{Guard: idemhttp.Options{MaxResponse: 3}}, "Content-Type: text/plain\r\n"},
		{"events", false, gateway.Options{}, "Content-Type: text/event-stream\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, answering("HTTP/1.1 200 OK\r\n"+tt.head+"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nLocation: /smuggled\r\n\r\n"))
			l := newLab(t, up.url(), tt.o)
			c := dial(t, serve(t, l))
			for i := range 2 {
				c.send(t, keyed)
				res, err := http.ReadResponse(c.r, &http.Request{Method: "POST"})
				if err != nil {
					t.Fatal(err)
				}
				body := new(strings.Builder)
				if err := res.Write(body); err != nil { // to its end, where trailers are
					t.Fatal(err)
				}
				if len(res.Trailer) != 0 || res.Header["X-Sum"] != nil || res.Header["Trailer"] != nil || res.Header["Location"] != nil {
					t.Errorf("answer %d has the trailers %v, header %v", i+1, res.Trailer, res.Header)
				}
				if whole := strings.Contains(body.String(), "body"); whole != (tt.kept || i == 0) {
					t.Errorf("answer %d: %q", i+1, body)
				}
			}
			up.wantRequests(t, 1)
		})
	}
}

// A gRPC call tells how it ended where nothing is kept of it: with a key it is refused, not run unguarded.
func TestGRPCWithAKey(t *testing.T) {
	for _, contentType := range []string{"application/grpc", "application/grpc+proto", "Application/GRPC; a=b", "application/grpc-web+proto", "application/grpc-web-text"} {
		t.Run(contentType, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{})
			wantProblem(t, "with a key", l.do(request("POST", "/s/m", "x", "Idempotency-Key", "k", "Content-Type", contentType)), 400, problem.KeyInvalid, "")
			l.wantState(t, "k", retrysafe.Absent)
			up.wantRequests(t, 0)
			wantCreated(t, "without", l.do(request("POST", "/s/m", "x", "Content-Type", contentType)), false)
		})
	}
	up := newUpstream(t, charging)
	wantCreated(t, "another type", newLab(t, up.url(), gateway.Options{}).do(request("POST", "/", "x", "Idempotency-Key", "k", "Content-Type", "application/gr")), false)
}
