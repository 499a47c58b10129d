package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What is not guarded passes as through any reverse proxy, and touches no store.

// untouched is a store that nobody may call.
type untouched struct {
	retrysafe.Store
	t *testing.T
}

func (s untouched) Create(_ context.Context, _ retrysafe.Entry) (retrysafe.Reply, error) {
	s.t.Error("the store was called")
	return retrysafe.Reply{}, retrysafe.ErrNotWritten
}

func TestUnguardedRequestsPass(t *testing.T) {
	for _, tt := range []struct {
		name, request, line, body string
	}{
		{"GET", "GET /charges?a=1 HTTP/1.1\r\nHost: api\r\n\r\n", "GET /charges?a=1 HTTP/1.1", ""},
		{"GET with a key", "GET /charges HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n\r\n", "GET /charges HTTP/1.1", ""},
		{"HEAD", "HEAD /charges HTTP/1.1\r\nHost: api\r\n\r\n", "HEAD /charges HTTP/1.1", ""},
		{"OPTIONS", "OPTIONS /charges HTTP/1.1\r\nHost: api\r\nAccess-Control-Request-Headers: idempotency-key\r\n\r\n", "OPTIONS /charges HTTP/1.1", ""},
		{"POST without a key", "POST /charges HTTP/1.1\r\nHost: api\r\nContent-Length: 4\r\n\r\nbody", "POST /charges HTTP/1.1", "body"},
		{"POST without a key or a body", "POST /charges HTTP/1.1\r\nHost: api\r\nContent-Length: 0\r\n\r\n", "POST /charges HTTP/1.1", ""},
		{"PUT with a key", "PUT /charges/1 HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody", "PUT /charges/1 HTTP/1.1", "body"},
		{"DELETE", "DELETE /charges/1 HTTP/1.1\r\nHost: api\r\n\r\n", "DELETE /charges/1 HTTP/1.1", ""},
		{"a method of its own", "BREW /pot HTTP/1.1\r\nHost: api\r\n\r\n", "BREW /pot HTTP/1.1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, answering("HTTP/1.1 201 Created\r\nLocation: /charges/1\r\nSet-Cookie: a=1\r\nX-Custom: v\r\nContent-Length: 0\r\n\r\n"))
			c := dial(t, serve(t, labOver(t, untouched{memstore.New(nil), t}, up.url(), idemhttp.SharedScope, gateway.Options{})))
			for range 2 {
				c.send(t, "%s", tt.request)
				method, _, _ := strings.Cut(tt.request, " ")
				got := c.answer(t, method)
				if got.status != 201 || got.header.Get("Set-Cookie") != "a=1" || got.header.Get("X-Custom") != "v" || got.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("got %d %v", got.status, got.header)
				}
				if r := recv(t, "the request", up.told); r.line != tt.line || string(r.body) != tt.body {
					t.Errorf("upstream: %q with body %q, want %q with %q", r.line, r.body, tt.line, tt.body)
				}
			}
			up.wantRequests(t, 2)
		})
	}
}

// A bare upload is not held back: the upstream sees its beginning before its end was sent.
func TestUnguardedUploadStreams(t *testing.T) {
	began := make(chan string, 1)
	up := newUpstream(t, func(p *peer) {
		p.head()
		first := make([]byte, 5)
		io.ReadFull(p.r, first)
		began <- string(first)
		p.r.ReadString('!')
		p.answer(created)
	})
	c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
	c.send(t, "POST /upload HTTP/1.1\r\nHost: api\r\nContent-Length: 10\r\n\r\nbegin")
	if got := recv(t, "the beginning", began); got != "begin" {
		t.Errorf("the upstream got %q", got)
	}
	c.send(t, "end!!")
	wantCreated(t, "upload", c.answer(t, "POST"), false)
}

// ST-2: an upgrade passes where no key is given, and both sides talk.
func TestUpgrade(t *testing.T) {
	up := newUpstream(t, func(p *peer) {
		r, ok := p.request()
		if !ok {
			return
		}
		if got := r.header("Upgrade"); len(got) != 1 || got[0] != "echo" || len(r.header("Connection")) != 1 {
			t.Errorf("upstream: Upgrade %q, Connection %q", got, r.header("Connection"))
		}
		p.answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		for {
			line, err := p.r.ReadString('\n')
			if err != nil {
				return
			}
			p.answer("echo " + line)
		}
	})
	addr := serve(t, newLab(t, up.url(), gateway.Options{}))
	c := dial(t, addr)
	const head = " /socket HTTP/1.1\r\nHost: api\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n"
	c.send(t, "GET"+head+"\r\n")
	res, err := http.ReadResponse(c.r, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "echo" {
		t.Fatalf("got %v, %v: want a switch of protocols", res, err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		c.send(t, "%s", line)
		if got, err := c.r.ReadString('\n'); err != nil || got != "echo "+line {
			t.Errorf("got %q, %v, want an echo of %q", got, err, line)
		}
	}
	c.Close()
	guarded := dial(t, addr)
	guarded.send(t, "POST"+head+"Idempotency-Key: k\r\n\r\n")
	wantProblem(t, "under a key", guarded.answer(t, "POST"), 400, problem.KeyInvalid, "")
	up.wantRequests(t, 1)
}

// An upstream that fails on what is not guarded is a plain bad gateway: there is no key to speak of.
func TestUnguardedFailure(t *testing.T) {
	for name, script := range map[string]func(p *peer){"closed": says(""), "no HTTP": says("answer-secret\r\n\r\n"), "reset": asked((*peer).reset)} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, script)
			l := newLab(t, up.url(), gateway.Options{})
			got := l.do(request("POST", "/charges?query-secret", "body-secret"))
			var p struct {
				Type, Title, Code string
				Status            int
			}
			if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.status != 502 || p.Status != 502 || p.Type != "about:blank" || p.Code != "" {
				t.Errorf("got %d %q, %v", got.status, got.body, err)
			}
			if got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Idempotency-Status") != "" {
				t.Errorf("headers are %v", got.header)
			}
			up.wantRequests(t, 1)
			l.wantSilentLog(t)
		})
	}
}

// A key may be required by the gateway.
func TestRequiredKey(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Required: true}})
	wantProblem(t, "without", l.do(request("POST", "/", "x")), 400, problem.KeyMissing, "")
	up.wantRequests(t, 0)
	wantCreated(t, "with", l.do(post("k", "x")), false)
}

// Expect is the caller's business with the gateway: the body of a guarded request is here before it is forwarded.
func TestExpectContinue(t *testing.T) {
	up := newUpstream(t, charging)
	c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nExpect: 100-continue\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\n")
	if line, err := c.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	c.r.ReadString('\n')
	c.send(t, "body")
	wantCreated(t, "request", c.answer(t, "POST"), false)
	if got := recv(t, "the request", up.told); string(got.body) != "body" || len(got.header("Expect")) != 0 {
		t.Errorf("upstream: body %q, Expect %q", got.body, got.header("Expect"))
	}
}
