package idemhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// What callers are told whose request did not run.

func (m *Middleware) rejectBody(w http.ResponseWriter, r *http.Request, code problem.Code) {
	a := problem.Answer{Code: code}
	switch code {
	case problem.Overloaded:
		a.RetryAfter = time.Second
	case problem.BodyTooLarge:
		a.Detail = fmt.Sprintf("Nothing was done: a body may have %d bytes.", m.o.MaxBody)
	}
	m.reject(w, r, a)
}

// reject answers a request that asked for no claim.
func (m *Middleware) reject(w http.ResponseWriter, r *http.Request, a problem.Answer) {
	m.executor.Tell(r.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: string(a.Code)})
	m.refuse(w, r, a)
}

func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, a problem.Answer) {
	m.share(w.Header(), r)
	problem.Write(w, m.o.DocsBase, m.o.Preset.shape(a))
}

// fail answers where nothing ran.
func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := problem.Answer{Code: problem.StoreUnavailable, RetryAfter: time.Second}
	switch {
	case errors.Is(err, retrysafe.ErrDraining):
		a.Code = problem.Draining
	case errors.Is(err, retrysafe.ErrUnreadable):
		a = problem.Answer{Code: problem.EntryUnreadable}
	}
	if a.Code != problem.Draining && r.Context().Err() == nil { // a caller who hung up is no failure of the store
		m.o.Logger.Error("key could not be claimed, nothing ran", "code", string(a.Code), "err", err)
	}
	m.refuse(w, r, a)
}

// refuseResult answers where another attempt, or its remains, hold the key.
func (m *Middleware) refuseResult(w http.ResponseWriter, req *http.Request, r retrysafe.Result) {
	a := problem.Answer{Instance: "urn:retrysafe:key:" + r.ID.String()}
	switch r.Verdict {
	case retrysafe.Busy:
		a.Code, a.RetryAfter = problem.InFlight, retryAfter(r)
		a.Detail = fmt.Sprintf("The operation is in progress, not failed: send the same request with the same key again in %d s.", problem.Seconds(a.RetryAfter))
	case retrysafe.Mismatch:
		a.Code, a.Instance, a.Original = problem.KeyReused, "", original(r.State)
	case retrysafe.Expired:
		a.Code = problem.AnswerExpired
	default:
		a.Code = problem.OutcomeUnknown
		w.Header().Set(statusHeader, statusUnknown)
	}
	m.refuse(w, req, a)
}

// original says, to who reused a key, what became of the request that it was used for first: a person who changed a
// form and sent it again wants to know whether the first one went through.
func original(s retrysafe.State) string {
	switch s {
	case retrysafe.InFlight:
		return "in-flight"
	case retrysafe.Completed:
		return "completed"
	}
	return "unknown"
}

// retryAfter grows with the time that the operation has taken already, so that a caller who obeys it backs
// off; it stays within the lease.
func retryAfter(r retrysafe.Result) time.Duration {
	return min(max(r.Age, time.Second), max(r.Left, time.Second))
}
