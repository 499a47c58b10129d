package idemhttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
)

// What of an answer is kept.

// Done is the outcome of an operation that was done and answered with a, learned otherwise than from the handler: by
// a RecoverFunc, say. It is kept as the handler's answers are. A body of more than MaxResponse is not kept.
func (m *Middleware) Done(status int, header http.Header, body []byte) retrysafe.Outcome {
	a := answer.Answer{Status: status, Header: header, Body: body}
	return m.keep(retrysafe.Completed, a, nil, int64(len(body)) > m.o.MaxResponse)
}

// keep is the outcome of an operation that was answered. outer are headers of layers outside, which are not its own.
func (m *Middleware) keep(state retrysafe.State, a answer.Answer, outer http.Header, notKept bool) retrysafe.Outcome {
	if notKept = notKept || m.o.DropAnswers; notKept {
		a.Body = nil
	}
	var room [16]string
	names := m.kept(room[:0], a.Header, outer, notKept)
	if a.CheckOnly(names) != nil {
		names, a.Body, notKept = nil, nil, true
	}
	return retrysafe.Outcome{State: state, Answer: a.EncodeOnly(names), NotKept: notKept}
}

// kept appends to names those of the headers that are stored: what the handler itself set of them. Without the
// body, headers that describe it are left out; headers that the answer's own Connection names are hop-by-hop (RFC
// 9110, 7.6.1).
func (m *Middleware) kept(names []string, h, outer http.Header, noBody bool) []string {
	for _, name := range m.replay {
		lines := h[name]
		if len(lines) == 0 || noBody && strings.HasPrefix(name, "Content-") && name != "Content-Location" ||
			answer.Named(h["Connection"], name) || slices.Equal(lines, outer[name]) {
			continue
		}
		names = append(names, name)
	}
	return names
}
