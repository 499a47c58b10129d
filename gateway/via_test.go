package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// The gateway names itself upstream, after those that a request came by (RFC 9110, 7.6.3).
func TestVia(t *testing.T) {
	up := newUpstream(t, charging)
	c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
	for _, name := range []string{"guarded", "not guarded"} {
		for came, want := range map[string]string{
			"":                                     `^1\.1 retrysafe-[a-z2-7]{26}$`,
			"Via: 1.0 fred\r\nVia: 2 b (a, c)\r\n": `^1\.0 fred, 2 b \(a, c\), 1\.1 retrysafe-[a-z2-7]{26}$`,
		} {
			head := ""
			if name == "guarded" {
				head = fmt.Sprintf("Idempotency-Key: k%d\r\n", len(came))
			}
			c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\n%s%sContent-Length: 0\r\n\r\n", head, came)
			c.answer(t, http.MethodPost)
			if got := recv(t, "the request", up.told).header("Via"); len(got) != 1 || !regexp.MustCompile(want).MatchString(got[0]) {
				t.Errorf("%s, came with %q: the upstream got Via %q, want %s", name, came, got, want)
			}
		}
	}
}

// loop returns a server whose requests go through n gateways and back to itself, and the first gateway.
func loop(t *testing.T, n int) (l *lab, addr string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	var first http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 100 {
			http.Error(w, "endless", http.StatusInternalServerError)
			return
		}
		first.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	to := front.URL
	for range n {
		l = newLab(t, to, gateway.Options{})
		to = "http://" + serve(t, l)
	}
	first = l
	return l, front.Listener.Addr().String(), requests
}

// A request that comes back ends there, and claims nothing the second time: its own gateway does not answer 409 for
// it, and does not ask itself until there are no sockets left.
func TestLoopEnds(t *testing.T) {
	for name, gateways := range map[string]int{"one gateway": 1, "two gateways": 2} {
		t.Run(name, func(t *testing.T) {
			l, addr, requests := loop(t, gateways)
			for i, request := range []string{keyed, unkeyed, "GET /x HTTP/1.1\r\nHost: api\r\n\r\n"} {
				c := dial(t, addr)
				c.send(t, "%s", request)
				wantProblem(t, request[:8], c.answer(t, http.MethodGet), 508, problem.LoopDetected, "")
				if got := requests.Load(); got != 2*int64(i+1) {
					t.Errorf("%q: %d rounds so far, want %d", request[:8], got, 2*(i+1))
				}
			}
			l.wantState(t, "k", retrysafe.UnknownAnswered) // the first round forwarded it, and a 5xx came back
			if !strings.Contains(l.log.String(), "leads back to this gateway") {
				t.Errorf("the log does not say so: %s", l.log)
			}
		})
	}
}

// Only the gateway's own name makes a loop: other gateways may stand before and behind it.
func TestGatewaysInARowAreNoLoop(t *testing.T) {
	up := newUpstream(t, charging)
	behind := newLab(t, up.url(), gateway.Options{})
	before := newLab(t, "http://"+serve(t, behind), gateway.Options{})
	wantCreated(t, "first", before.do(post("k", "body", "Via", "1.1 retrysafe-aaaaaaaaaaaaaaaaaaaaaaaaaa, 1.1, ,")), false)
	up.wantRequests(t, 1)
}
