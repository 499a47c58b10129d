package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type operationKey struct{}

// An operation is a running operation, and the context it runs in.
type operation struct {
	bounded
	executor *Executor
	claims   *Claims
	claim    *Claim
	heart    heartbeat
	acted    atomic.Bool // Act has succeeded
	returned bool        // guarded by the executor's mu

	settling  sync.Mutex // guards what follows
	settled   bool       // out and err are final
	out       Outcome
	err       error
	recording bounded // the context of the record's first try
}

// Value returns the operation itself under its key.
func (op *operation) Value(key any) any {
	if key == (operationKey{}) {
		return op
	}
	return op.bounded.Value(key)
}

func operationOf(ctx context.Context) *operation {
	op, _ := ctx.Value(operationKey{}).(*operation)
	return op
}

// settle records the first outcome it is given and returns that one ever after.
func (op *operation) settle(ctx context.Context, o Outcome) (Outcome, error) {
	op.settling.Lock()
	defer op.settling.Unlock()
	if !op.settled {
		op.rest()
		op.settled, op.out = true, o.plain()
		op.err = op.record(ctx, op.out)
	}
	return op.out, op.err
}

// Settle records the outcome of the operation that ctx belongs to before it returns: for one whose answer goes
// out while it is still being made. How the operation ends later changes nothing any more. The error is as in
// Result.Err.
func Settle(ctx context.Context, o Outcome) error {
	op := operationOf(ctx)
	if op == nil {
		return ErrNoOperation
	}
	_, err := op.settle(ctx, o)
	return err
}

// Act says that the operation that ctx belongs to acts from now on. Under a two-step policy ([Policy]) it is called
// before the first outside effect, and returns nil when that is durable: if the process dies before, nothing can have
// happened and the next claim runs; if it dies after, the policy decides as ever. The second call is free. Under any
// other policy Act does nothing.
//
// After an error the operation must not act; it may end with [ErrDidNothing]. [ErrClaimLost]: somebody else owns the
// key or has decided, and ctx ends. [ErrUnknownOutcome]: the lease ended, and the outcome is held as unknown.
// [ErrStore]: the store did not answer; it may be asked again.
//
// What an operation says of its end counts whether it acted or not: an error, a panic or the zero [Outcome] without
// Act is held as unknown. Only where its process died before it could say anything the mark is asked. An operation
// that acts without Act may therefore act twice.
func Act(ctx context.Context) error {
	op := operationOf(ctx)
	switch {
	case op == nil:
		return ErrNoOperation
	case !op.claim.twoStep:
		return nil
	case op.Err() != nil && context.Cause(op) == ErrClaimLost:
		return ErrClaimLost
	case op.acted.Load():
		return nil
	}
	err := op.claims.Act(ctx, op.claim)
	switch {
	case err == nil:
		op.acted.Store(true)
		return nil
	case errors.Is(err, ErrClaimLost):
		op.end(ErrClaimLost)
	case !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrUnreadable):
		err = errors.Join(ErrStore, err)
	}
	return fmt.Errorf("act: %w", err)
}

// ErrNoOperation says that a context is not that of a running operation.
var ErrNoOperation = errors.New("context carries no operation")

// EpochOf returns the fencing number of the operation that ctx belongs to, 0 outside of one. What is changed
// downstream may keep the highest epoch it has seen and refuse a lower one.
func EpochOf(ctx context.Context) int64 {
	if op := operationOf(ctx); op != nil {
		return op.claim.epoch
	}
	return 0
}

// QuietOf returns, inside a [RecoverFunc], how long ago the owner that is gone gave its last sign of life, on the
// store's clock: when it claimed the key, extended its lease, called [Act], or said that it does not know how its
// operation ended. Recoveries that were tried since, and restarts, change nothing about it. It may have acted after
// that sign: it was to give the next within a lease. QuietOf is zero outside of a recovery.
func QuietOf(ctx context.Context) time.Duration {
	op := operationOf(ctx)
	if op == nil || op.claim.Verdict != Recovering {
		return 0
	}
	return max(time.Since(op.claim.heard), 0)
}

// IDOf returns the ID of the key of the operation that ctx belongs to, for logs. It is false outside of one.
func IDOf(ctx context.Context) (ID, bool) {
	if op := operationOf(ctx); op != nil {
		return op.claim.id, true
	}
	return ID{}, false
}

// Derive returns the key of a part of the operation that ctx belongs to: the same on every run of it, and no
// key that a caller can send. Parts of equal name have equal keys.
func Derive(ctx context.Context, name string) (Key, error) {
	op := operationOf(ctx)
	if op == nil {
		return Key{}, ErrNoOperation
	}
	return op.claim.key.derive(name), nil
}

// Step runs fn at most once within the operation that ctx belongs to and keeps its value under a derived key,
// so that a re-run of the operation resumes behind it. A step is an effect: it calls [Act] for the operation first. An
// error of fn leaves the step unknown unless it wraps [ErrDidNothing], as in [Executor.Do].
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	key, err := Derive(ctx, name)
	if err != nil {
		var zero T
		return zero, err
	}
	if err := Act(ctx); err != nil {
		var zero T
		return zero, err
	}
	v, _, err := Do(ctx, operationOf(ctx).executor, key, FingerprintOf([]byte(name)), nil, fn)
	return v, err
}
