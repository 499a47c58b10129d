package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Callers who are slow, silent, or gone: what they hold ends, and nobody who makes progress is cut.

// more is more than the buffers of both systems take of a caller who does not read.
const more = 32 << 20

const unkeyed = "POST /charges HTTP/1.1\r\nHost: api\r\nContent-Length: 4\r\n\r\nbody"

// ending has the lab served, and tells when a request has ended.
func (l *lab) ending(t *testing.T) (addr string, ended <-chan struct{}) {
	t.Helper()
	ends := make(chan struct{}, 100)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ends <- struct{}{} }()
		l.ServeHTTP(w, r)
	})), ends
}

// wantDrained expects that no operation is under way any more.
func (l *lab) wantDrained(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.executor.Drain(ctx); err != nil {
		t.Errorf("Drain: %v", err)
	}
}

// A caller who never reads its answer holds nothing for long; its key stands as recorded.
func TestCallerWhoNeverReads(t *testing.T) {
	large := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(more) + "\r\n\r\n" + strings.Repeat("x", more)
	for _, tt := range []struct {
		name, request string
		limit         int64
		notKept       bool
	}{
		{"an answer that is kept", keyed, more, false},
		{"an answer that streams", keyed, 1024, true},
		{"not guarded", unkeyed, 1024, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, answering(large))
			l := newLab(t, up.url(), gateway.Options{WriteTimeout: 100 * time.Millisecond, Guard: idemhttp.Options{MaxResponse: tt.limit}})
			addr, ended := l.ending(t)
			dial(t, addr).send(t, "%s", tt.request)
			recv(t, "the end of the request", ended)
			l.wantDrained(t)
			if tt.request == unkeyed {
				return
			}
			if r := l.stands(t, "k"); r.State != retrysafe.Completed || r.NotKept != tt.notKept {
				t.Errorf("the key stands as %v, not kept: %v", r.State, r.NotKept)
			}
		})
	}
}

// A caller who reads slowly gets all of its answer, though it takes many times what one step may.
func TestCallerWhoReadsSlowly(t *testing.T) {
	const size = 16 << 20
	for name, request := range map[string]string{"guarded": keyed, "not guarded": unkeyed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, answering("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n"+strings.Repeat("x", size)))
			l := newLab(t, up.url(), gateway.Options{WriteTimeout: 300 * time.Millisecond})
			c := dial(t, serve(t, l))
			c.send(t, "%s", request)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			for read := int64(0); read < size; {
				n, err := io.CopyN(io.Discard, res.Body, 1<<20)
				if read += n; err != nil {
					t.Fatalf("the answer ends after %d bytes: %v", read, err)
				}
				<-time.After(50 * time.Millisecond)
			}
		})
	}
}

// Deadlines stand only while something is read or written: a stream that rests longer goes on, and ends whole.
func TestStreamMayRest(t *testing.T) {
	for name, major := range map[string]int{"HTTP 1.1": 1, "HTTP 2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, asked(func(p *peer) {
				p.answer(events + event)
				<-time.After(400 * time.Millisecond)
				p.answer(event)
				<-time.After(400 * time.Millisecond)
				p.answer("0\r\n\r\n")
			}))
			const step = 100 * time.Millisecond
			l := newLab(t, up.url(), gateway.Options{WriteTimeout: step, Guard: idemhttp.Options{BodyTimeout: step}})
			s := httptest.NewUnstartedServer(l)
			s.EnableHTTP2 = major == 2
			s.StartTLS()
			defer s.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/charges", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", `"k"`)
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.ProtoMajor != major || string(body) != strings.Repeat("data: tick\n\n", 2) {
				t.Errorf("got %s %q, %v: want both events and the end", res.Proto, body, err)
			}
		})
	}
}

// A body that stops coming is refused, and never holds a key.
func TestBodyThatStopsComing(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{BodyTimeout: 100 * time.Millisecond}})
	addr := serve(t, l)

	c := dial(t, addr)
	c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\nbody-secret")
	wantProblem(t, "guarded", c.answer(t, http.MethodPost), 400, problem.BodyUnreadable, "")
	l.wantState(t, "k", retrysafe.Absent)

	c = dial(t, addr)
	c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n")
	if got := c.answer(t, http.MethodPost); got.status != 408 || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("not guarded: got %d %q, want 408", got.status, got.body)
	}
	up.wantRequests(t, 0)
	l.wantSilentLog(t)
}

// A body that comes slowly is waited for: what is bounded is the silence.
func TestBodyThatComesSlowly(t *testing.T) {
	for name, head := range map[string]string{"guarded": "Idempotency-Key: k\r\n", "not guarded": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{BodyTimeout: 300 * time.Millisecond}})
			c := dial(t, serve(t, l))
			c.send(t, "POST /charges HTTP/1.1\r\nHost: api\r\n%sContent-Length: 8\r\n\r\n", head)
			for range 8 {
				<-time.After(75 * time.Millisecond)
				c.send(t, "b")
			}
			wantCreated(t, name, c.answer(t, http.MethodPost), false)
		})
	}
}

