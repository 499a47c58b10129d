package idemhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// everyByte is a body that no text survives in.
var everyByte = func() (b []byte) {
	for i := range 4096 {
		b = append(b, byte(i))
	}
	return b
}()

// writers are handlers, one for each way of answering.
var writers = []struct {
	name string
	h    http.HandlerFunc
}{
	{"nothing at all", func(http.ResponseWriter, *http.Request) {}},
	{"RC-5 Write without WriteHeader", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }},
	{"RC-1, HR-10 WriteHeader only", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }},
	{"Write of nothing", func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) }},
	{"RC-2 a status of its own", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(406); w.Write([]byte("no")) }},
	{"a status without a name", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299); w.Write([]byte("odd")) }},
	{"202", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); io.WriteString(w, `{"task":1}`) }},
	{"many small writes", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			fmt.Fprintf(w, "%d,", i)
		}
	}},
	{"RC-5 io.Copy", func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, strings.NewReader(strings.Repeat("copied ", 9000)))
	}},
	{"RC-5 io.Copy of a reader that cannot write itself", func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("copied ", 9000)), 50_000))
	}},
	{"RC-5 io.WriteString", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>text") }},
	{"RC-5 http.ServeContent", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader("content"))
	}},
	{"RC-5 http.Error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not like this", 400) }},
	{"RC-5 http.Redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusSeeOther) }},
	{"http.NotFound", http.NotFound},
	{"RC-5 ResponseController", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // a bare server trips over the rest of a body after EnableFullDuplex
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetWriteDeadline(time.Now().Add(time.Minute)), c.SetReadDeadline(time.Now().Add(time.Minute)), c.EnableFullDuplex()); err != nil {
			panic(err)
		}
		w.Write([]byte("in time"))
	}},
	{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }},
	{"204 with a body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); mustNotWrite(w) }},
	{"204 with a length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(204)
	}},
	{"304 with a length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(304)
	}},
	{"205", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(205) }},
	{"304", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"1"`); w.WriteHeader(304) }},
	{"304 with a body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304); mustNotWrite(w) }},
	{"RC-17 103 before the answer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.WriteHeader(201)
		w.Write([]byte("made"))
	}},
	{"RC-17 only 103", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) }},
	{"102 twice, then Write", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(102)
		w.WriteHeader(102)
		w.Write([]byte("x"))
	}},
	{"headers after WriteHeader", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/before")
		w.WriteHeader(201)
		w.Header().Set("Location", "/after")
		w.Header().Set("Etag", `"after"`)
		w.Header().Del("Content-Type")
		w.Write([]byte("x"))
	}},
	{"a header line changed in place after WriteHeader", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{"/before"}
		w.WriteHeader(201)
		w.Header()["Location"][0] = "/after"
	}},
	{"headers after Write", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("x"))
		w.Header().Set("Location", "/after")
	}},
	{"WriteHeader twice", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.WriteHeader(500)
		w.Write([]byte("x"))
	}},
	{"WriteHeader after Write", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("x")); w.WriteHeader(500) }},
	{"1xx after the answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(103) }},
	{"the right Content-Length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Write([]byte("hello"))
	}},
	{"more than its Content-Length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Write([]byte("hello"))
		if _, err := w.Write([]byte(" world")); err != http.ErrContentLength {
			panic(fmt.Sprintf("Write past the length: %v", err))
		}
	}},
	{"RC-7 binary", func(w http.ResponseWriter, _ *http.Request) { w.Write(everyByte) }},
	{"RC-10 members in their order", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		io.WriteString(w, "{\"b\":1,\n \"a\":2.0}")
	}},
	{"a sniffed type", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("%PDF-1.7 ...")) }},
	{"a type that must not be sniffed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Write([]byte("<html>raw"))
	}},
	{"a coding without a type", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte("\x1f\x8b..."))
	}},
	{"an empty type", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "")
		w.Write([]byte("<html>"))
	}},
	{"lines of one name", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Link", "</1>; rel=next")
		w.Header().Add("Link", "</2>; rel=prev")
		w.Header().Add("Vary", "Accept")
		w.Header().Add("Vary", "Origin")
		w.Write([]byte("x"))
	}},
	{"a header with a line break", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Odd", "a\r\nb"); w.Write([]byte("x")) }},
	{"HR-11 a policy of its own for caches", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "private, max-age=60") }},
	{"a connection that ends", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.Write([]byte("bye"))
	}},
}

// mustNotWrite writes where no body is allowed, and expects to be told so.
func mustNotWrite(w http.ResponseWriter) {
	if n, err := w.Write([]byte("body")); n != 0 || err != http.ErrBodyNotAllowed {
		panic(fmt.Sprintf("Write where no body is allowed: %d, %v", n, err))
	}
}

// The first caller gets what a server without the layer would give, and a retry gets the same bytes with the
// headers that are kept.
func TestAnswerIsTheHandlersOwn(t *testing.T) {
	for _, tt := range writers {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, tt.h)
			bareAddr, addr := serve(t, tt.h), serve(t, l)
			bare := ask(t, bareAddr)
			live := ask(t, addr)
			again := ask(t, addr)
			l.wantRuns(t, 1)
			wantSame(t, "first", live, bare)
			if live.Header.Get("Idempotent-Replayed") != "" {
				t.Error("the first answer bears the marker of a replay")
			}
			wantReplayOf(t, again, live)
		})
	}
}

// A full is an answer as a client reads it.
type full struct {
	*http.Response
	body []byte
}

// ask posts under the key k to a real server and reads the whole answer. It follows nothing and decodes nothing.
func ask(t *testing.T, addr string) full {
	t.Helper()
	c := dial(t, addr)
	c.post(t, "/charges", "k", "body")
	for {
		res, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("read an answer: %v", err)
		}
		if res.StatusCode < 200 {
			continue
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("read the body: %v", err)
		}
		return full{res, body}
	}
}

// wantSame expects two answers to differ in Date and in how a body of unknown length is framed, at most.
func wantSame(t *testing.T, what string, got, want full) {
	t.Helper()
	if got.StatusCode != want.StatusCode || !bytes.Equal(got.body, want.body) {
		t.Errorf("%s: got %d %.60q, want %d %.60q", what, got.StatusCode, got.body, want.StatusCode, want.body)
	}
	g, w := got.Header.Clone(), want.Header.Clone()
	if len(g["Date"]) != 1 {
		t.Errorf("%s: Date is %q", what, g["Date"])
	}
	g.Del("Date")
	w.Del("Date")
	if want.ContentLength < 0 { // net/http sends in chunks what it cannot measure
		g.Del("Content-Length")
	}
	if !maps.EqualFunc(g, w, slices.Equal) {
		t.Errorf("%s: headers\n%v\nwant\n%v", what, g, w)
	}
}

// wantReplayOf expects the bytes of first, its headers that are kept, and nothing else of it.
func wantReplayOf(t *testing.T, got, first full) {
	t.Helper()
	if got.StatusCode != first.StatusCode || !bytes.Equal(got.body, first.body) {
		t.Errorf("replay: got %d %.60q, want %d %.60q", got.StatusCode, got.body, first.StatusCode, first.body)
	}
	want := http.Header{"Idempotent-Replayed": {"true"}, "Cache-Control": {"no-store"}, "Date": got.Header["Date"]}
	for _, name := range append([]string{"Content-Length"}, idemhttp.DefaultReplayHeaders...) {
		if lines, ok := first.Header[name]; ok {
			want[name] = lines
		}
	}
	if !maps.EqualFunc(got.Header, want, slices.Equal) {
		t.Errorf("replay: headers\n%v\nwant\n%v", got.Header, want)
	}
	if len(got.Header["Date"]) != 1 || len(got.TransferEncoding) != 0 {
		t.Errorf("HR-4 replay: Date %q, Transfer-Encoding %q: want a fresh date, no coding", got.Header["Date"], got.TransferEncoding)
	}
}

// An answer shorter than its Content-Length is not whole. The first caller can tell, as without the layer, and no
// retry is given the part as if it were all.
func TestAnswerShorterThanDeclared(t *testing.T) {
	short := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("part"))
	}
	l := newLab(t, setup{}, short)
	for what, addr := range map[string]string{"bare": serve(t, http.HandlerFunc(short)), "guarded": serve(t, l)} {
		c := dial(t, addr)
		c.post(t, "/", "k", "body")
		res, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodPost})
		if err != nil {
			continue // cut before the answer: the caller can tell too
		}
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: the caller is given %q as a whole answer", what, body)
		}
	}
	if got := l.do(request(http.MethodPost, "/", "body", "Idempotency-Key", "k")); got.body == "part" {
		t.Errorf("a retry is given %d %q as a whole answer", got.status, got.body)
	}
	l.wantRuns(t, 1)
}

// 1xx go to the first caller while the handler runs, and to nobody else.
func TestInformationalAnswersAreLive(t *testing.T) {
	seen := make(chan struct{})
	l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		<-seen
		w.Header().Del("Link")
		w.Write([]byte("done"))
	})
	c := dial(t, serve(t, l))
	c.post(t, "/", "k", "")
	early, err := http.ReadResponse(c.r, nil)
	if err != nil || early.StatusCode != 103 || early.Header.Get("Link") == "" {
		t.Fatalf("got %v, %v: want the early hints while the handler runs", early, err)
	}
	close(seen)
	if got := c.answer(t); got.status != 200 || got.body != "done" || got.header.Get("Link") != "" {
		t.Errorf("final answer is %d %q with Link %q", got.status, got.body, got.header.Get("Link"))
	}
	c.post(t, "/", "k", "")
	if got := c.answer(t); got.status != 200 || got.body != "done" || got.header.Get("Link") != "" {
		t.Errorf("replay is %d %q with Link %q", got.status, got.body, got.header.Get("Link"))
	}
}
