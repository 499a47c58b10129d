package idemhttp_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Answers that are not kept: too large ones, and those that stream.

// RC-8: an answer over the limit goes whole to the first caller; later ones are told that it was done, and it
// never runs again.
func TestAnswerOverTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []int // sizes of the writes; the limit is 100
		kept  bool
	}{
		{"the limit", []int{100}, true}, {"the limit in parts", []int{60, 40}, true}, {"one more", []int{101}, false},
		{"one more in parts", []int{60, 40, 1}, false}, {"much more", []int{50, 1 << 20, 7}, false}, {"4096 at once", []int{4096}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all string
			for i, n := range tt.parts {
				all += strings.Repeat(string(rune('a'+i)), n)
			}
			l := newLab(t, setup{guard: idemhttp.Options{MaxResponse: 100}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Set("Content-Disposition", "attachment")
				w.Header().Set("Etag", `"1"`)
				w.Header().Set("Content-Location", "/charges/1")
				w.WriteHeader(201)
				rest := all
				for _, n := range tt.parts {
					w.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
			})
			addr := serve(t, l)
			first := ask(t, addr)
			if first.StatusCode != 201 || string(first.body) != all || first.Header.Get("Idempotency-Status") != "" {
				t.Errorf("first: got %d with %d bytes, want 201 with %d", first.StatusCode, len(first.body), len(all))
			}
			for range 2 {
				again := ask(t, addr)
				if tt.kept {
					wantReplayOf(t, again, first)
					continue
				}
				wantNotKept(t, again, 201)
				if again.Header.Get("Etag") != `"1"` || again.Header.Get("Content-Location") != "/charges/1" || again.Header.Get("Content-Disposition") != "" {
					t.Errorf("again: headers are %v, want those that do not describe the body", again.Header)
				}
			}
			l.wantRuns(t, 1)
		})
	}
}

// wantNotKept expects to be told that it was done, with status and without a body.
func wantNotKept(t *testing.T, got full, status int, said ...string) {
	t.Helper()
	said = append(said, "answer-not-kept")
	if got.StatusCode != status || len(got.body) != 0 || got.ContentLength != 0 {
		t.Errorf("again: got %d with body %.40q, want %d without one", got.StatusCode, got.body, status)
	}
	if lines := got.Header["Idempotency-Status"]; !slices.Equal(lines, said) {
		t.Errorf("again: Idempotency-Status is %q, want %q", lines, said)
	}
	if got.Header.Get("Idempotent-Replayed") != "true" || got.Header.Get("Content-Type") != "" {
		t.Errorf("again: headers are %v", got.Header)
	}
}

// ST-1: an event reaches the caller while the handler still runs.
func TestEventsAreLive(t *testing.T) {
	for name, flush := range map[string]func(w http.ResponseWriter) error{
		"http.Flusher":            func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"http.ResponseController": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 3 {
					io.WriteString(w, "data: tick\n\n")
					if err := flush(w); err != nil {
						t.Errorf("flush: %v", err)
					}
					<-seen
				}
			})
			addr := serve(t, l)
			c := dial(t, addr)
			c.post(t, "/charges", "k", "body")
			res, err := http.ReadResponse(c.r, nil)
			if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("got %v, %v", res, err)
			}
			events := bufio.NewReader(res.Body)
			for i := range 3 {
				if line, err := events.ReadString('\n'); err != nil || line != "data: tick\n" {
					t.Fatalf("event %d is %q, %v", i, line, err)
				}
				events.ReadString('\n')
				if i == 1 {
					wantNotKept(t, ask(t, addr), 200) // known as done while it still streams
				}
				seen <- struct{}{}
			}
			if rest, err := io.ReadAll(events); err != nil || len(rest) != 0 {
				t.Errorf("stream ends with %q, %v", rest, err)
			}
			wantNotKept(t, ask(t, addr), 200)
			l.wantRuns(t, 1)
		})
	}
}

