package gateway_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// An upstream that speaks HTTP/2 frame by frame: the gateway sends each guarded request to it once.

// An upstream2 counts the requests that begin, over all connections.
type upstream2 struct {
	net.Listener
	begun atomic.Int32
}

// newUpstream2 has each request, once it is there whole, answered by answer.
func newUpstream2(t *testing.T, root *authority, proto string, answer func(f *framer, stream uint32)) *upstream2 {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{root.server(t)}, NextProtos: []string{proto}})
	if err != nil {
		t.Fatal(err)
	}
	up := &upstream2{Listener: ln}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			serving.Go(func() {
				defer c.Close()
				up.serve(newFramer(c), answer)
			})
		}
	})
	t.Cleanup(func() { ln.Close() })
	return up
}

func (up *upstream2) serve(f *framer, answer func(f *framer, stream uint32)) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := f.conn.Read(preface); err != nil {
		return
	}
	f.WriteSettings()
	f.WriteWindowUpdate(0, 1<<20)
	f.until(func(frame http2.Frame) bool {
		ended := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			up.begun.Add(1)
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if ended {
			answer(f, frame.Header().StreamID)
		}
		return false
	})
}

func created2(f *framer, stream uint32) {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, BlockFragment: f.block(":status", "201", "location", "/charges/1")})
	f.WriteData(stream, true, []byte(`{"id":"1"}`))
}

func lab2to(t *testing.T, root *authority, up net.Listener) *lab {
	t.Helper()
	return newLab(t, "https://"+up.Addr().String(), gateway.Options{KeepAlive: true, UpstreamHTTP2: true, UpstreamTimeout: 5 * time.Second, UpstreamTLS: &tls.Config{RootCAs: root.pool()}})
}

// Whatever an upstream says in frames of what it did with a request, it gets it once.
func TestOneSendOverHTTP2(t *testing.T) {
	root := newAuthority(t)
	reset := func(code http2.ErrCode) func(*framer, uint32) {
		return func(f *framer, stream uint32) { f.WriteRSTStream(stream, code) }
	}
	for _, tt := range []struct {
		name   string
		answer func(f *framer, stream uint32)
	}{
		{"RST_STREAM, REFUSED_STREAM", reset(http2.ErrCodeRefusedStream)},
		{"RST_STREAM, PROTOCOL_ERROR", reset(http2.ErrCodeProtocol)},
		{"RST_STREAM, INTERNAL_ERROR", reset(http2.ErrCodeInternal)},
		{"GOAWAY that counts it as not processed", func(f *framer, stream uint32) { f.WriteGoAway(0, http2.ErrCodeNo, nil) }},
		{"GOAWAY that counts it, and the end", func(f *framer, stream uint32) {
			f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			f.conn.Close()
		}},
		{"the end", func(f *framer, stream uint32) { f.conn.Close() }},
		{"the end inside the answer", func(f *framer, stream uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, BlockFragment: f.block(":status", "201")})
			f.conn.Close()
		}},
	} {
		for _, body := range []string{"", "body", strings.Repeat("x", 60<<10)} {
			t.Run(fmt.Sprintf("%s, body of %d", tt.name, len(body)), func(t *testing.T) {
				up := newUpstream2(t, root, "h2", tt.answer)
				l := lab2to(t, root, up)
				first := l.do(post("k", body))
				if n := up.begun.Load(); n != 1 {
					t.Fatalf("%d requests began, want one", n)
				}
				wantProblem(t, "first", first, 502, problem.OutcomeUnknown, "unknown")
				l.wantState(t, "k", retrysafe.Unknown)
				wantProblem(t, "again", l.do(post("k", body)), 409, problem.OutcomeUnknown, "unknown")
				l.do(request(http.MethodPost, "/charges", body)) // not guarded
				if n := up.begun.Load(); n != 2 {
					t.Errorf("%d requests began, want the guarded one and the other once each", n)
				}
				l.wantSilentLog(t)
			})
		}
	}
}

// Requests share a connection; each is answered and kept.
func TestAnswersOverHTTP2(t *testing.T) {
	root := newAuthority(t)
	up := newUpstream2(t, root, "h2", created2)
	l := lab2to(t, root, up)
	for _, key := range []string{"a", "b"} {
		for _, body := range []string{"", "body"} {
			wantCreated(t, "first", l.do(post(key+body, body)), false)
			wantCreated(t, "again", l.do(post(key+body, body)), true)
		}
	}
	if got := l.do(request(http.MethodGet, "/charges", "")); got.status != 201 {
		t.Errorf("GET: got %d", got.status)
	}
	if n := up.begun.Load(); n != 5 {
		t.Errorf("%d requests began, want 5", n)
	}
}

// Before there is a connection nothing is sent, and the key is free again.
func TestNothingSentOverHTTP2(t *testing.T) {
	root := newAuthority(t)
	up := newUpstream2(t, newAuthority(t), "h2", created2) // of a root that is not trusted
	l := lab2to(t, root, up)
	wantProblem(t, "handshake", l.do(post("k", "body")), 502, problem.UpstreamUnreachable, "")
	up.Close()
	wantProblem(t, "dial", l.do(post("k", "body")), 502, problem.UpstreamUnreachable, "")
	l.wantState(t, "k", retrysafe.Absent)
}

// A connection that failed before the request was written to it has sent nothing, but over HTTP/2 nobody can tell.
func TestConnectionOfHTTP2DoesNotCount(t *testing.T) {
	root := newAuthority(t)
	for proto, lost := range map[string]bool{"h2": true, "http/1.1": false} {
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{root.server(t)}, NextProtos: []string{proto}})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			if c, err := ln.Accept(); err == nil {
				c.(*tls.Conn).Handshake()
				c.Close()
			}
		}()
		if nothing := gateway.NothingSentTo(t, ln.Addr().String(), &tls.Config{RootCAs: root.pool(), NextProtos: []string{proto}}); nothing == lost {
			t.Errorf("%s: nothing sent: %v", proto, nothing)
		}
	}
}

// An upstream that does not offer HTTP/2 is spoken to in HTTP/1.1.
func TestUpstreamWithoutHTTP2(t *testing.T) {
	root := newAuthority(t)
	up := serveTLS1(t, root)
	l := lab2to(t, root, up)
	for _, body := range []string{"", "body"} {
		wantCreated(t, "first", l.do(post("k"+body, body)), false)
		wantCreated(t, "again", l.do(post("k"+body, body)), true)
	}
}

func serveTLS1(t *testing.T, root *authority) net.Listener {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{root.server(t)}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"id":"1"}`))
	})}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return ln
}
