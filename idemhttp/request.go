package idemhttp

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// parseKey returns the key that a place in the request holds, or why it holds none: a sentence for the caller, which
// never repeats what was sent.
func (m *Middleware) parseKey(lines []string) (key, why string) {
	if len(lines) > 1 { // joined, two halves could make one key, and a doubled line another (RFC 9110, 5.3)
		return "", fmt.Sprintf("%s stands there %d times: send it once.", m.o.Key.name(), len(lines))
	}
	if m.o.Key.Query != "" { // decoded already; no structured field
		key, why = printable(lines[0], "")
	} else {
		key, why = m.o.Preset.unquote(strings.Trim(lines[0], " \t"))
	}
	return key, cmp.Or(why, m.checkKey(key))
}

// checkKey says why a key that was read is none.
func (m *Middleware) checkKey(key string) (why string) {
	switch {
	case key == "":
		return m.o.Key.name() + " is empty."
	case len(key) > m.o.MaxKey:
		return fmt.Sprintf("The key has %d bytes: at most %d are allowed.", len(key), m.o.MaxKey)
	}
	return ""
}

// What a caller only declared reserves little memory: first, and trusted once that much of it has come.
const (
	first   = 4 << 10
	trusted = 64 << 10
)

// readBody reads the whole body, counting real bytes: a layer outside may have replaced the body, so that its
// declared length is only a hint. What it returns was taken from m.o.Bodies, and is the caller's to give back. What
// is returned as a code is told to the client.
func (m *Middleware) readBody(w http.ResponseWriter, r *http.Request) (b []byte, code problem.Code) {
	if r.ContentLength > m.o.MaxBody {
		return nil, problem.BodyTooLarge
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, ""
	}
	hint := r.ContentLength
	if hint < 0 {
		hint = 511
	}
	var held int64
	defer func() {
		if code != "" {
			m.o.Bodies.give(held)
		}
	}()
	hurry := m.hurry(w, r)
	b = make([]byte, 0, min(hint, first)+1) // one more, to meet the end without growing
	for {
		hurry.next()
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > m.o.MaxBody:
			return nil, problem.BodyTooLarge
		case !m.o.Bodies.take(int64(n)):
			return nil, problem.Overloaded
		}
		held += int64(n)
		switch {
		case err == io.EOF:
			return b, ""
		case err != nil:
			return nil, problem.BodyUnreadable
		case len(b) == cap(b):
			b = slices.Grow(b, growth(int64(len(b)), r.ContentLength))
		}
	}
}

// growth is by how much a body of have bytes grows: it doubles, and never goes beyond what was declared unless more
// comes.
func growth(have, declared int64) int {
	if left := declared - have; left >= 0 {
		return int(min(max(have, trusted), left+1))
	}
	return int(max(have, bytes.MinRead))
}

// Bodies bounds the request bodies that are held at once, over all requests of the Middlewares that share it. Use
// NewBodies.
type Bodies struct {
	whole int64
	left  atomic.Int64 // how many bytes may still come
}

// NewBodies returns a bound of so many bytes.
func NewBodies(bytes int64) *Bodies {
	b := &Bodies{whole: bytes}
	b.give(bytes)
	return b
}

func (b *Bodies) take(n int64) bool {
	for {
		left := b.left.Load()
		if left < n {
			return false
		}
		if b.left.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

func (b *Bodies) give(n int64) { b.left.Add(n) }

// A hurry has the next byte of a body come in time: by the layer's time-out and, as a whole, by the server's own,
// which must not be extended. The deadline is set before each read and never taken back: net/http does that once
// the body has ended, to watch for a caller who hangs up.
type hurry struct {
	control *http.ResponseController // nil: no server of net/http, or switched off
	each    time.Duration
	whole   time.Time // zero: without end
}

func (m *Middleware) hurry(w http.ResponseWriter, r *http.Request) hurry {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || m.o.BodyTimeout == retrysafe.Off {
		return hurry{}
	}
	h := hurry{control: http.NewResponseController(w), each: m.o.BodyTimeout}
	if server.ReadTimeout > 0 {
		h.whole = time.Now().Add(server.ReadTimeout)
	}
	return h
}

func (h *hurry) next() {
	if h.control == nil {
		return
	}
	at := time.Now().Add(h.each)
	if !h.whole.IsZero() && h.whole.Before(at) {
		at = h.whole
	}
	if h.control.SetReadDeadline(at) != nil {
		h.control = nil // a layer outside hides the connection
	}
}

// A body is what the handler reads. It is no type that a client of net/http knows how to rewind: a handler
// that passes the request on sends it once.
type body struct{ r bytes.Reader }

func newBody(b []byte) *body {
	var from body
	from.r.Reset(b)
	return &from
}

func (b *body) Read(p []byte) (int, error)         { return b.r.Read(p) }
func (b *body) WriteTo(w io.Writer) (int64, error) { return b.r.WriteTo(w) }
func (b *body) Close() error                       { return nil }
