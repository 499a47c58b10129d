package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// This file keeps a caller who does not read, or stops sending, from holding what others need.

var errCallerGone = errors.New("the caller hung up or stopped reading")

// maxInformed bounds the informational answers that one caller is sent; further ones are dropped.
const maxInformed = 16

// stride is how much of an answer the caller must take within the write timeout.
const stride = 32 << 10

// A pace is how long a caller may take: for each step, and as a whole by the server's own timeout, which our
// deadlines must not extend.
type pace struct {
	control *http.ResponseController // nil: no server of net/http, so no deadlines
	each    time.Duration
	whole   time.Time // zero: without end
}

// newPace returns the pace of an exchange whose server ends it after whole, 0 for never.
func newPace(w http.ResponseWriter, r *http.Request, each time.Duration, whole func(*http.Server) time.Duration) pace {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return pace{}
	}
	p := pace{control: http.NewResponseController(w), each: each}
	if d := whole(server); d > 0 {
		p.whole = time.Now().Add(d)
	}
	return p
}

// next is when the step that begins now must have ended.
func (p *pace) next() time.Time {
	at := time.Now().Add(p.each)
	if !p.whole.IsZero() && p.whole.Before(at) {
		return p.whole
	}
	return at
}

// A paced is the caller's end of an exchange. Its deadline stands only while something is written: an HTTP/2
// server would reset a stream whose deadline passes while there is nothing to send.
type paced struct {
	http.ResponseWriter
	pace
	r        *http.Request
	informed int
	stopped  atomic.Bool // the caller stopped sending its body
}

var _ http.ResponseWriter = (*paced)(nil)

func (g *Gateway) paced(w http.ResponseWriter, r *http.Request) *paced {
	return &paced{ResponseWriter: w, r: r, pace: newPace(w, r, g.o.WriteTimeout, func(s *http.Server) time.Duration { return s.WriteTimeout })}
}

// pacedOf finds the caller's end below the writers of other layers.
func pacedOf(w http.ResponseWriter) *paced {
	for {
		switch layer := w.(type) {
		case *paced:
			return layer
		case interface{ Unwrap() http.ResponseWriter }:
			w = layer.Unwrap()
		default:
			return nil
		}
	}
}

// Unwrap lets http.ResponseController reach what this writer does not do itself.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *paced) begin() {
	if p.control != nil {
		p.control.SetWriteDeadline(p.next())
	}
}

func (p *paced) end() {
	if p.control != nil {
		p.control.SetWriteDeadline(p.whole)
	}
}

// WriteHeader sends an informational answer at once, if the caller knows what it is (RFC 9110, 15.2) and was not
// sent too many already.
func (p *paced) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		unguessed(p.Header())
		p.ResponseWriter.WriteHeader(status)
		return
	}
	if p.informed++; p.informed > maxInformed || !p.r.ProtoAtLeast(1, 1) {
		return
	}
	p.begin()
	defer p.end()
	p.ResponseWriter.WriteHeader(status)
}

// unguessed keeps net/http from guessing the media type of an answer that came without one: a proxy does not add to
// what the upstream says of its content.
func unguessed(h http.Header) {
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
}

// Write sends by strides, so that a caller who reads slowly is told from one who does not read.
func (p *paced) Write(b []byte) (written int, err error) {
	for {
		p.begin()
		n, err := p.ResponseWriter.Write(b[:min(len(b), stride)])
		p.end()
		written, b = written+n, b[n:]
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// FlushError is Flush for http.ResponseController.
func (p *paced) FlushError() error {
	p.begin()
	defer p.end()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// A slowBody is a request body whose next byte must come in time. The deadline is set before each read and never
// taken back: net/http does that once the body has ended, to watch for a caller who hangs up.
type slowBody struct {
	io.ReadCloser
	pace
	stopped *atomic.Bool // told when the next byte did not come
}

// hurried returns r with a body whose every byte must come in time.
func (g *Gateway) hurried(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	p := newPace(w, r, g.o.Guard.BodyTimeout, func(s *http.Server) time.Duration { return s.ReadTimeout })
	caller := pacedOf(w)
	if p.control == nil || p.each < 0 || caller == nil {
		return r
	}
	r = r.WithContext(r.Context()) // a copy: the caller of a handler keeps its request
	r.Body = &slowBody{r.Body, p, &caller.stopped}
	return r
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.control.SetReadDeadline(b.next())
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.stopped.Store(true)
	}
	return n, err
}

// stoppedSending tells whether the caller is why its request failed. The error does not: as net/http ends a request's
// context when its body cannot be read, it may be that one's.
func stoppedSending(w http.ResponseWriter) bool {
	caller := pacedOf(w)
	return caller != nil && caller.stopped.Load()
}

// copyFlushing passes on what comes when it comes, and calls gone as soon as there is nobody to pass it to. Its
// first flush has the guard record the outcome: before that, a caller who hangs up changes nothing.
func copyFlushing(w http.ResponseWriter, body io.Reader, gone func()) error {
	control := http.NewResponseController(w)
	control.Flush()
	if p := pacedOf(w); p != nil {
		defer context.AfterFunc(p.r.Context(), gone)()
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return errCallerGone
			}
			control.Flush() // what could not be sent is told by the next write
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
