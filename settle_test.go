package retrysafe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Operations that record their outcome before they return, and such as outlive their caller.

// TestSettleBeforeTheEnd: what the operation recorded stands, however it goes on and however it ends.
func TestSettleBeforeTheEnd(t *testing.T) {
	ends := map[string]func() retrysafe.Outcome{
		"another answer": func() retrysafe.Outcome {
			return retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("another")}
		},
		"nothing happened":  func() retrysafe.Outcome { return retrysafe.Outcome{State: retrysafe.Free} },
		"nobody knows":      func() retrysafe.Outcome { return retrysafe.Outcome{} },
		"it panics":         func() retrysafe.Outcome { panic("broken pipe") },
		"it settles again":  nil,
		"it takes an hour":  func() retrysafe.Outcome { advance(time.Hour); return retrysafe.Outcome{} },
		"and so says again": func() retrysafe.Outcome { return completed },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				var r retrysafe.Result
				panicOf(func() {
					r, _ = l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, func(ctx context.Context) retrysafe.Outcome {
						wantErr(t, "Settle", retrysafe.Settle(ctx, completed), nil)
						l.mustDo(t, never(t)) // before it returns
						advance(time.Minute)
						if ctx.Err() != nil {
							t.Errorf("the ctx of an operation that has settled ended: %v", context.Cause(ctx))
						}
						if end == nil {
							wantErr(t, "Settle again", retrysafe.Settle(ctx, failedOnce), nil)
							return failedOnce
						}
						return end()
					})
				})
				if name != "it panics" && (r.State != retrysafe.Completed || string(r.Answer) != "paid" || r.Err != nil) {
					t.Errorf("result %v %q %v, want what was settled", r.State, r.Answer, r.Err)
				}
				l.wantState(t, retrysafe.Completed)
				if again := l.mustDo(t, never(t)); string(again.Answer) != "paid" {
					t.Errorf("replay of %q, want %q", again.Answer, "paid")
				}
			})
		})
	}
}

// TestSettleThatTheStoreDoesNotTake goes on in the background like any record.
func TestSettleThatTheStoreDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		r, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, func(ctx context.Context) retrysafe.Outcome {
			l.store.hook(down)
			wantErr(t, "Settle", retrysafe.Settle(ctx, completed), retrysafe.ErrUnrecorded)
			return retrysafe.Outcome{}
		})
		wantErr(t, "Execute", err, nil)
		wantErr(t, "Result", r.Err, retrysafe.ErrUnrecorded)
		l.store.hook(nil)
		advance(10 * time.Second)
		l.wantState(t, retrysafe.Completed)
	})
}

func TestSettleOutsideOfAnOperation(t *testing.T) {
	wantErr(t, "Settle", retrysafe.Settle(t.Context(), completed), retrysafe.ErrNoOperation)
}

// TestDetachedOperation goes on when its caller hangs up, and ends when its claim is lost.
func TestDetachedOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		type name struct{}
		ctx, hangUp := context.WithCancel(context.WithValue(t.Context(), name{}, "ann"))
		req := retrysafe.Request{Key: order, Fingerprint: payload, Detached: true}
		r, err := l.Execute(ctx, req, func(ctx context.Context) retrysafe.Outcome {
			hangUp()
			advance(time.Minute)
			if ctx.Err() != nil || ctx.Value(name{}) != "ann" {
				t.Errorf("ctx after the caller hung up: %v, value %v; want it whole", ctx.Err(), ctx.Value(name{}))
			}
			if _, err := l.Forget(t.Context(), order.ID(), "ann", "stuck", true); err != nil {
				t.Errorf("Forget: %v", err)
			}
			advance(11 * time.Second)
			if context.Cause(ctx) != retrysafe.ErrClaimLost {
				t.Errorf("ctx after the claim was lost: %v, want %v", context.Cause(ctx), retrysafe.ErrClaimLost)
			}
			return completed
		})
		wantErr(t, "Execute", err, nil)
		wantErr(t, "Result", r.Err, retrysafe.ErrClaimLost)
		_, err = l.Execute(ctx, req, func(context.Context) retrysafe.Outcome {
			t.Error("an operation began for a caller who had hung up")
			return completed
		})
		wantErr(t, "Execute, hung up before", err, context.Canceled)
	})
}
