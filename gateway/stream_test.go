package gateway_test

import (
	"bufio"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// Answers that are passed on while they are made: events, and those that are too large to be kept.

const events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// event is one event as a chunk.
const event = "c\r\ndata: tick\n\n\r\n"

// wantNotKept expects a retry to be told that it was done.
func wantNotKept(t *testing.T, got reply, status int) {
	t.Helper()
	if got.status != status || got.body != "" || got.header.Get("Idempotency-Status") != "answer-not-kept" || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: got %d %.40q %v, want %d and answer-not-kept", got.status, got.body, got.header, status)
	}
}

const keyed = "POST /charges HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody"

// ST-1: each event reaches the caller while the upstream is still at work.
func TestEventsAreLive(t *testing.T) {
	for _, contentType := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream"} {
		t.Run(contentType, func(t *testing.T) {
			seen := make(chan struct{})
			up := newUpstream(t, asked(func(p *peer) {
				p.answer(strings.Replace(events, "text/event-stream", contentType, 1))
				for range 3 {
					p.answer(event)
					<-seen
				}
				p.answer("0\r\n\r\n")
			}))
			l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: patience})
			c := dial(t, serve(t, l))
			c.send(t, keyed)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil {
				close(seen)
				t.Fatal(err)
			}
			body := bufio.NewReader(res.Body)
			for range 3 {
				if line, err := body.ReadString('\n'); err != nil || line != "data: tick\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				body.ReadString('\n')
				seen <- struct{}{}
			}
			if rest, err := io.ReadAll(body); err != nil || len(rest) != 0 {
				t.Errorf("the stream ends with %q, %v", rest, err)
			}
			wantNotKept(t, l.do(request(http.MethodPost, "/charges", "body", "Idempotency-Key", "k")), 200)
			up.wantRequests(t, 1)
		})
	}
}

// A stream that the upstream cuts is cut for the caller too; the operation is known as done, its answer as not kept.
func TestStreamIsCut(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<10)
	for _, tt := range []struct {
		name   string
		script func(p *peer)
		begins string
		status int
	}{
		{"events, closed", asked(func(p *peer) { p.answer(events + event) }), "data: tick\n\n", 200},
		{"events, within a chunk", asked(func(p *peer) { p.answer(events + event + "ff\r\ndata: ") }), "data: tick\n\n", 200},
		{"a large answer, closed", asked(func(p *peer) { p.answer("HTTP/1.1 201 Created\r\nContent-Length: 1000000\r\n\r\n" + large) }), large[:1025], 201},
		{"a large answer in chunks, closed", asked(func(p *peer) {
			p.answer("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n" + large + "\r\n")
		}), large[:1025], 201},
		{"events, silence", asked(func(p *peer) { p.answer(events + event); io.Copy(io.Discard, p.r) }), "data: tick\n\n", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, tt.script)
			l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: 300 * time.Millisecond, Guard: idemhttp.Options{MaxResponse: 1024}})
			c := dial(t, serve(t, l))
			c.send(t, keyed)
			got := c.answer(t, http.MethodPost)
			if got.status != tt.status || !strings.HasPrefix(got.body, tt.begins) || !got.cut {
				t.Errorf("first: got %d with %d bytes, cut %v: want %d, what there was, and the connection cut", got.status, len(got.body), got.cut, tt.status)
			}
			wantNotKept(t, l.do(request(http.MethodPost, "/charges", "body", "Idempotency-Key", "k")), tt.status)
			if r := l.stands(t, "k"); r.State != retrysafe.Completed || !r.NotKept {
				t.Errorf("the key stands as %v, kept %v", r.State, !r.NotKept)
			}
			up.wantRequests(t, 1)
		})
	}
}

// RC-8: an answer over the limit goes whole to the first caller, however it is framed.
func TestAnswerOverTheLimit(t *testing.T) {
	const limit = 1024
	for _, size := range []int{limit - 1, limit, limit + 1, 100 * limit} {
		body := strings.Repeat("x", size)
		for name, answer := range map[string]string{
			"with a length": "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n" + body,
			"in chunks":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(size), 16) + "\r\n" + body + "\r\n0\r\n\r\n",
			"until the end": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body,
		} {
			t.Run(strconv.Itoa(size)+" bytes "+name, func(t *testing.T) {
				up := newUpstream(t, answering(answer))
				l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxResponse: limit}})
				c := dial(t, serve(t, l))
				c.send(t, keyed)
				if got := c.answer(t, http.MethodPost); got.status != 200 || got.body != body || got.cut {
					t.Errorf("first: got %d with %d bytes, cut %v", got.status, len(got.body), got.cut)
				}
				c.send(t, keyed)
				got := c.answer(t, http.MethodPost)
				if size > limit {
					wantNotKept(t, got, 200)
				} else if got.body != body || got.header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("again: got %d with %d bytes", got.status, len(got.body))
				}
				up.wantRequests(t, 1)
			})
		}
	}
}

