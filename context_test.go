package retrysafe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What the context of an operation says of its end, also to who never asked before (see TestBoundedContextEnds).

type traceKey struct{}

// wantContext checks how a context has ended; err and cause are nil where it has not.
func wantContext(t *testing.T, ctx context.Context, err, cause error) {
	t.Helper()
	if ctx.Err() != err || context.Cause(ctx) != cause {
		t.Errorf("Err %v, Cause %v, want %v, %v", ctx.Err(), context.Cause(ctx), err, cause)
	}
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	if child.Err() != err || context.Cause(child) != cause {
		t.Errorf("of a child: Err %v, Cause %v, want %v, %v", child.Err(), context.Cause(child), err, cause)
	}
	select {
	case <-ctx.Done():
		if err == nil {
			t.Error("Done is closed")
		}
	default:
		if err != nil {
			t.Error("Done is open")
		}
	}
	if got := ctx.Value(traceKey{}); got != "caller's" {
		t.Errorf("Value is %v, want the caller's", got)
	}
}

func TestContextOfAnOperation(t *testing.T) {
	tests := []struct {
		name                string
		detached            bool
		asked               bool // for Done, before anything happens
		happens             func(t *testing.T, l *lab, hangUp context.CancelFunc)
		err, cause          error // while it runs
		after, causeOfAfter error
	}{
		{"nothing happens", false, false, nil, nil, nil, context.Canceled, context.Canceled},
		{"nothing happens, Done asked", false, true, nil, nil, nil, context.Canceled, context.Canceled},
		{"the claim is lost", false, false, lose, context.Canceled, retrysafe.ErrClaimLost, context.Canceled, retrysafe.ErrClaimLost},
		{"the claim is lost, Done asked", false, true, lose, context.Canceled, retrysafe.ErrClaimLost, context.Canceled, retrysafe.ErrClaimLost},
		{"the caller hangs up", false, false, leave, context.Canceled, context.Canceled, context.Canceled, context.Canceled},
		{"the caller hangs up, Done asked", false, true, leave, context.Canceled, context.Canceled, context.Canceled, context.Canceled},
		{"the caller of a detached one hangs up", true, false, leave, nil, nil, context.Canceled, context.Canceled},
		{"the caller of a detached one hangs up, Done asked", true, true, leave, nil, nil, context.Canceled, context.Canceled},
		{"the claim of a detached one is lost", true, false, lose, context.Canceled, retrysafe.ErrClaimLost, context.Canceled, retrysafe.ErrClaimLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				caller, hangUp := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "caller's"))
				defer hangUp()
				var left context.Context
				_, err := l.Execute(caller, retrysafe.Request{Key: order, Fingerprint: payload, Detached: tt.detached}, func(ctx context.Context) retrysafe.Outcome {
					left = ctx
					if tt.asked {
						ctx.Done()
					}
					if tt.happens != nil {
						tt.happens(t, l, hangUp)
					}
					wantContext(t, ctx, tt.err, tt.cause)
					if id, ok := retrysafe.IDOf(ctx); !ok || id != order.ID() {
						t.Errorf("IDOf: %v, %v, want the operation's", id, ok)
					}
					return completed
				})
				wantErr(t, "Execute", err, nil)
				wantContext(t, left, tt.after, tt.causeOfAfter)
			})
		})
	}
}

// lose has an operator decide over the claim, and a heartbeat find it.
func lose(t *testing.T, l *lab, _ context.CancelFunc) {
	if _, err := l.Forget(t.Context(), order.ID(), "ann", "stuck", true); err != nil {
		t.Errorf("Forget: %v", err)
	}
	advance(10 * time.Second)
	synctest.Wait()
}

func leave(_ *testing.T, _ *lab, hangUp context.CancelFunc) { hangUp() }
