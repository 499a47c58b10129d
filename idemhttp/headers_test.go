package idemhttp_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// exchangeHeaders belong to one exchange, one connection or one caller.
var exchangeHeaders = []string{"Set-Cookie", "Set-Cookie2", "WWW-Authenticate", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Authentication-Info", "Authorization", "Date", "Age", "Via", "Keep-Alive", "TE", "HTTP2-Settings", "Server-Timing", "Retry-After",
	"RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining", "X-Request-Id", "Traceparent", "Tracestate", "Access-Control-Allow-Origin", "Alt-Svc",
	"Clear-Site-Data", "Content-Security-Policy", "Content-Security-Policy-Report-Only", "Idempotent-Replayed", "Idempotency-Status"}

// HR-2, TN-7: what belongs to the first exchange goes out with it, and is neither replayed nor kept.
func TestExchangeHeadersAreNotKept(t *testing.T) {
	for _, name := range append([]string{"X-Csrf-Token", "X-Trace"}, exchangeHeaders...) {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(name, "one-time-secret")
				charged(w, r)
			})
			first, again := l.do(post("k")), l.do(post("k"))
			if got := first.header.Get(name); got != "one-time-secret" {
				t.Errorf("first: %s is %q, want the handler's own", name, got)
			}
			if lines := again.header.Values(name); name != "Idempotent-Replayed" && len(lines) != 0 {
				t.Errorf("replay: %s is %q, want none", name, lines)
			}
			wantCharged(t, "replay", again, true)
			if strings.Contains(l.store.dump(t), "one-time-secret") {
				t.Errorf("the store keeps %s", name)
			}
		})
	}
}

// They cannot be asked for either, in whatever letters.
func TestExchangeHeadersCannotBeAskedFor(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"connection", "Transfer-Encoding", "content-length", "trailer", "upgrade"}, exchangeHeaders...) {
		for _, name := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if _, err := idemhttp.New(e, idemhttp.SharedScope, &idemhttp.Options{ReplayHeaders: []string{"X-Fine", name}}); err == nil {
				t.Errorf("New keeps %s", name)
			}
		}
	}
}

// HR-1, RC-11: headers that say what the answer is are kept, and those that are asked for.
func TestHeadersThatAreKept(t *testing.T) {
	names := append([]string{"X-Trace", "X-Charge-Id"}, idemhttp.DefaultReplayHeaders...)
	l := newLab(t, setup{guard: idemhttp.Options{ReplayHeaders: []string{"x-trace", "X-CHARGE-ID"}}}, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header().Add(name, "one")
			w.Header().Add(name, "two")
		}
	})
	l.do(post("k"))
	again := l.do(post("k"))
	wantMarker(t, "replay", again, true)
	for _, name := range names {
		if lines := again.header[name]; len(lines) != 2 || lines[0] != "one" || lines[1] != "two" {
			t.Errorf("replay: %s is %q, want both lines in their order", name, lines)
		}
	}
}