// The deadlines of each step do not extend what the server allows for the whole request.
func TestServersOwnTimeoutsStand(t *testing.T) {
	up := newUpstream(t, asked(func(p *peer) {
		for p.answer(events); ; p.answer(event) {
			if _, err := p.Write([]byte(event)); err != nil {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}))
	l := newLab(t, up.url(), gateway.Options{})
	for _, tt := range []struct{ name, request string }{
		{"ReadTimeout, guarded", "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: r\r\nContent-Length: 9\r\n\r\nb"},
		{"ReadTimeout", "POST / HTTP/1.1\r\nHost: api\r\nContent-Length: 9\r\n\r\nb"},
		{"WriteTimeout, guarded", keyed},
		{"WriteTimeout", unkeyed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(l)
			s.Config.ReadTimeout, s.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
			s.Start()
			t.Cleanup(s.Close)
			c := dial(t, s.Listener.Addr().String())
			began := time.Now()
			c.send(t, "%s", tt.request)
			io.Copy(io.Discard, c.r)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the connection stood for %v", took)
			}
		})
	}
}

// A stream ends upstream when its caller is gone: it is recorded, and nobody reads it.
func TestStreamEndsWithItsCaller(t *testing.T) {
	for name, goOn := range map[string]func(p *peer){
		"an endless one": func(p *peer) {
			for {
				if _, err := p.Write([]byte(event)); err != nil {
					return
				}
			}
		},
		"a silent one": func(p *peer) { p.r.ReadByte() },
	} {
		t.Run(name, func(t *testing.T) {
			cut := make(chan struct{})
			up := newUpstream(t, asked(func(p *peer) {
				p.answer(events + event)
				goOn(p)
				close(cut)
			}))
			l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: 2 * patience})
			addr, ended := l.ending(t)
			c := dial(t, addr)
			c.send(t, keyed)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			c.Close()
			recv(t, "the end upstream", cut)
			recv(t, "the end of the request", ended)
			if r := l.stands(t, "k"); r.State != retrysafe.Completed || !r.NotKept {
				t.Errorf("the key stands as %v, not kept: %v", r.State, r.NotKept)
			}
			if log := l.log.String(); strings.Contains(log, "level=ERROR") {
				t.Errorf("a caller who hangs up is no failure of the upstream: %s", log)
			}
		})
	}
}

// Before an answer is recorded, a caller who hangs up changes nothing, however large or late the answer is.
func TestAnswerIsReadForACallerWhoIsGone(t *testing.T) {
	gone := make(chan struct{})
	up := newUpstream(t, asked(func(p *peer) {
		p.answer("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nb")
		<-gone
		p.answer("ody")
	}))
	l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: patience})
	ended := make(chan struct{})
	c := dial(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		defer close(ended)
		l.ServeHTTP(w, r)
	})))
	c.send(t, keyed)
	recv(t, "the request", up.told)
	c.Close()
	recv(t, "the end of the request", ended)
	if got := l.do(request(http.MethodPost, "/charges", "body", "Idempotency-Key", "k")); got.status != 201 || got.body != "body" {
		t.Errorf("again: got %d %q, want the answer", got.status, got.body)
	}
	up.wantRequests(t, 1)
}

// Of informational answers only some are passed on, so that an upstream cannot flood a caller.
func TestFloodOfInformationalAnswers(t *testing.T) {
	up := newUpstream(t, answering(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 1000)+created))
	l := newLab(t, up.url(), gateway.Options{})
	addr := serve(t, l)
	for name, request := range map[string]string{"guarded": keyed, "not guarded": unkeyed} {
		c := dial(t, addr)
		c.send(t, "%s", request)
		informed := 0
		for {
			if line, err := c.r.Peek(12); err != nil || string(line) != "HTTP/1.1 103" {
				break
			}
			if _, err := http.ReadResponse(c.r, nil); err != nil {
				t.Fatal(err)
			}
			informed++
		}
		if informed != 16 {
			t.Errorf("%s: got %d informational answers, want 16", name, informed)
		}
		wantCreated(t, name, c.answer(t, http.MethodPost), false)
	}
	for name, request := range map[string]string{"guarded": "Idempotency-Key: old\r\n", "not guarded": ""} {
		c := dial(t, addr)
		c.send(t, "POST /charges HTTP/1.0\r\n%sContent-Length: 4\r\n\r\nbody", request)
		wantCreated(t, name+", HTTP/1.0", c.answer(t, http.MethodPost), false) // and no 103 before it (RFC 9110, 15.2)
	}
}

// A caller who does not read what it is informed of holds neither the upstream's time-out nor a drain.
func TestInformedCallerWhoNeverReads(t *testing.T) {
	large := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 1000<<10) + "\r\n\r\n"
	for name, request := range map[string]string{"guarded": keyed, "not guarded": unkeyed} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, asked(func(p *peer) {
				for {
					if _, err := p.Write([]byte(large)); err != nil {
						return
					}
				}
			}))
			l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: 200 * time.Millisecond, WriteTimeout: 100 * time.Millisecond})
			addr, ended := l.ending(t)
			dial(t, addr).send(t, "%s", request)
			recv(t, "the end of the request", ended)
			l.wantDrained(t)
			if request == keyed {
				l.wantState(t, "k", retrysafe.Unknown)
			}
		})
	}
}
