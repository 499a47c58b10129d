package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// This file is what keeps a claim in order while and after its operation runs: the heartbeat, the record, the
// take-back of a claim that was never answered, and the drain that waits for all of them.

// A heartbeat extends one claim at every third of its lease. It is a timer, no goroutine: most operations end
// before its first beat.
type heartbeat struct {
	every time.Duration
	until time.Time

	mu     sync.Mutex // guards what follows
	over   bool
	timer  *time.Timer
	cancel context.CancelFunc // of the beat under way
}

// keep extends the claim's lease until rest is called, or until then. The operation's context ends, with cause ErrClaimLost,
// when somebody else decided over it.
func (op *operation) keep(until time.Time) {
	h := &op.heart
	h.every = max(op.claim.entry.Due, time.Millisecond) / 3
	h.until = until
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.every, op.beat)
}

// rest ends the heartbeat.
func (op *operation) rest() {
	h := &op.heart
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.timer.Stop()
	if h.cancel != nil {
		h.cancel() // the record must not wait for a beat that the store does not answer
	}
}

func (op *operation) beat() {
	h, e := &op.heart, op.executor
	ctx, cancel := context.WithCancel(e.stopped)
	defer cancel()
	if !h.begin(cancel) {
		return
	}
	began := time.Now()
	err := op.claims.Extend(ctx, op.claim)
	e.observe(e.stopped, Event{Kind: EventExtended, ID: op.claim.id, Took: time.Since(began), Err: err})
	switch {
	case errors.Is(err, ErrClaimLost):
		op.end(ErrClaimLost)
	case errors.Is(err, ErrUnknownOutcome): // declared over while this process slept; the record still counts
	case err != nil:
		h.again(h.every / 8)
	default:
		h.again(h.every)
	}
}

func (h *heartbeat) begin(cancel context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	return !h.over && time.Now().Before(h.until)
}

func (h *heartbeat) again(after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.timer.Reset(after)
	}
}

// record settles a claim whose operation has run. The caller may have hung up: that changes nothing. If the
// store does not take it within RecordWait, recording goes on in the background, also after the lease ended,
// until the store takes it, somebody else decides, or the drain ends; the error is then ErrUnrecorded.
func (op *operation) record(ctx context.Context, o Outcome) error {
	began, e, c := time.Now(), op.executor, op.claim
	first := &op.recording
	first.parent, first.deaf, first.deadline = ctx, true, began.Add(e.o.RecordWait)
	defer first.release()
	if final, err := op.tryRecord(first, o, began); final {
		return err
	}
	settled := make(chan error, 1)
	e.background(func(ctx context.Context) bool {
		final, err := op.tryRecord(ctx, o, began)
		if final {
			settled <- err
		}
		return final
	})
	select {
	case err := <-settled:
		return err
	case <-first.Done():
		e.observe(ctx, Event{Kind: EventUnrecorded, ID: c.id, State: o.State, Took: time.Since(began)})
		e.o.Logger.Error("outcome is not recorded yet", "id", c.id.String(), "epoch", c.epoch)
		return ErrUnrecorded
	}
}

// tryRecord settles the claim, unless the store is in trouble. The error is final if the try is.
func (op *operation) tryRecord(ctx context.Context, o Outcome, began time.Time) (final bool, err error) {
	err = op.claims.Settle(ctx, op.claim, o)
	if err == ErrClaimLost && o.State == Free {
		err = nil // released, and claimed again before the store's answer came
	}
	final = err == nil || errors.Is(err, ErrClaimLost) || errors.Is(err, ErrUnreadable)
	if final {
		op.executor.observe(ctx, Event{Kind: EventSettled, ID: op.claim.id, State: o.State, Size: len(o.Answer), Took: op.executor.took(began), Err: err})
	}
	return final, err
}

// maxTakeBacks bounds the goroutines of take-backs.
const maxTakeBacks = 1000

// takeBack undoes a claim that was never answered, in the background. As long as the write itself may still
// be on its way, which is one StoreTimeout, it looks again.
//
// In a long outage of the store only so many are looked after: what was written of the others after all is held
// as unknown when its lease ends.
func (e *Executor) takeBack(claims *Claims, l *lostClaim) {
	began := time.Now()
	if e.takingBack.Add(1) > maxTakeBacks {
		e.takingBack.Add(-1)
		e.observe(context.Background(), Event{Kind: EventTakenBack, ID: l.sent.ID, Err: ErrStore})
		return
	}
	e.background(func(ctx context.Context) (done bool) {
		defer func() {
			if done {
				e.takingBack.Add(-1)
			}
		}()
		certain, err := claims.takeBack(ctx, l)
		if done = certain || err == nil && time.Since(began) > claims.timeout; done {
			e.observe(ctx, Event{Kind: EventTakenBack, ID: l.sent.ID, Took: time.Since(began)})
		}
		return done
	})
}

// background repeats f until it says that it is done or the drain ends. It counts as active work.
func (e *Executor) background(f func(context.Context) bool) {
	e.mu.Lock()
	e.active++
	e.mu.Unlock()
	go func() {
		defer e.leave()
		pause := 20 * time.Millisecond
		for !f(e.stopped) {
			select {
			case <-e.stopped.Done():
				return
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
			}
		}
	}()
}

// enter counts an operation in, unless the Executor drains. What runs inside an operation under way is not new.
func (e *Executor) enter(ctx context.Context) bool {
	outer := operationOf(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	inside := outer != nil && outer.executor == e && !outer.returned
	if e.draining && !inside {
		return false
	}
	e.active++
	return true
}

func (e *Executor) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	if e.draining && e.active == 0 {
		close(e.idle)
	}
}

// Drain refuses new operations with ErrDraining and waits until those under way have ended and are recorded.
// When ctx ends first, it gives up recording and says how many were left: their outcome becomes unknown when
// their leases end.
func (e *Executor) Drain(ctx context.Context) error {
	e.mu.Lock()
	first := !e.draining
	e.draining = true
	if first && e.active == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	defer e.stop()
	select {
	case <-e.idle:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active == 0 {
		return nil
	}
	return fmt.Errorf("drain: %d operations were still under way: %w", e.active, context.Cause(ctx))
}

// Draining tells whether Drain was called.
func (e *Executor) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}
