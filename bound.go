package retrysafe

import (
	"context"
	"sync"
	"time"
)

// bounded is a context that costs its channel, and its timer if it has a time limit, only if somebody waits for
// it. A store or an operation that answers at once never asks for Done; context.WithTimeout was a third of the
// cost of a claim in memory.
//
// As long as it has not ended, it is its parent with another Done. Who asks for that one, or finds that it has
// ended, meets a real context of the standard library instead: so [context.Cause] is right, child contexts need no
// goroutine to follow it, and what was said of its end stays true.
type bounded struct {
	parent   context.Context
	deadline time.Time // zero: none
	deaf     bool      // goes on when its parent ends

	mu     sync.Mutex              // guards what follows
	over   bool                    // ended by its owner
	cause  error                   // of that; nil stands for context.Canceled
	real   context.Context         // made when it is needed first
	cancel context.CancelCauseFunc // of real
}

// within returns ctx bounded by d. It must be released.
func within(ctx context.Context, d time.Duration) *bounded {
	b := &bounded{parent: ctx, deadline: time.Now().Add(d)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(b.deadline) {
		b.deadline = earlier
	}
	return b
}

// Deadline returns when the context ends at the latest.
func (b *bounded) Deadline() (time.Time, bool) {
	if b.deadline.IsZero() && !b.deaf {
		return b.parent.Deadline()
	}
	return b.deadline, !b.deadline.IsZero()
}

// Done returns a channel that is closed when the context ends.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made().Done()
}

// Err returns why the context ended, nil while it has not.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended()
}

// Value returns the parent's value of key. The standard library asks in this way for the cause of a context that it
// knows to have ended, and for the one that closes a Done that it was given: both are the real one's.
func (b *bounded) Value(key any) any {
	b.mu.Lock()
	from := b.parent
	if b.real != nil {
		from = b.real
	}
	b.mu.Unlock()
	return from.Value(key)
}

// end ends the context, unless it has ended. No cause is context.Canceled.
func (b *bounded) end(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.cancel != nil:
		b.cancel(cause)
	case b.ended() == nil:
		b.over, b.cause = true, cause
	}
}

// release gives back what the context holds. Nobody looks at it any more.
func (b *bounded) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel(nil)
	}
}

// ended is Err, with mu held.
func (b *bounded) ended() error {
	if b.real == nil && !b.over && (b.deaf || b.parent.Err() == nil) && (b.deadline.IsZero() || time.Until(b.deadline) > 0) {
		return nil
	}
	return b.made().Err()
}

// made returns the real context. It is called with mu held.
func (b *bounded) made() context.Context {
	if b.real != nil {
		return b.real
	}
	parent := b.parent
	if b.deaf || b.over { // what comes behind its end is not its cause
		parent = context.WithoutCancel(parent)
	}
	if b.deadline.IsZero() {
		b.real, b.cancel = context.WithCancelCause(parent)
	} else {
		real, cancel := context.WithDeadline(parent, b.deadline)
		b.real, b.cancel = real, func(error) { cancel() } // only an operation has a cause, and it has no deadline
	}
	if b.over {
		b.cancel(b.cause)
	}
	return b.real
}
