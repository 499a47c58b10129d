package idemhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/internal/sfv"
)

// parseKey returns the key that the header lines carry, or why they carry none: a sentence for the caller, which
// never repeats what was sent.
func (m *Middleware) parseKey(lines []string) (key, why string) {
	if len(lines) > 1 { // joined, two halves could make one key, and a doubled line another (RFC 9110, 5.3)
		return "", fmt.Sprintf("The %s header stands there %d times: send it once.", m.o.Header, len(lines))
	}
	key, why = m.unquote(strings.Trim(lines[0], " \t"))
	switch {
	case why != "":
		return "", why
	case key == "":
		return "", fmt.Sprintf("The %s header is empty.", m.o.Header)
	case len(key) > m.o.MaxKey:
		return "", fmt.Sprintf("The key has %d bytes: at most %d are allowed.", len(key), m.o.MaxKey)
	}
	return key, ""
}

// unquote reads a Structured Field String (draft-07, 2.1; RFC 9651, 4.2.5), or a bare key, byte for byte: no
// structured parser may touch that one, or 007 would become 7.
func (m *Middleware) unquote(field string) (key, why string) {
	if strings.HasPrefix(field, `"`) {
		key, err := sfv.ParseString(field)
		if err != nil {
			return "", fmt.Sprintf("The %s header is not a valid quoted string: %v.", m.o.Header, err)
		}
		return key, ""
	}
	if m.o.Strict && field != "" {
		return "", fmt.Sprintf(`The %s header must be a quoted string, like "8e03978e-40d5".`, m.o.Header)
	}
	for i := range len(field) {
		switch c := field[i]; {
		case c == '"', c == ',', c == '\\':
			return "", fmt.Sprintf("An unquoted key cannot hold the character %q: quote the key.", c)
		case c < ' ' || c > '~':
			return "", "A key can hold printable ASCII only."
		}
	}
	return field, ""
}

// What a caller only declared reserves little memory: first, and trusted once that much of it has come.
const (
	first   = 4 << 10
	trusted = 64 << 10
)

// readBody reads the whole body, counting real bytes: a layer outside may have replaced the body, so that its
// declared length is only a hint. What it returns was taken from m.bodies, and is the caller's to give back. What
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
			m.bodies.give(held)
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
		case !m.bodies.take(int64(n)):
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

// A budget is how many bytes of bodies may still come, over all requests together.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int64) bool {
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

func (b *budget) give(n int64) { b.left.Add(n) }

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

func (b *body) Read(p []byte) (int, error)         { return b.r.Read(p) }
func (b *body) WriteTo(w io.Writer) (int64, error) { return b.r.WriteTo(w) }
func (b *body) Close() error                       { return nil }
