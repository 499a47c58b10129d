package idemhttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A call is one guarded request whose operation runs here, and the context it runs in.
type call struct {
	context.Context
	middleware *Middleware
	next       http.Handler
	r          *http.Request
	key        retrysafe.Key
	fp         retrysafe.Fingerprint
	sent       []byte // the body
	body       body   // of the run under way
	w          recorder
	asked      bool          // resend ran the handler
	said       atomic.Uint32 // a retrysafe.State: what the handler says of its outcome, against its status
	why        atomic.Pointer[string]
	panicked   any
}

// Value returns the call itself under its key.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// run is the operation: the handler, its answer recorded, its panic caught.
func (c *call) run(ctx context.Context) (out retrysafe.Outcome) {
	defer func() {
		if c.panicked = recover(); c.panicked != nil {
			c.logPanic(ctx)
			out = retrysafe.Outcome{Reason: "the handler panicked"}
		}
	}()
	c.Context = ctx
	c.suspect(ctx)
	r := c.r.WithContext(c)
	c.body.r.Reset(c.sent)
	r.Body = &c.body
	c.next.ServeHTTP(&c.w, r)
	return c.w.outcome()
}

// unasked stands for a recovery function where it is only checked whether there is one.
func unasked(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
	return retrysafe.Outcome{}, nil
}

// resend asks the handler what became of an operation whose owner is gone, by having it run again. That nothing
// happened this time says nothing of the first: only an answer does.
func (c *call) resend(ctx context.Context, _ retrysafe.Key) (retrysafe.Outcome, error) {
	c.asked = true
	out := c.run(ctx)
	if out.State == retrysafe.Free {
		out = retrysafe.Outcome{Reason: "it was asked again, and did nothing: " + out.Reason}
	}
	return out, nil
}

// resent ends a request that asked the handler again, as far as what the handler did to the answer goes. It tells
// whether the caller has been answered.
func (c *call) resent() (answered bool) {
	if c.w.streaming {
		if c.panicked != nil || c.w.short() {
			panic(http.ErrAbortHandler) // the connection is cut: the answer is not whole
		}
		return true
	}
	clear(c.w.w.Header())
	maps.Copy(c.w.w.Header(), c.w.outer)
	return false
}

// overruled returns the answer that somebody else decided on while the operation ran: every other caller gets
// it, so this one does too. Without one, or when the handler's has begun to go out, it returns r.
func (c *call) overruled(req retrysafe.Request, r retrysafe.Result) retrysafe.Result {
	if c.w.streaming {
		return r
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), 5*time.Second)
	defer cancel()
	stands, ok, err := c.middleware.executor.Met(ctx, req)
	if err != nil || !ok || stands.Verdict != retrysafe.Replay {
		return r
	}
	clear(c.w.w.Header())
	maps.Copy(c.w.w.Header(), c.w.outer)
	return stands
}

// finish sends what the operation left to be sent.
func (c *call) finish(r retrysafe.Result) {
	w := c.w.w
	switch {
	case c.panicked == nil && c.w.short(), c.panicked == http.ErrAbortHandler, c.panicked != nil && c.w.streaming:
		panic(http.ErrAbortHandler) // the connection is cut: the answer is not whole
	case c.panicked == nil && !c.w.streaming:
		c.w.flush(r)
	case c.panicked == nil:
	default:
		clear(w.Header())
		maps.Copy(w.Header(), c.w.outer)
		w.Header().Set(statusHeader, statusUnknown)
		c.middleware.refuse(w, c.r, problem.Answer{Code: problem.OutcomeUnknown, Status: http.StatusInternalServerError, Instance: "urn:retrysafe:key:" + r.ID.String()})
	}
}

// logPanic tells of a panic by its type and stack, which hold no payload.
func (c *call) logPanic(ctx context.Context) {
	if c.panicked == http.ErrAbortHandler {
		return // the handler's way to say that the connection is to be cut
	}
	id, _ := retrysafe.IDOf(ctx)
	c.middleware.o.Logger.Error("handler panicked", "id", id.String(), "type", fmt.Sprintf("%T", c.panicked), "stack", string(debug.Stack()))
}
