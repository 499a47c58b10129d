package idemhttp_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A seen is a request as the handler got it.
type seen struct {
	sum           [32]byte
	length        int
	contentLength int64
	coding        []string
}

// reading returns a lab that tells how each request reached the handler.
func reading(t *testing.T, o idemhttp.Options) (*lab, <-chan seen) {
	got := make(chan seen, 8)
	return newLab(t, setup{guard: o}, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the handler reads its body: %v", err)
		}
		got <- seen{sha256.Sum256(b), len(b), r.ContentLength, r.TransferEncoding}
		charged(w, r)
	}), got
}

// BE-2: the handler gets the exact bytes, and the length as the caller declared it.
func TestHandlerGetsTheExactBody(t *testing.T) {
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	l, requests := reading(t, idemhttp.Options{})
	addr := serve(t, l)
	for i, size := range []int{0, 1, 511, 512, 513, 4096, 1 << 16, len(noise)} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, chunked %v", size, chunked), func(t *testing.T) {
				body := noise[:size]
				key := fmt.Sprintf("k-%d-%v", i, chunked)
				c := dial(t, addr)
				if chunked {
					c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: "+key+"\r\nTransfer-Encoding: chunked\r\n\r\n")
					for part := range slices.Chunk(body, 100_000) {
						c.send(t, fmt.Sprintf("%x\r\n%s\r\n", len(part), part))
					}
					c.send(t, "0\r\n\r\n")
				} else {
					c.post(t, "/", key, string(body))
				}
				wantCharged(t, "first", c.answer(t), false)
				got := recv(t, "the handler", requests)
				if got.length != size || got.sum != sha256.Sum256(body) {
					t.Errorf("the handler got %d other bytes, want %d", got.length, size)
				}
				wantLength := int64(size)
				if chunked {
					wantLength = -1
				}
				if got.contentLength != wantLength || chunked != slices.Contains(got.coding, "chunked") {
					t.Errorf("the handler got ContentLength %d, TransferEncoding %v", got.contentLength, got.coding)
				}
			})
		}
	}
}

// A body that is sent in chunks is the same request as one that is sent at once.
func TestFramingIsNoPartOfTheFingerprint(t *testing.T) {
	l, _ := reading(t, idemhttp.Options{})
	c := dial(t, serve(t, l))
	c.post(t, "/", "k", "body")
	wantCharged(t, "at once", c.answer(t), false)
	c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n")
	wantCharged(t, "in chunks", c.answer(t), true)
}

// BE-2: a caller who waits for 100 Continue gets it when its key is good, and is told at once when it is not.
func TestExpectContinue(t *testing.T) {
	l, requests := reading(t, idemhttp.Options{})
	addr := serve(t, l)
	head := "POST / HTTP/1.1\r\nHost: api\r\nExpect: 100-continue\r\nContent-Length: 4\r\nIdempotency-Key: "

	c := dial(t, addr)
	c.send(t, head+"k\r\n\r\n")
	if line := c.line(t); line != "HTTP/1.1 100 Continue" {
		t.Fatalf("got %q, want 100 Continue", line)
	}
	c.line(t)
	c.send(t, "body")
	wantCharged(t, "a good key", c.answer(t), false)
	if got := recv(t, "the handler", requests); got.length != 4 {
		t.Errorf("the handler got %d bytes", got.length)
	}

	c = dial(t, addr)
	c.send(t, head+"a,b\r\n\r\n")
	wantProblem(t, "a bad key", c.answer(t), 400, problem.KeyInvalid) // ReadResponse would return a 100 as an answer

	c = dial(t, addr)
	c.send(t, strings.Replace(head, "Content-Length: 4", "Content-Length: 999999999", 1)+"k2\r\n\r\n")
	wantProblem(t, "a body over the limit", c.answer(t), 413, problem.BodyTooLarge)
	l.wantRuns(t, 1)
}

// BE-4: a request that broke off on its way never holds a key.
func TestTruncatedUploadClaimsNothing(t *testing.T) {
	for _, tt := range []struct{ name, head string }{
		{"Content-Length", "Content-Length: 100\r\n\r\n" + strings.Repeat("x", 40)},
		{"Content-Length, nothing came", "Content-Length: 100\r\n\r\n"},
		{"chunked, no last chunk", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
		{"chunked, within a chunk", "Transfer-Encoding: chunked\r\n\r\n30\r\nabc"},
		{"chunked, malformed", "Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := reading(t, idemhttp.Options{})
			addr := serve(t, l)
			c := dial(t, addr)
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n"+tt.head)
			c.CloseWrite()
			wantProblem(t, "cut off", c.answer(t), 400, problem.BodyUnreadable)
			if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
				t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
			}
			c = dial(t, addr)
			c.post(t, "/", "k", "whole")
			wantCharged(t, "whole", c.answer(t), false)
		})
	}
}

