package idemhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Handlers that end without an answer: nobody knows what they did, and the key is held (CR-4, CR-5, CR-7).

func TestHandlersThatDoNotReturn(t *testing.T) {
	partial := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(201)
		io.WriteString(w, "partial-secret")
	}
	const whole, cut = false, true
	tests := []struct {
		name  string
		h     http.HandlerFunc
		first bool // whole: the problem; cut: the connection breaks
	}{
		{"panic before anything", func(http.ResponseWriter, *http.Request) { panic("boom-secret") }, whole},
		{"panic with an error", func(http.ResponseWriter, *http.Request) { panic(fmt.Errorf("boom-secret")) }, whole},
		{"panic of nil", func(http.ResponseWriter, *http.Request) { panic(error(nil)) }, whole},
		{"panic of the runtime", func(w http.ResponseWriter, _ *http.Request) { var none []int; _ = none[len(w.Header())] }, whole},
		{"panic after an answer that was not sent", func(w http.ResponseWriter, _ *http.Request) { partial(w); panic("boom-secret") }, whole},
		{"panic for an invalid status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }, whole},
		{"panic for a switch of protocols", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, whole},
		{"panic after saying that nothing happened", func(_ http.ResponseWriter, r *http.Request) {
			idemhttp.DidNothing(r.Context())
			panic("boom-secret")
		}, whole},
		{"http.ErrAbortHandler", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cut},
		{"http.ErrAbortHandler after an answer that was not sent", func(w http.ResponseWriter, _ *http.Request) { partial(w); panic(http.ErrAbortHandler) }, cut},
		{"runtime.Goexit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, cut},
		{"runtime.Goexit after an answer that was not sent", func(w http.ResponseWriter, _ *http.Request) { partial(w); runtime.Goexit() }, cut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, tt.h)
			addr := serve(t, l)
			c := dial(t, addr)
			c.post(t, "/", "k", "")
			if tt.first == cut {
				if got, err := io.ReadAll(c.r); len(got) != 0 {
					t.Errorf("first: got %q, %v, want the connection cut", got, err)
				}
			} else {
				got := c.answer(t)
				wantProblem(t, "first", got, 500, problem.OutcomeUnknown)
				wantStatus(t, "first", got, 500, "unknown")
			}
			c = dial(t, addr)
			c.post(t, "/", "k", "")
			got := c.answer(t)
			wantProblem(t, "again", got, 409, problem.OutcomeUnknown)
			wantStatus(t, "again", got, 409, "unknown")
			l.wantRuns(t, 1)
			if r := l.stands(t, "k"); r.State != retrysafe.Unknown || r.Answer != nil || r.Reason == "" {
				t.Errorf("the key stands as %v with answer %q, reason %q: want it held, with a reason", r.State, r.Answer, r.Reason)
			}
			if strings.Contains(l.log.String(), "secret") {
				t.Errorf("the log tells: %s", l.log)
			}
		})
	}
}

// After the first event the connection can only be cut. The operation is known as done: it was told to a caller.
func TestPanicWhileStreaming(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":                func() { panic("boom") },
		"http.ErrAbortHandler": func() { panic(http.ErrAbortHandler) },
		"runtime.Goexit":       runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "event")
				w.(http.Flusher).Flush()
				end()
			})
			addr := serve(t, l)
			c := dial(t, addr)
			c.post(t, "/charges", "k", "body")
			if got := c.answer(t); got.body != "event" || !got.cut {
				t.Errorf("first: got %q, cut %v: want the event, and the connection cut", got.body, got.cut)
			}
			wantNotKept(t, ask(t, addr), 200)
			l.wantRuns(t, 1)
		})
	}
}

// What a handler meant to send before it panicked is no part of what the caller is told; what stands outside is.
func TestPanicTakesTheHandlersHeadersWithIt(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Location", "Set-Cookie", "Retry-After", "Link", "Content-Range", "Trailer", "X-Charge-Id"} {
			w.Header().Set(name, "7")
		}
		panic("boom")
	})
	outside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		l.ServeHTTP(w, r)
	})
	got := answered(outside, post("k"))
	wantProblem(t, "first", got, 500, problem.OutcomeUnknown)
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Location", "Set-Cookie", "Retry-After", "Content-Range", "Trailer", "X-Charge-Id"} {
		if v := got.header.Get(name); v == "7" {
			t.Errorf("%s of the answer that never was is sent", name)
		}
	}
	if got.header.Get("X-Request-Id") != "r-1" {
		t.Error("a header from outside is lost")
	}
}

// An operator can find the line at fault.
func TestPanicIsLoggedWithItsStack(t *testing.T) {
	l := newLab(t, setup{}, func(http.ResponseWriter, *http.Request) { atFault() })
	l.do(post("key-secret"))
	log := l.log.String()
	for _, want := range []string{"handler panicked", "atFault", idOf("key-secret").String()[:12]} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
}

func atFault() { panic("boom-secret") }

// A stored answer that is no answer, under an entry that is whole, tells nothing of itself.
func TestDamagedAnswerTellsNothing(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) })
	l.do(post("key-secret"))
	whole := "\x01\xc9\x01\x03\x04Vary\x06secret\x08Location\x07/secret\x04Etag\x03\"s\""
	for _, damaged := range []string{"", "\x00", whole[:len(whole)-2], strings.Replace(whole, "Etag", "E\r\ng", 1), strings.Replace(whole, `"s"`, "s\r\n", 1)} {
		done := retrysafe.Resolution{Happened: true, Answer: []byte(damaged), By: "operator", Why: "test", Force: true}
		if _, err := l.executor.Resolve(t.Context(), idOf("key-secret"), done); err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		got := l.do(post("key-secret"))
		wantProblem(t, fmt.Sprintf("answer %q", damaged), got, 503, problem.EntryUnreadable)
		for _, name := range []string{"Vary", "Location", "Etag", "Idempotency-Status"} {
			if lines := got.header[name]; lines != nil {
				t.Errorf("answer %q: the problem has %s %q", damaged, name, lines)
			}
		}
	}
	l.wantRuns(t, 1)
}

// What an operator decided without an answer is told as done.
func TestDecidedWithoutAnAnswer(t *testing.T) {
	l := newLab(t, setup{}, func(http.ResponseWriter, *http.Request) { panic("boom") })
	l.do(post("k"))
	if _, err := l.executor.Resolve(t.Context(), idOf("k"), retrysafe.Resolution{Happened: true, By: "operator", Why: "found it"}); err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	got := l.do(post("k"))
	wantStatus(t, "again", got, 204, "answer-not-kept")
	wantMarker(t, "again", got, true)
	l.wantRuns(t, 1)
}