// Headers that the answer's own Connection names belong to that connection (RFC 9110, 7.6.1).
func TestHeadersNamedByConnectionAreNotKept(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"hop-secret"`)
		w.Header().Set("Content-Language", "hop-secret")
		w.Header()["Connection"] = []string{"x-other,  ETAG ", "content-language"}
		charged(w, r)
	})
	l.do(post("k"))
	again := l.do(post("k"))
	wantCharged(t, "replay", again, true)
	if again.header.Get("Etag") != "" || again.header.Get("Content-Language") != "" || strings.Contains(l.store.dump(t), "hop-secret") {
		t.Errorf("headers of one connection are kept: %v", again.header)
	}
}

// An answer that the net could not carry goes to the first caller as net/http sends it, and counts as done: RC-13.
func TestAnswerThatCannotBeKept(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", "a\r\nSet-Cookie: smuggled")
		w.WriteHeader(201)
		io.WriteString(w, "done")
	})
	addr := serve(t, l)
	first, again := ask(t, addr), ask(t, addr)
	if first.StatusCode != 201 || string(first.body) != "done" || first.Header.Get("Set-Cookie") != "" {
		t.Errorf("first: got %d %q %v", first.StatusCode, first.body, first.Header)
	}
	if again.StatusCode != 201 || again.Header.Get("Idempotency-Status") != "answer-not-kept" || again.Header.Get("Set-Cookie") != "" {
		t.Errorf("again: got %d %v", again.StatusCode, again.Header)
	}
	l.wantRuns(t, 1)
}

// What stands outside of the guard works on every answer anew, replays too.
func TestLayersOutsideWorkOnReplays(t *testing.T) {
	l := newLab(t, setup{}, charged)
	cors := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Set-Cookie", "session="+r.Header.Get("Origin"))
		l.ServeHTTP(w, r)
	})
	for _, origin := range []string{"https://a", "https://b"} {
		got := answered(cors, post("k", "Origin", origin))
		wantCharged(t, origin, got, origin == "https://b")
		for name, want := range map[string]string{"Access-Control-Allow-Origin": origin, "Vary": "Origin", "Set-Cookie": "session=" + origin} {
			if lines := got.header[name]; len(lines) != 1 || lines[0] != want {
				t.Errorf("%s: %s is %q, want %q", origin, name, lines, want)
			}
		}
	}
}

// HR-8: with compression outside, each caller can read its answer.
func TestCompressionOutside(t *testing.T) {
	l := newLab(t, setup{}, charged)
	zipped := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			l.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		l.ServeHTTP(zipWriter{w, z}, r)
	})
	first := answered(zipped, post("k", "Accept-Encoding", "gzip"))
	if first.header.Get("Content-Encoding") != "gzip" || strings.Contains(first.body, "answer") {
		t.Fatalf("first is not compressed: %v", first)
	}
	again := answered(zipped, post("k", "Accept-Encoding", "identity"))
	wantCharged(t, "to a caller without gzip", again, true)
	if coding := again.header.Get("Content-Encoding"); coding != "" {
		t.Errorf("Content-Encoding of the plain replay is %q", coding)
	}
	third := answered(zipped, post("k", "Accept-Encoding", "gzip"))
	if third.header.Get("Content-Encoding") != "gzip" || third.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("third: %v", third.header)
	}
}

type zipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w zipWriter) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}
func (w zipWriter) Write(p []byte) (int, error) { return w.z.Write(p) }

// RC-14: what counts is the handler's answer, not what became of it outside.
func TestAnswerReplacedOutside(t *testing.T) {
	l := newLab(t, setup{}, charged)
	answered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered(l, r)
		w.WriteHeader(502)
	}), post("k"))
	wantCharged(t, "again", l.do(post("k")), true)
	l.wantRuns(t, 1)
}

// RC-16, RC-19: a replay is the historical answer; the handler's further deeds are not done again.
func TestReplayIsHistory(t *testing.T) {
	state, mails := "pending", 0
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		mails++
		w.WriteHeader(202)
		io.WriteString(w, state)
	})
	l.do(post("k"))
	state = "cancelled"
	if got := l.do(post("k")); got.status != 202 || got.body != "pending" || mails != 1 {
		t.Errorf("replay is %d %q after %d mails, want 202 pending after 1", got.status, got.body, mails)
	}
}

// TN-4, trap 5: what stands outside decides on every request, replays too.
func TestAuthorisationRunsOnReplays(t *testing.T) {
	l := newLab(t, setup{}, charged)
	revoked := false
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revoked {
			w.WriteHeader(403)
			return
		}
		l.ServeHTTP(w, r)
	})
	wantCharged(t, "first", answered(api, post("k")), false)
	revoked = true
	if got := answered(api, post("k")); got.status != 403 || got.body != "" {
		t.Errorf("a caller without rights gets %d %q", got.status, got.body)
	}
}
