package idemhttp

import (
	"context"
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
