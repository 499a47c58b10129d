package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// BE-2: who waits for leave to send its body (RFC 9110, 10.1.1) gets it when the body is wanted, and never where the
// header alone is reason to refuse. Such a connection is closed: what comes next on it could be the body.
func TestExpectIsRefusedWithoutLeave(t *testing.T) {
	for _, tt := range []struct {
		name, lines string
		status      int
	}{
		{"an empty key", "Idempotency-Key:\r\n", 400},
		{"two keys", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", 400},
		{"no key", "", 400},
		{"a key, and an upgrade", "Idempotency-Key: k\r\nConnection: upgrade\r\nUpgrade: h2c\r\n", 400},
		{"early data", "Idempotency-Key: k\r\nEarly-Data: 1\r\n", 425},
		{"a length over the limit", "Idempotency-Key: k\r\nContent-Length: 101\r\n", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Required: true, MaxBody: 100}})
			c := dial(t, serve(t, l))
			lines := tt.lines
			if !strings.Contains(lines, "Content-Length") {
				lines += "Content-Length: 4\r\n"
			}
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nExpect: 100-continue\r\n%s\r\n", lines)
			got, err := http.ReadResponse(c.r, nil) // the first that comes, informational or not
			if err != nil || got.StatusCode != tt.status || !got.Close {
				t.Fatalf("got %v, %v, want %d at once, and the connection given up", got, err, tt.status)
			}
			io.Copy(io.Discard, got.Body)
			c.Write([]byte(strings.Repeat("x", 101) + "PUT / HTTP/1.1\r\nHost: api\r\n\r\n"))
			if rest, err := io.ReadAll(c.r); len(rest) != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("then comes %q, %v, want the connection closed", rest, err)
			}
			l.wantState(t, "k", retrysafe.Absent)
			up.wantRequests(t, 0)
		})
	}
}

// An expectation of the caller's never reaches the upstream: it could poison a shared connection (CVE-2024-24791).
func TestExpectStaysHere(t *testing.T) {
	for _, way := range forwardings {
		t.Run(way.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
			c.send(t, "%s / HTTP/1.1\r\nHost: api\r\nExpect: 100-continue\r\nContent-Length: 4\r\n", way.method)
			for i := 0; i < len(way.lines); i += 2 {
				c.send(t, "%s: %s\r\n", way.lines[i], way.lines[i+1])
			}
			c.send(t, "\r\n")
			if early, err := http.ReadResponse(c.r, nil); err != nil || early.StatusCode != 100 {
				t.Fatalf("got %v, %v, want 100", early, err)
			}
			c.send(t, "body")
			wantCreated(t, "request", c.answer(t, way.method), false)
			got := recv(t, "the request", up.told)
			wantLines(t, got, "Expect")
			if string(got.body) != "body" {
				t.Errorf("upstream: body %q", got.body)
			}
		})
	}
}

// Answers without content (RFC 9110, 15.3.5, 15.3.6 and 15.4.5) are the same the second time, and what follows them on
// the connection is the next answer.
func TestAnswersWithoutContent(t *testing.T) {
	for _, status := range []string{"204 No Content", "205 Reset Content\r\nContent-Length: 0", "304 Not Modified\r\nContent-Length: 10", "201 Created\r\nContent-Length: 0"} {
		t.Run(status, func(t *testing.T) {
			up := newUpstream(t, answering("HTTP/1.1 "+status+"\r\nEtag: \"1\"\r\n\r\n"))
			c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
			for i := range 3 {
				c.send(t, keyed)
				got := c.answer(t, "POST")
				if !strings.HasPrefix(status, fmt.Sprint(got.status)) || got.body != "" || got.header.Get("Etag") != `"1"` || (got.header.Get("Idempotent-Replayed") == "true") != (i > 0) {
					t.Errorf("answer %d: got %d %q %v", i+1, got.status, got.body, got.header)
				}
				if got.status == 204 && got.header["Content-Length"] != nil { // RFC 9110, 8.6
					t.Errorf("answer %d has a length", i+1)
				}
			}
			up.wantRequests(t, 1)
		})
	}
}

// HEAD is passed on, key or not, and its length belongs to no body.
func TestHeadWithAKey(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"))
	l := newLab(t, up.url(), gateway.Options{})
	c := dial(t, serve(t, l))
	for range 2 {
		c.send(t, "HEAD / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n\r\n")
		if got := c.answer(t, "HEAD"); got.status != 200 || got.header.Get("Content-Length") != "1000" || got.body != "" || got.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got %d %v", got.status, got.header)
		}
	}
	l.wantState(t, "k", retrysafe.Absent)
	up.wantRequests(t, 2)
}

// FuzzReplay (S12): whatever header line the upstream sends, the replay has the lines of the first answer, each as a line
// of its own and byte for byte, or none; and no line can become two.
func FuzzReplay(f *testing.F) {
	f.Add(uint8(1), "/charges/1", "", "body")
	f.Add(uint8(8), "<a>; rel=\"next\", <b>", "<c>", "")
	f.Add(uint8(11), "a=1; Expires=Wed, 21 Oct 2025 07:28:00 GMT", "b=2", "x")
	f.Add(uint8(3), "a\r\nX-Smuggled: 1", "\xff\xe9\t ", "x")
	f.Add(uint8(5), "a\rb\nc\x00", " ", "x")
	names := slices.Concat(idemhttp.DefaultReplayHeaders, []string{"Set-Cookie", "X-Other"})
	f.Fuzz(func(t *testing.T, which uint8, one, two, body string) {
		name := names[int(which)%len(names)]
		if name == "Content-Encoding" || len(one)+len(two)+len(body) > 4096 {
			return
		}
		text := fmt.Sprintf("HTTP/1.1 201 Created\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", name, one, name, two, len(body), body)
		g, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "upstream"}, idemhttp.SharedScope, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.DialBy(func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				if _, err := far.Read(make([]byte, 4096)); err == nil {
					io.WriteString(far, text)
				}
			}()
			return near, nil
		})
		l := &lab{Gateway: g}
		first := l.do(request("POST", "/", "", "Idempotency-Key", "k"))
		again := l.do(request("POST", "/", "", "Idempotency-Key", "k"))
		if first.status != 201 {
			return // no HTTP, which is held: or another status was injected, which cannot be
		}
		if again.status != 201 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%q: first %d %q, again %d %q %v", text, first.status, first.body, again.status, again.body, again.header)
		}
		for got, lines := range again.header {
			kept := slices.Contains(idemhttp.DefaultReplayHeaders, got)
			if kept && got != "Cache-Control" && !slices.Equal(lines, first.header[got]) {
				t.Errorf("%q: %s was %q and is replayed as %q", text, got, first.header[got], lines)
			}
			if !kept && !slices.Contains([]string{"Content-Length", "Idempotent-Replayed", "Idempotency-Status"}, got) {
				t.Errorf("%q: the replay has the header %s: %q", text, got, lines)
			}
			for _, line := range lines {
				if !httpguts.ValidHeaderFieldValue(line) {
					t.Errorf("%q: the replay has the line %s: %q", text, got, line)
				}
			}
		}
		for _, kept := range idemhttp.DefaultReplayHeaders {
			if want := first.header[kept]; len(want) > 0 && !slices.Equal(again.header[kept], want) {
				t.Errorf("%q: %s was %q and is replayed as %q", text, kept, want, again.header[kept])
			}
		}
	})
}
