package idemhttp

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// replayAnswer gives the answer of the first.
func (m *Middleware) replayAnswer(w http.ResponseWriter, req *http.Request, r retrysafe.Result) {
	var room [12]line // answers of usual size are read without an allocation
	lines := room[:0]
	status, body, err := answer.DecodeLines(r.Answer, func(name, value string) { lines = append(lines, line{name, value}) })
	switch {
	case err != nil && r.NotKept && r.Answer == nil: // decided by an operator who had no answer
		status = http.StatusNoContent
	case err != nil:
		m.fail(w, req, errors.Join(retrysafe.ErrUnreadable, err))
		return
	}
	h := w.Header()
	vary, link := h["Vary"], h["Link"] // of layers outside
	for i, l := range lines {
		outer := vary
		if l.name == "Link" {
			outer = link
		}
		restoreLine(h, l, outer, i > 0 && lines[i-1].name == l.name)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // the first had none: net/http must not guess one now
	}
	h.Set(replayedHeader, "true")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	if r.State == retrysafe.UnknownAnswered {
		h.Add(statusHeader, statusUnknown)
	}
	if r.NotKept {
		h.Add(statusHeader, string(problem.AnswerNotKept))
	}
	m.share(h, req)
	send(w, status, body)
}

// A line is one header line.
type line struct{ name, value string }

// restoreLine puts a line of the first answer among the headers that outer layers gave this one. It takes
// their place, but for lists to which each layer adds its own: outer is what they had of such a list.
func restoreLine(h http.Header, l line, outer []string, further bool) {
	switch {
	case l.name == "Vary" || l.name == "Link":
		if !slices.Contains(outer, l.value) {
			h[l.name] = append(h[l.name], l.value)
		}
	case further:
		h[l.name] = append(h[l.name], l.value)
	default:
		h[l.name] = []string{l.value}
	}
}

// send writes an answer that is known whole.
func send(w http.ResponseWriter, status int, body []byte) {
	if bodyAllowed(status) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	} else {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(status)
	if bodyAllowed(status) && len(body) > 0 {
		w.Write(body)
	}
}

// bodyAllowed tells whether an answer of status may have content (RFC 9110, 15.3.5 and 15.4.5).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
