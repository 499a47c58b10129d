package idemhttp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// What is remembered: the core knows outcomes, this file turns what a handler answered into one.

// Headers that the layer adds.
const (
	replayedHeader = "Idempotent-Replayed"
	statusHeader   = "Idempotency-Status"
	statusUnknown  = "unknown"
)

type callKey struct{}

func say(ctx context.Context, s retrysafe.State) bool {
	c, ok := ctx.Value(callKey{}).(*call)
	if ok {
		c.said.Store(uint32(s))
	}
	return ok
}

// KeyOf returns the key of the guarded request that ctx belongs to. It is false outside of one. The key is the caller's:
// it has no place in logs.
func KeyOf(ctx context.Context) (key retrysafe.Key, ok bool) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return retrysafe.Key{}, false
	}
	return c.key, true
}

// DidNothing says, from inside a guarded handler, that nothing happened: whatever the handler answers, it is
// not kept, and the key is released for a retry. It returns false outside of a guarded request.
func DidNothing(ctx context.Context) bool { return say(ctx, retrysafe.Free) }

// MayHaveActed says, from inside a guarded handler, that nobody can tell whether the operation happened: what
// the handler answers goes to this caller only, and the key is held. why is for operators; no payload. It
// returns false outside of a guarded request.
func MayHaveActed(ctx context.Context, why string) bool {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.why.Store(&why)
	}
	return say(ctx, retrysafe.Unknown)
}

// checkOutcomes refuses what would run an operation again that succeeded, and what is no outcome of an answer.
func (o *Options) checkOutcomes() error {
	for status, state := range o.Outcomes {
		switch {
		case status < 200 || status > 599:
			return fmt.Errorf("option Outcomes: %d is no status of a final answer: want 200 to 599", status)
		case state != retrysafe.Free && state != retrysafe.Completed && state != retrysafe.UnknownAnswered:
			return fmt.Errorf("option Outcomes: %d cannot be %v: want Free, Completed or UnknownAnswered", status, state)
		case state == retrysafe.Free && status < 400:
			return fmt.Errorf("option Outcomes: %d cannot be Free: it is a success, which a retry would run again", status)
		}
	}
	return nil
}

// classify says what an answer of status means to this guard.
func (o *Options) classify(status int, h http.Header) retrysafe.State {
	if state, ok := o.Outcomes[status]; ok {
		return state
	}
	return classify(status, h)
}

// classify says what an answer of status means. The release list comes first: those statuses say that nothing
// happened. A 408 and any other 5xx may come after the effect.
func classify(status int, h http.Header) retrysafe.State {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestEntityTooLarge,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return retrysafe.Free
	case http.StatusServiceUnavailable:
		if h.Get("Retry-After") != "" { // an explicit invitation to send again
			return retrysafe.Free
		}
		return retrysafe.UnknownAnswered
	case http.StatusRequestTimeout:
		return retrysafe.UnknownAnswered
	}
	if status >= 500 {
		return retrysafe.UnknownAnswered
	}
	return retrysafe.Completed
}
