package retrysafe

import (
	"context"
	"sync"
	"time"
)

// bounded is a context with a time limit that costs a timer only if somebody waits for it. A store that
// answers at once never asks for Done; context.WithTimeout was a third of the cost of a claim in memory.
type bounded struct {
	context.Context
	deadline time.Time

	mu     sync.Mutex
	real   context.Context // made when Done is first asked for
	cancel context.CancelFunc
}

// within returns ctx bounded by d. Its end must be called.
func within(ctx context.Context, d time.Duration) *bounded {
	b := &bounded{Context: ctx, deadline: time.Now().Add(d)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(b.deadline) {
		b.deadline = earlier
	}
	return b
}

// Deadline returns when the context ends at the latest.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done returns a channel that is closed when the context ends.
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.cancel = context.WithDeadline(b.Context, b.deadline)
	}
	return b.real.Done()
}

// Err returns why the context ended, nil while it has not.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real != nil {
		return b.real.Err()
	}
	if err := b.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end releases what the context holds.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}