// BE-1: the limit counts real bytes, whatever the caller declares.
func TestBodyLimit(t *testing.T) {
	l, _ := reading(t, idemhttp.Options{MaxBody: 1 << 20})
	addr := serve(t, l)
	for _, tt := range []struct {
		name    string
		size    int
		chunked bool
		fits    bool
	}{
		{"the limit", 1 << 20, false, true}, {"one more", 1<<20 + 1, false, false},
		{"the limit in chunks", 1 << 20, true, true}, {"one more in chunks", 1<<20 + 1, true, false}, {"twice in chunks", 2 << 20, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body io.Reader = bytes.NewReader(make([]byte, tt.size))
			if tt.chunked {
				body = io.MultiReader(body) // of a type whose length the client does not know
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, body)
			if err != nil {
				t.Fatal(err)
			}
			before := l.runs.Load()
			r.Header["idempotency-key"] = []string{strings.ReplaceAll(tt.name, " ", "-")}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			got := reply{status: res.StatusCode, header: res.Header, body: string(text)}
			if tt.fits {
				wantCharged(t, "request", got, false)
				return
			}
			wantProblem(t, "request", got, 413, problem.BodyTooLarge)
			l.wantRuns(t, before)
			if r := l.stands(t, strings.ReplaceAll(tt.name, " ", "-")); r.State != retrysafe.Absent {
				t.Errorf("%v stands under the refused key", r.State)
			}
		})
	}
}

// A layer outside may have replaced the body, and left the length of what it replaced: what counts is what can be read.
func TestBodyReplacedOutside(t *testing.T) {
	for name, body := range map[string]string{"longer": "a body that was decoded", "shorter": "short", "much longer": strings.Repeat("decoded", 20_000)} {
		t.Run(name, func(t *testing.T) {
			l, requests := reading(t, idemhttp.Options{})
			replaced := func(body string) *http.Request {
				r := request(http.MethodPost, "/", "ten bytes.", "Idempotency-Key", "k")
				r.Body = io.NopCloser(strings.NewReader(body))
				return r
			}
			wantCharged(t, "first", l.do(replaced(body)), false)
			if got := recv(t, "the handler", requests); got.length != len(body) || got.sum != sha256.Sum256([]byte(body)) {
				t.Errorf("the handler got %d bytes, want %d", got.length, len(body))
			}
			wantProblem(t, "another end", l.do(replaced(body+"!")), 422, problem.KeyReused)
			wantCharged(t, "again", l.do(replaced(body)), true)
		})
	}
	l, _ := reading(t, idemhttp.Options{MaxBody: 20})
	r := request(http.MethodPost, "/", "ten bytes.", "Idempotency-Key", "k")
	r.Body = io.NopCloser(strings.NewReader(strings.Repeat("decoded", 3)))
	wantProblem(t, "over the limit", l.do(r), 413, problem.BodyTooLarge)
}

// The greatest limit is a limit, no body is lost to it.
func TestBodyLimitMayBeTheGreatest(t *testing.T) {
	l, requests := reading(t, idemhttp.Options{MaxBody: math.MaxInt64, MaxResponse: math.MaxInt64})
	for _, lengthKnown := range []bool{true, false} {
		r := request(http.MethodPost, "/", "body", "Idempotency-Key", fmt.Sprint("k", lengthKnown))
		if !lengthKnown {
			r.ContentLength = -1
		}
		wantCharged(t, "request", l.do(r), false)
		if got := recv(t, "the handler", requests); got.length != 4 {
			t.Errorf("the handler got %d bytes, want the body", got.length)
		}
	}
}

// A caller who declares much and sends nothing costs no memory for what never came.
func TestDeclaredLengthReservesNoMemory(t *testing.T) {
	l, _ := reading(t, idemhttp.Options{})
	r := request(http.MethodPost, "/", "x", "Idempotency-Key", "k")
	r.ContentLength, r.Body = 10<<20, io.NopCloser(brokenOff{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantProblem(t, "request", l.do(r), 400, problem.BodyUnreadable)
	runtime.ReadMemStats(&after)
	if size := after.TotalAlloc - before.TotalAlloc; size > 2<<20 {
		t.Errorf("a request that declares 10 MiB and sends nothing took %d KiB of memory", size>>10)
	}
}

// What the handler reads is no body that a client of net/http would rewind to send it twice.
func TestHandlersBodyCannotBeRewound(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequest(r.Method, "http://upstream/", r.Body)
		if err != nil || out.GetBody != nil || r.GetBody != nil || out.Body == http.NoBody {
			t.Errorf("the body passed on can be rewound, or is known to be empty: %v", err)
		}
		io.Copy(io.Discard, r.Body)
		if err := r.Body.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		charged(w, r)
	})
	wantCharged(t, "with a body", l.do(post("k")), false)
	wantCharged(t, "without", l.do(request(http.MethodPost, "/", "", "Idempotency-Key", "k2")), false)
}
