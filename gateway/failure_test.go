package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// The upstream fails. What counts is whether a byte of the request left.

// wantUnreachable expects to be told that nothing was sent, and the key to be free.
func (l *lab) wantUnreachable(t *testing.T) {
	t.Helper()
	got := l.do(post("key-secret", "body-secret"))
	wantProblem(t, "first", got, 502, problem.UpstreamUnreachable, "")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", got.header.Get("Retry-After"))
	}
	l.wantState(t, "key-secret", retrysafe.Absent)
	l.wantSilentLog(t)
}

func TestDialIsRefused(t *testing.T) {
	up := newUpstream(t, charging)
	addr := up.Addr().String()
	up.Close()
	l := newLab(t, "http://"+addr, gateway.Options{})
	l.wantUnreachable(t)
	l.wantUnreachable(t)
	up = upstreamAt(t, addr, charging)
	wantCreated(t, "when it is up", l.do(post("key-secret", "body-secret")), false)
	wantCreated(t, "again", l.do(post("key-secret", "body-secret")), true)
	up.wantRequests(t, 1)
}

func TestNameIsNotFound(t *testing.T) {
	newLab(t, "http://no-such-host.invalid", gateway.Options{DialTimeout: time.Second}).wantUnreachable(t)
}

func TestDialTakesTooLong(t *testing.T) {
	for name, o := range map[string]gateway.Options{"UpstreamTimeout": {UpstreamTimeout: 20 * time.Millisecond}, "the caller's patience is no limit": {UpstreamTimeout: 30 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "http://upstream", o)
			l.DialBy(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			l.wantUnreachable(t)
		})
	}
}