// The greatest limit is a limit, no answer is lost to it.
func TestAnswerLimitMayBeTheGreatest(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxResponse: math.MaxInt64, MaxBody: math.MaxInt64}})
	wantCreated(t, "first", l.do(post("k", "body")), false)
	wantCreated(t, "again", l.do(post("k", "body")), true)
	if got := recv(t, "the request", up.told); string(got.body) != "body" {
		t.Errorf("the upstream got %q", got.body)
	}
}

// A caller who reads slowly is no upstream that answers slowly: its stream goes on.
func TestSlowCallerKeepsItsStream(t *testing.T) {
	for name, atOnce := range map[string]bool{"at the beginning": true, "at an event": false} {
		t.Run(name, func(t *testing.T) { slowCaller(t, atOnce) })
	}
}

func slowCaller(t *testing.T, atOnce bool) {
	cut := make(chan struct{})
	up := newUpstream(t, asked(func(p *peer) {
		p.answer(events + event)
		p.r.ReadByte() // until the gateway hangs up, or the test is over
		close(cut)
	}))
	const timeout = 100 * time.Millisecond
	l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: timeout})
	w := &stuck{ResponseRecorder: httptest.NewRecorder(), atOnce: atOnce, writing: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recover() }() // the stream is cut in the end
		l.ServeHTTP(w, post("k", "body"))
	}()
	recv(t, "the answer", w.writing)
	select {
	case <-cut:
		t.Error("the upstream was cut off while the caller was reading")
	case <-time.After(5 * timeout):
	}
	up.hangUp()
	close(w.goOn)
	recv(t, "the end", done)
}

// A stuck writer blocks in its first Write: of anything, or at once.
type stuck struct {
	*httptest.ResponseRecorder
	atOnce        bool
	once          sync.Once
	writing, goOn chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.atOnce || len(p) > 0 {
		s.once.Do(func() { close(s.writing) })
		<-s.goOn
	}
	return s.ResponseRecorder.Write(p)
}

// 1xx of the upstream go to the first caller while it waits (RFC 9110, 15.2: a proxy forwards them), but for the 100
// that nobody asked for.
func TestInformationalAnswersArePassedOn(t *testing.T) {
	seen := make(chan struct{})
	up := newUpstream(t, asked(func(p *peer) {
		p.answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
		<-seen
		p.answer(created)
	}))
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { close(seen) }) })
	l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: time.Second})
	c := dial(t, serve(t, l))
	c.send(t, keyed)
	early, err := http.ReadResponse(c.r, nil)
	if err != nil || early.StatusCode != 103 || early.Header.Get("Link") != "</style.css>; rel=preload" {
		t.Fatalf("got %v, %v: want the early hints", early, err)
	}
	once.Do(func() { close(seen) })
	got := c.answer(t, http.MethodPost)
	wantCreated(t, "first", got, false)
	if got.header.Get("Link") != "" {
		t.Errorf("the final answer has the Link of the early one: %q", got.header["Link"])
	}
	c.send(t, keyed)
	wantCreated(t, "again", c.answer(t, http.MethodPost), true)
}

// While an informational answer is on its way to a slow caller, the time of the upstream runs out: the problem waits
// for it to be through.
func TestInformationalAnswerIsNotOverrun(t *testing.T) {
	up := newUpstream(t, holds("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"))
	l := newLab(t, up.url(), gateway.Options{UpstreamTimeout: 50 * time.Millisecond})
	w := &overrun{ResponseRecorder: httptest.NewRecorder(), overran: make(chan struct{})}
	l.ServeHTTP(w, post("k", "body"))
	select {
	case <-w.overran:
		t.Error("the problem was sent while the informational answer was")
	default:
	}
	if w.Code != 504 || w.Header().Get("Link") == "</a>" {
		t.Errorf("got %d %v, want the problem alone", w.Code, w.Header())
	}
}

// An overrun writer is slow to take an informational answer, and tells when another one comes meanwhile.
type overrun struct {
	*httptest.ResponseRecorder
	busy    atomic.Bool
	overran chan struct{}
}

func (o *overrun) WriteHeader(status int) {
	if status >= 200 {
		if o.busy.Load() {
			close(o.overran)
		}
		o.ResponseRecorder.WriteHeader(status)
		return
	}
	o.busy.Store(true)
	defer o.busy.Store(false)
	select {
	case <-o.overran:
	case <-time.After(500 * time.Millisecond): // ten times what the upstream is given
	}
}
