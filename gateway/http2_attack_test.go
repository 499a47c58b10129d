package gateway_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/retrysafe/retrysafe/gateway"
)

// S8: callers who speak HTTP/2 frame by frame, as no client would.

// A framer is an end of a connection of HTTP/2.
type framer struct {
	*http2.Framer
	conn net.Conn
	text bytes.Buffer
	code *hpack.Encoder
}

func newFramer(conn net.Conn) *framer {
	conn.SetDeadline(time.Now().Add(patience))
	f := &framer{Framer: http2.NewFramer(conn, conn), conn: conn}
	f.code = hpack.NewEncoder(&f.text)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return f
}

// attack connects to the gateway and sends the preface.
func attack(t *testing.T, addr string) *framer {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f := newFramer(c)
	io.WriteString(c, http2.ClientPreface)
	f.WriteSettings()
	return f
}

// block encodes a header, given as names and values in turn.
func (f *framer) block(fields ...string) []byte {
	f.text.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.code.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(f.text.Bytes())
}

// open opens a stream with a header of a POST and the further fields.
func (f *framer) open(stream uint32, key string, fields ...string) error {
	fields = append([]string{":method", "POST", ":scheme", "https", ":authority", "api", ":path", "/charges", "idempotency-key", key}, fields...)
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block(fields...), EndStream: true, EndHeaders: true})
}

// until reads frames until one satisfies enough, or the connection ends.
func (f *framer) until(enough func(http2.Frame) bool) error {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if enough(frame) {
			return nil
		}
	}
}

// wantServed expects the gateway to serve a new caller.
func wantServed(t *testing.T, c client2, addr, key string) {
	t.Helper()
	wantCreated(t, "a caller after the attack", c.do(t, newPost(t, addr, key, "body")), false)
}

// Rapid reset (CVE-2023-39325): streams that are reset start no more operations than a connection may have under way,
// though each that is reset makes room for the next.
func TestRapidReset(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, func(p *peer) {
		for r, ok := p.request(); ok; r, ok = p.request() {
			if !strings.HasPrefix(r.header("idempotency-key")[0], "after") {
				<-release
			}
			p.answer(created)
		}
	})
	l, addr, c := lab2(t, up.url(), gateway.Options{})

	f := attack(t, addr)
	go f.until(func(http2.Frame) bool { return false }) // what the gateway sends must not hold it up
	for i := range uint32(100) {
		f.open(2*i+1, fmt.Sprint("k", i))
	}
	for range 100 {
		recv(t, "a request", up.told)
	}
	for i := range uint32(200) { // the hundred under way are reset, and a hundred more opened
		if i < 100 {
			f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		} else {
			f.open(2*i+1, fmt.Sprint("k", i))
		}
	}
	wantServed(t, c, addr, "after")
	if n := len(up.requests()); n > 101 {
		t.Errorf("%d requests reached the upstream, want 100 and that of the other caller", n)
	}

	f = attack(t, addr)
	go f.until(func(http2.Frame) bool { return false })
	for i := range uint32(2000) {
		if f.open(2*i+1, fmt.Sprint("reset", i)) != nil || f.WriteRSTStream(2*i+1, http2.ErrCodeCancel) != nil {
			break // it may close the connection
		}
	}
	wantServed(t, c, addr, "after all")
	if n := len(up.requests()); n > 202 {
		t.Errorf("%d requests reached the upstream, want 100 of each connection", n)
	}
	close(release)
	l.wantDrained(t)
}

// A header that does not end (CVE-2023-45288), or is longer than it may be.
func TestFloodOfHeaders(t *testing.T) {
	up := newUpstream(t, charging)
	_, addr, c := lab2(t, up.url(), gateway.Options{})

	f := attack(t, addr)
	sent, endless := 0, bytes.Repeat(f.block("x", strings.Repeat("y", 100)), 100)
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(":method", "POST", ":scheme", "https", ":authority", "api", ":path", "/", "idempotency-key", "k")})
	for ; err == nil && sent < 64<<20; sent += len(endless) {
		err = f.WriteContinuation(1, false, endless)
	}
	if sent >= 64<<20 {
		t.Errorf("after 64 MiB of a header the connection stands: %v", err)
	}

	f = attack(t, addr)
	if err := f.open(1, "k", "x-large", strings.Repeat("x", 12<<10)); err != nil {
		t.Fatal(err)
	}
	status := func(frame http2.Frame) bool {
		h, ok := frame.(*http2.MetaHeadersFrame)
		return ok && h.PseudoValue("status") == "201"
	}
	if err := f.until(status); err != nil {
		t.Errorf("a header of 12 KiB: %v, want it served", err)
	}
	large := f.block(":method", "POST", ":scheme", "https", ":authority", "api", ":path", "/", "idempotency-key", "large", "x-large", strings.Repeat("x", 80<<10))
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: large[:16<<10], EndStream: true})
	for rest := large[16<<10:]; len(rest) > 0; rest = rest[min(len(rest), 16<<10):] {
		f.WriteContinuation(3, len(rest) <= 16<<10, rest[:min(len(rest), 16<<10)])
	}
	served := false
	f.until(func(frame http2.Frame) bool {
		h, ok := frame.(*http2.MetaHeadersFrame)
		served = served || ok && h.PseudoValue("status") == "201"
		return ok
	})
	if served {
		t.Error("a header of 80 KiB is served")
	}
	wantServed(t, c, addr, "after")
	up.wantRequests(t, 2)
}

// CONNECT with a protocol (RFC 8441) is not offered, and not taken.
func TestExtendedConnect(t *testing.T) {
	up := newUpstream(t, charging)
	_, addr, c := lab2(t, up.url(), gateway.Options{})
	f := attack(t, addr)
	var streams uint32
	err := f.until(func(frame http2.Frame) bool {
		s, ok := frame.(*http2.SettingsFrame)
		if ok && !s.IsAck() {
			if on, given := s.Value(http2.SettingEnableConnectProtocol); given && on != 0 {
				t.Error("it is offered")
			}
			streams, _ = s.Value(http2.SettingMaxConcurrentStreams)
		}
		return ok
	})
	if err != nil || streams != 100 {
		t.Errorf("got %v, %d streams at once, want 100", err, streams)
	}
	connect := f.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "api", ":path", "/")
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: connect, EndHeaders: true})
	err = f.until(func(frame http2.Frame) bool {
		_, reset := frame.(*http2.RSTStreamFrame)
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && strings.HasPrefix(h.PseudoValue("status"), "2") {
			t.Error("it is taken")
		}
		return reset
	})
	if err != nil {
		t.Errorf("got %v, want the stream reset", err)
	}
	wantServed(t, c, addr, "after")
	up.wantRequests(t, 1)
}
