package idemhttp

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A recorder holds a handler's answer back until its outcome is recorded. An answer that the handler flushes,
// or that grows past the limit, is recorded at that moment as done but not kept, and streams from then on.
type recorder struct {
	w     http.ResponseWriter
	limit int64
	outer http.Header // set by layers outside, before the handler: not its own, not kept
	call  *call

	status    int         // 0: not written yet
	header    http.Header // as it was when the status was written
	declared  int64       // Content-Length that the handler gave; -1: none
	written   int64       // bytes of the body
	body      []byte      // held back
	streaming bool
}

var (
	_ http.ResponseWriter = (*recorder)(nil)
	_ http.Flusher        = (*recorder)(nil)
	_ http.Hijacker       = (*recorder)(nil)
)

func (rec *recorder) Header() http.Header { return rec.w.Header() }

// WriteHeader keeps the first final status. Informational ones go out live and are never kept (RFC 9111, 3).
func (rec *recorder) WriteHeader(status int) {
	switch {
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		if rec.status == 0 && rec.call.r.ProtoAtLeast(1, 1) { // RFC 9110, 15.2
			rec.w.WriteHeader(status)
		}
	case rec.status == 0:
		if status < 200 || status > 999 {
			panic(fmt.Sprintf("idemhttp: invalid status %d", status)) // as net/http does
		}
		rec.status = status
		rec.header = rec.w.Header().Clone()
		rec.declared = -1
		if length := rec.header.Get("Content-Length"); length != "" {
			if n, err := strconv.ParseInt(length, 10, 64); err == nil && n >= 0 {
				rec.declared = n
			}
		}
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(rec.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if rec.written += int64(len(p)); rec.declared >= 0 && rec.written > rec.declared {
		rec.written -= int64(len(p))
		return 0, http.ErrContentLength // as net/http does
	}
	if !rec.streaming && int64(len(rec.body)+len(p)) > rec.limit {
		rec.stream()
	}
	if rec.streaming {
		return rec.w.Write(p)
	}
	rec.body = append(rec.body, p...)
	return len(p), nil
}

// Flush starts to stream: who flushes wants the caller to see it now.
func (rec *recorder) Flush() { rec.FlushError() }

// FlushError is Flush for http.ResponseController.
func (rec *recorder) FlushError() error {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	if !rec.streaming {
		rec.stream()
	}
	return http.NewResponseController(rec.w).Flush()
}

// Unwrap lets http.ResponseController set deadlines and full duplex.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.w }

// Hijack refuses: what goes over a hijacked connection cannot be kept.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, fmt.Errorf("idemhttp: hijack of a guarded request: %w", http.ErrNotSupported)
}

// outcome is what a finished handler's answer means.
func (rec *recorder) outcome() retrysafe.Outcome {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	if rec.header.Get("Content-Type") == "" && len(rec.body) > 0 && rec.header.Get("Content-Encoding") == "" {
		if _, refused := rec.header["Content-Type"]; !refused { // as net/http would: the replay must carry it too
			rec.header.Set("Content-Type", http.DetectContentType(rec.body))
		}
	}
	if rec.short() && !rec.streaming {
		return retrysafe.Outcome{Reason: "the answer is shorter than its Content-Length"}
	}
	return rec.outcomeOf(rec.body, false)
}

// short tells whether the handler ended before the length it declared: such an answer is not whole (RFC 9112,
// 8), it is never kept, and the caller's connection is cut.
func (rec *recorder) short() bool {
	return rec.declared >= 0 && rec.written < rec.declared && bodyAllowed(rec.status)
}

func (rec *recorder) outcomeOf(body []byte, notKept bool) retrysafe.Outcome {
	state := retrysafe.State(rec.call.said.Load())
	if state == retrysafe.Absent {
		state = rec.call.middleware.o.classify(rec.status, rec.header)
	}
	if state != retrysafe.Completed && state != retrysafe.UnknownAnswered {
		out := retrysafe.Outcome{State: state, Reason: "status " + strconv.Itoa(rec.status)}
		if why := rec.call.why.Load(); why != nil && *why != "" {
			out.Reason = *why
		}
		return out
	}
	if coding := rec.header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		rec.call.middleware.compressed.Do(func() {
			rec.call.middleware.o.Logger.Warn("an answer was compressed inside of the guard: it is replayed so to callers that may not read it; put compression outside")
		})
	}
	a := answer.Answer{Status: rec.status, Header: rec.header, Body: body}
	return rec.call.middleware.keep(state, a, rec.outer, notKept)
}

// stream records the answer as done and not kept, sends what was held back, and lets the rest through.
func (rec *recorder) stream() {
	rec.streaming = true
	out := rec.outcomeOf(nil, true)
	rec.restore(out.State, retrysafe.Settle(rec.call, out))
	rec.w.WriteHeader(rec.status)
	rec.w.Write(rec.body)
	rec.body = nil
}

// flush sends the whole answer, recorded or said to be not.
func (rec *recorder) flush(r retrysafe.Result) {
	rec.restore(r.State, r.Err)
	send(rec.w, rec.status, rec.body)
}

// restore puts the headers back as they were when the status was written, and says what is special about an
// answer whose outcome is state, recorded or not.
func (rec *recorder) restore(state retrysafe.State, err error) {
	h := rec.w.Header()
	clear(h)
	maps.Copy(h, rec.header)
	if rec.call.said.Load() != 0 { // a door's own word on what it could not learn
		rec.call.middleware.share(h, rec.call.r)
	}
	expose(h)
	switch {
	case state == retrysafe.Unknown:
		h.Set(statusHeader, statusUnknown)
	case state != retrysafe.Free && err != nil && !errors.Is(err, retrysafe.ErrNoOperation):
		h.Set(statusHeader, string(problem.Unrecorded))
	}
}

// DefaultReplayHeaders are the headers of an answer that are kept: those that say what the answer is, not how
// or when it was sent.
var DefaultReplayHeaders = []string{"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location",
	"Location", "Etag", "Last-Modified", "Link", "Cache-Control", "Vary"}

// replayed returns the names of the headers that are kept, in the order in which they are stored.
func replayed(more []string) ([]string, error) {
	names := slices.Clone(DefaultReplayHeaders)
	for _, name := range more {
		name = http.CanonicalHeaderKey(name)
		if answer.OfOneExchange(name) {
			return nil, fmt.Errorf("header %s belongs to one exchange: it cannot be replayed", name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