// What a streamed answer's status means is what a whole one's means.
func TestStatusOfAStream(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		say    func(*http.Request)
		stands retrysafe.State
	}{
		{"200", 200, nil, retrysafe.Completed},
		{"404", 404, nil, retrysafe.Completed},
		{"500", 500, nil, retrysafe.UnknownAnswered},
		{"429", 429, nil, retrysafe.Absent},
		{"DidNothing", 200, func(r *http.Request) { idemhttp.DidNothing(r.Context()) }, retrysafe.Absent},
		{"MayHaveActed", 200, func(r *http.Request) { idemhttp.MayHaveActed(r.Context(), "") }, retrysafe.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				if tt.say != nil {
					tt.say(r)
				}
				w.WriteHeader(tt.status)
				w.(http.Flusher).Flush()
				io.WriteString(w, "streamed")
			})
			addr := serve(t, l)
			first := ask(t, addr)
			if first.StatusCode != tt.status || string(first.body) != "streamed" {
				t.Errorf("first: got %d %q", first.StatusCode, first.body)
			}
			if got := l.stands(t, "k").State; got != tt.stands {
				t.Errorf("%v stands, want %v", got, tt.stands)
			}
			switch again := ask(t, addr); tt.stands {
			case retrysafe.Completed:
				wantNotKept(t, again, tt.status)
			case retrysafe.UnknownAnswered:
				wantNotKept(t, again, tt.status, "unknown")
			case retrysafe.Unknown:
				wantProblem(t, "again", reply{again.StatusCode, again.Header, string(again.body), false}, 409, problem.OutcomeUnknown)
				if said := first.Header.Get("Idempotency-Status"); said != "unknown" {
					t.Errorf("first: Idempotency-Status is %q, want unknown", said)
				}
			default:
				l.wantRuns(t, 2)
			}
		})
	}
}

// The store is down when the first event is due: it is held back for RecordWait, then the stream goes on and says
// so; the outcome is recorded when the store is back.
func TestStreamWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lab
		l = newLab(t, setup{core: retrysafe.Options{RecordWait: 2 * time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
			l.store.down()
			io.WriteString(w, "event")
			w.(http.Flusher).Flush()
			io.WriteString(w, "s")
		})
		began := time.Now()
		got := l.do(post("k"))
		wantStatus(t, "first", got, 200, "unrecorded")
		if held := time.Since(began); got.body != "events" || held < 2*time.Second || held > 3*time.Second {
			t.Errorf("got %q after %v", got.body, held)
		}
		l.store.up()
		advance(time.Minute)
		got = l.do(post("k"))
		wantStatus(t, "again", got, 200, "answer-not-kept")
		wantMarker(t, "again", got, true)
		l.wantRuns(t, 1)
	})
}

// ST-2: a connection cannot be taken over under a key; the handler is told so and may answer.
func TestHijackIsRefused(t *testing.T) {
	for name, hijack := range map[string]func(w http.ResponseWriter) error{
		"http.Hijacker":           func(w http.ResponseWriter) error { _, _, err := w.(http.Hijacker).Hijack(); return err },
		"http.ResponseController": func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				if err := hijack(w); !errors.Is(err, http.ErrNotSupported) {
					t.Errorf("hijack: %v, want one that is http.ErrNotSupported", err)
				}
				charged(w, r)
			})
			addr := serve(t, l)
			if got := ask(t, addr); got.StatusCode != 201 {
				t.Errorf("got %d", got.StatusCode)
			}
			if got := ask(t, addr); got.StatusCode != 201 || got.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("again: got %d", got.StatusCode)
			}
		})
	}
}

// ST-2: an upgrade under a key is refused before anything runs; without a key it passes.
func TestUpgrade(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		defer c.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhello")
		rw.Flush()
	})
	addr := serve(t, l)
	const head = " / HTTP/1.1\r\nHost: api\r\nConnection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n"
	c := dial(t, addr)
	c.send(t, "POST"+head+"Idempotency-Key: k\r\n\r\n")
	wantProblem(t, "under a key", c.answer(t), 400, problem.KeyInvalid)
	l.wantRuns(t, 0)
	for _, request := range []string{"POST" + head + "\r\n", "GET" + head + "Idempotency-Key: k\r\n\r\n"} {
		c := dial(t, addr)
		c.send(t, request)
		if got, err := io.ReadAll(c.r); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
			t.Errorf("upgrade of %.4s: got %q, %v", request, got, err)
		}
	}
}