// tlsUpstream counts what runs behind TLS.
func tlsUpstream(t *testing.T) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(201)
		io.WriteString(w, `{"id":"1"}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLSFails(t *testing.T) {
	t.Run("the certificate is not trusted", func(t *testing.T) {
		s := tlsUpstream(t)
		l := newLab(t, s.URL, gateway.Options{})
		l.wantUnreachable(t)
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		l.Trust(roots)
		wantCreated(t, "when it is trusted", l.do(post("key-secret", "body-secret")), false)
	})
	t.Run("the upstream speaks no TLS", func(t *testing.T) {
		up := newUpstream(t, func(p *peer) { p.answer(created); io.Copy(io.Discard, p.r) })
		newLab(t, strings.Replace(up.url(), "http", "https", 1), gateway.Options{}).wantUnreachable(t)
	})
	t.Run("the upstream hangs up at the handshake", func(t *testing.T) {
		up := newUpstream(t, func(p *peer) { p.r.ReadByte(); p.reset() })
		newLab(t, strings.Replace(up.url(), "http", "https", 1), gateway.Options{}).wantUnreachable(t)
	})
	t.Run("the handshake takes too long", func(t *testing.T) {
		up := newUpstream(t, func(p *peer) { io.Copy(io.Discard, p.r) })
		newLab(t, strings.Replace(up.url(), "http", "https", 1), gateway.Options{DialTimeout: 20 * time.Millisecond}).wantUnreachable(t)
	})
}

// Behind TLS the same bytes are counted: those of the handshake are none of the request.
func TestBehindTLS(t *testing.T) {
	s := tlsUpstream(t)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	l := newLab(t, s.URL, gateway.Options{})
	l.Trust(roots)
	wantCreated(t, "first", l.do(post("k", "body")), false)
	wantCreated(t, "again", l.do(post("k", "body")), true)

	acted := newUpstream(t, func(p *peer) {
		c := tls.Server(p.TCPConn, &tls.Config{Certificates: s.TLS.Certificates})
		io.ReadFull(c, make([]byte, 100))
		c.Close() // acts, and says nothing
	})
	l = newLab(t, strings.Replace(acted.url(), "http", "https", 1), gateway.Options{})
	l.Trust(roots)
	wantProblem(t, "after the request left", l.do(post("k", "body")), 502, problem.OutcomeUnknown, "unknown")
	l.wantState(t, "k", retrysafe.Unknown)
}

// asked reads a request whole before what follows.
func asked(then func(p *peer)) func(p *peer) {
	return func(p *peer) {
		if _, ok := p.request(); ok {
			then(p)
		}
	}
}

// says answers with text, and hangs up.
func says(text string) func(p *peer) { return asked(func(p *peer) { p.answer(text) }) }

// answering answers every request with text, and hangs up where the answer ends so.
func answering(text string) func(p *peer) {
	ends := strings.Contains(text, "Connection: close") || strings.HasPrefix(text, "HTTP/1.0")
	return func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			p.answer(text)
			if ends {
				return
			}
		}
	}
}

// holds answers with text, and then nothing until the gateway hangs up.
func holds(text string) func(p *peer) {
	return asked(func(p *peer) { p.answer(text); io.Copy(io.Discard, p.r) })
}

// The request left and no whole answer came: nobody knows, the key is held, and it is never sent again.
func TestUpstreamMayHaveActed(t *testing.T) {
	const head = "HTTP/1.1 201 Created\r\nX-Answer: answer-secret\r\n"
	large := strings.Repeat("answer-secret ", 1<<16)
	tests := []struct {
		name   string
		script func(p *peer)
		status int
	}{
		{"closed without an answer", says(""), 502},
		{"reset without an answer", asked((*peer).reset), 502},
		{"reset after the first byte of the request", func(p *peer) { p.r.ReadByte(); p.reset() }, 502},
		{"reset after one byte of the answer", asked(func(p *peer) { p.answer("H"); p.reset() }), 502},
		{"closed after one byte of the answer", says("H"), 502},
		{"closed within the status line", says("HTTP/1.1 201 Crea"), 502},
		{"closed within the header", says(head), 502},
		{"no HTTP", says("answer-secret\r\n\r\n"), 502},
		{"no status", says("HTTP/1.1 answer-secret\r\n\r\n"), 502},
		{"a malformed header", says("HTTP/1.1 200 OK\r\nanswer-secret\r\n\r\n"), 502},
		{"a malformed length", says("HTTP/1.1 200 OK\r\nContent-Length: answer-secret\r\n\r\n"), 502},
		{"a header over the limit", says("HTTP/1.1 200 OK\r\nX-Large: " + strings.Repeat("answer-secret", 1<<17) + "\r\nContent-Length: 2\r\n\r\nok"), 502},
		{"only informational answers", says("HTTP/1.1 103 Early Hints\r\nX-A: answer-secret\r\n\r\n"), 502},
		{"a switch of protocols nobody asked for", says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), 502},
		{"shorter than its length", says(head + "Content-Length: 100\r\n\r\nanswer-secret"), 502},
		{"nothing of its length", says(head + "Content-Length: 100\r\n\r\n"), 502},
		{"reset mid-answer", asked(func(p *peer) { p.answer(head + "Content-Length: 100\r\n\r\nanswer-secret"); p.reset() }), 502},
		{"chunked without a last chunk", says(head + "Transfer-Encoding: chunked\r\n\r\nd\r\nanswer-secret\r\n"), 502},
		{"chunked, cut within a chunk", says(head + "Transfer-Encoding: chunked\r\n\r\nff\r\nanswer-secret"), 502},
		{"chunked, malformed", says(head + "Transfer-Encoding: chunked\r\n\r\nanswer-secret\r\n"), 502},
		{"cut at almost the limit", says(head + "Content-Length: 1000000\r\n\r\n" + large[:900_000]), 502},
		{"no answer in time", holds(""), 504},
		{"half a status line in time", holds("HTTP/1.1 2"), 504},
		{"no whole header in time", holds(head), 504},
		{"no body in time", holds(head + "Content-Length: 100\r\n\r\n"), 504},
		{"half a body in time", holds(head + "Content-Length: 100\r\n\r\nanswer-secret"), 504},
		{"half the chunks in time", holds(head + "Transfer-Encoding: chunked\r\n\r\nd\r\nanswer-secret\r\n"), 504},
	}
	for _, tt := range tests {
		for _, size := range []string{"small", "large"} {
			t.Run(tt.name+", "+size+" request", func(t *testing.T) {
				body := "body-secret"
				if size == "large" {
					body = strings.Repeat(body, 1<<16)
				}
				connections := make(chan struct{}, 9)
				up := newUpstream(t, func(p *peer) { connections <- struct{}{}; tt.script(p) })
				timeout := time.Minute
				if tt.status == 504 {
					timeout = 200 * time.Millisecond
				}
				l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: timeout})
				got := l.do(post("key-secret", body))
				wantProblem(t, "first", got, tt.status, problem.OutcomeUnknown, "unknown")
				if got.header.Get("Retry-After") != "" || got.header.Get("X-Answer") != "" {
					t.Errorf("first: headers are %v", got.header)
				}
				for range 2 {
					got = l.do(post("key-secret", body))
					wantProblem(t, "again", got, 409, problem.OutcomeUnknown, "unknown")
				}
				l.wantState(t, "key-secret", retrysafe.Unknown)
				if n := len(connections); n != 1 {
					t.Errorf("the upstream got %d connections, want 1", n)
				}
				l.wantSilentLog(t)
			})
		}
	}
}

// A whole answer is an answer, whatever it says; the release list and an invitation to come again free the key.
func TestWholeAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		status       int
		stands       retrysafe.State
		said         string // with the replay
	}{
		{"201", created, 201, retrysafe.Completed, ""},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", 204, retrysafe.Completed, ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, retrysafe.Completed, ""},
		{"until the connection ends", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", 200, retrysafe.Completed, ""},
		{"after informational ones", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nSet-Cookie: early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, retrysafe.Completed, ""},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc", 200, retrysafe.Completed, ""},
		{"402", "HTTP/1.1 402 Payment Required\r\nContent-Length: 0\r\n\r\n", 402, retrysafe.Completed, ""},
		{"409 of its own", "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno", 409, retrysafe.Completed, ""},
		{"422 of its own", "HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\nno", 422, retrysafe.Completed, ""},
		{"500", "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", 500, retrysafe.UnknownAnswered, "unknown"},
		{"503", "HTTP/1.1 503 Oh\r\nContent-Length: 2\r\n\r\nno", 503, retrysafe.UnknownAnswered, "unknown"},
		{"408", "HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n", 408, retrysafe.UnknownAnswered, "unknown"},
		{"OU-1 503 with Retry-After", "HTTP/1.1 503 Oh\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 503, retrysafe.Absent, ""},
		{"OU-1 429", "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", 429, retrysafe.Absent, ""},
		{"OU-1 401", "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 401, retrysafe.Absent, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, answering(tt.answer))
			l := newLab(t, up.url(), gateway.Options{})
			first := l.do(post("k", "body"))
			if first.status != tt.status || first.header.Get("Set-Cookie") != "" || first.header.Get("Idempotency-Status") != "" || first.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("first: got %d %v", first.status, first.header)
			}
			l.wantState(t, "k", tt.stands)
			again := l.do(post("k", "body"))
			if again.status != tt.status || again.body != first.body || again.header.Get("Idempotency-Status") != tt.said {
				t.Errorf("again: got %d %q %v", again.status, again.body, again.header)
			}
			want := 1
			if tt.stands == retrysafe.Absent {
				want = 2
			}
			up.wantRequests(t, want)
		})
	}
}

// An upstream that answers before it has read the whole request has answered.
func TestEarlyAnswer(t *testing.T) {
	up := newUpstream(t, func(p *peer) {
		p.head()
		p.answer("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		io.Copy(io.Discard, p.r)
	})
	l := newLab(t, up.url(), gateway.Options{})
	if got := l.do(post("k", strings.Repeat("x", 1<<20))); got.status != 413 {
		t.Errorf("got %d %q, want the upstream's 413", got.status, got.body)
	}
	l.wantState(t, "k", retrysafe.Absent)
}

// CR-8, GW-8: a caller who hangs up changes nothing upstream; a retry gets the whole answer.
func TestCallerHangsUp(t *testing.T) {
	goOn := make(chan struct{})
	up := newUpstream(t, asked(func(p *peer) { <-goOn; p.answer(created) }))
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Wait: patience}})
	gone, served := make(chan context.Context, 2), make(chan struct{}, 2)
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { served <- struct{}{} }()
		gone <- r.Context()
		l.ServeHTTP(w, r)
	}))
	c := dial(t, addr)
	c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody")
	recv(t, "the request upstream", up.told)
	c.SetLinger(0)
	c.Close()
	recv(t, "net/http notices", recv(t, "the request", gone).Done())
	close(goOn)
	recv(t, "the first is served", served)
	c = dial(t, addr)
	c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody")
	wantCreated(t, "again", c.answer(t, "POST"), true)
	up.wantRequests(t, 1)
}
