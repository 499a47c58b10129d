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

// A name must not lead to where clouds keep credentials; an address that the operator wrote was meant.
func TestLinkLocalIsRefused(t *testing.T) {
	for _, tt := range []struct {
		host, addr string
		refused    bool
	}{
		{"api.example", "10.0.0.1:80", false},
		{"api.example", "127.0.0.1:80", false},
		{"api.example", "169.254.169.254:80", true},
		{"api.example", "[::ffff:169.254.169.254]:80", true},
		{"api.example", "[fe80::1%eth0]:80", true},
		{"169.254.169.254", "169.254.169.254:80", false},
		{"169.254.169.254", "169.254.169.253:80", true},
		{"fe80::1%eth0", "[fe80::1%eth0]:80", false},
		{"api.example", "nonsense", true},
	} {
		if err := gateway.RefuseLinkLocal(tt.host)("tcp", tt.addr, nil); (err != nil) != tt.refused {
			t.Errorf("upstream %s at %s: %v, want it refused: %v", tt.host, tt.addr, err, tt.refused)
		}
	}
}

// No redirect is followed: the caller gets it, and a retry gets it again.
func TestRedirectIsNotFollowed(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"))
	l := newLab(t, up.url(), gateway.Options{})
	for range 2 {
		if got := l.do(post("k", "body")); got.status != 307 || got.header.Get("Location") != "http://169.254.169.254/latest" {
			t.Errorf("got %d %v, want the redirect itself", got.status, got.header)
		}
	}
	up.wantRequests(t, 1)
}

// ST-5: what a gRPC call came to stands in trailers, which are not kept. With a key it is refused; without one it passes.
func TestGRPCWithKey(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	for _, mediaType := range []string{"application/grpc", "application/grpc+proto", "application/grpc-web; charset=x", "Application/GRPC-Web-Text"} {
		got := l.do(request("POST", "/pay.Service/Charge", "body", "Idempotency-Key", "k", "Content-Type", mediaType))
		wantProblem(t, mediaType, got, 400, problem.KeyInvalid, "")
	}
	up.wantRequests(t, 0)
	l.wantState(t, "k", retrysafe.Absent)
	wantCreated(t, "another type", l.do(request("POST", "/", "body", "Idempotency-Key", "k", "Content-Type", "application/grpcx")), false)
	l.do(request("POST", "/pay.Service/Charge", "body", "Content-Type", "application/grpc"))
	up.wantRequests(t, 2)
}

// ST-4, ST-5: an upstream that dies while its answer streams: the caller is cut off, and a retry is told that it was
// done and not kept; it does not run again.
func TestUpstreamDiesWhileItStreams(t *testing.T) {
	up := newUpstream(t, says("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"))
	l := newLab(t, up.url(), gateway.Options{})
	if got := l.do(post("k", "body")); !got.cut {
		t.Errorf("first: got %d %q, want it cut off", got.status, got.body)
	}
	got := l.do(post("k", "body"))
	if got.status != 200 || got.body != "" || got.header.Get("Idempotency-Status") != string(problem.AnswerNotKept) {
		t.Errorf("again: got %d %q %v, want what says that it is not kept", got.status, got.body, got.header)
	}
	up.wantRequests(t, 1)
}

// What the gateway answers itself a page of another origin may read, as it may what the guard answers.
func TestGatewayAnswersAreShared(t *testing.T) {
	dead := newUpstream(t, charging)
	dead.Close()
	for name, url := range map[string]string{"unreachable": dead.url(), "unknown": newUpstream(t, says("")).url()} {
		l := newLab(t, url, gateway.Options{Guard: idemhttp.Options{CORSOrigins: []string{"https://shop.example.com"}}})
		got := l.do(post("k", "body", "Origin", "https://shop.example.com"))
		if got.status != http.StatusBadGateway || got.header.Get("Access-Control-Allow-Origin") != "https://shop.example.com" || !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "Idempotency-Status") {
			t.Errorf("%s: got %d %v, want it shared", name, got.status, got.header)
		}
	}
}
