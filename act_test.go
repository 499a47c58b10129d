package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
)

// Act: what an operation is told, and what stands then.

func TestActIsDurableWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		_, err := l.inTwoSteps(t, func(ctx context.Context) retrysafe.Outcome {
			written, returned := make(chan struct{}), make(chan error, 1)
			l.store.hook(func(_ call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
				<-written
				return do()
			})
			go func() { returned <- retrysafe.Act(ctx) }()
			synctest.Wait()
			select {
			case err := <-returned:
				t.Errorf("Act: %v before the store has written", err)
			default:
			}
			close(written)
			synctest.Wait()
			if rec, err := l.Inspect(ctx, order.ID()); err != nil || !rec.Acted {
				t.Errorf("Inspect: acted %v, %v, want true", rec.Acted, err)
			}
			wantErr(t, "Act", <-returned, nil)
			return completed
		})
		wantErr(t, "Execute", err, nil)
	})
}

func TestActCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		wantErr(t, "Act outside of an operation", retrysafe.Act(t.Context()), retrysafe.ErrNoOperation)
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			l.store.reset()
			wantErr(t, "Act without two steps", retrysafe.Act(ctx), nil)
			if n := l.store.count(); n != 0 {
				t.Errorf("Act without two steps: %d calls of the store, want none", n)
			}
			return nil, nil
		})
	})
}

func TestActTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.inTwoSteps(t, func(ctx context.Context) retrysafe.Outcome {
			l.store.reset()
			wantErr(t, "Act", retrysafe.Act(ctx), nil)
			wantErr(t, "second Act", retrysafe.Act(ctx), nil)
			if n := l.store.count("swap"); n != 1 || l.store.count() != 1 {
				t.Errorf("Act twice: %d swaps of %d calls, want 1 of 1", n, l.store.count())
			}
			lose(t, l, nil)
			wantErr(t, "Act when the claim is known to be lost", retrysafe.Act(ctx), retrysafe.ErrClaimLost)
			return completed
		})
	})
}

// TestActWhoseAnswerIsLost: the store recognises its write again; without any answer the operation must not act, and
// whatever stands then, it may ask again.
func TestActWhoseAnswerIsLost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		times  int
		around hook
		err    error
		acted  bool
	}{
		{"one answer", 1, answerLost, nil, true},
		{"two answers", 2, answerLost, nil, true},
		{"every answer", 3, answerLost, retrysafe.ErrStore, true},
		{"nothing is written", 3, down, retrysafe.ErrStore, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.inTwoSteps(t, func(ctx context.Context) retrysafe.Outcome {
					lost := 0
					l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
						if lost++; lost <= tt.times {
							return tt.around(c, do)
						}
						return do()
					})
					wantErr(t, "Act", retrysafe.Act(ctx), tt.err)
					if rec, err := l.Inspect(ctx, order.ID()); err != nil || rec.Acted != tt.acted {
						t.Errorf("Inspect: acted %v, %v, want %v", rec.Acted, err, tt.acted)
					}
					advance(pastLease) // a heartbeat finds what stands, and keeps it
					wantErr(t, "next Act", retrysafe.Act(ctx), nil)
					advance(pastLease)
					if rec, err := l.Inspect(ctx, order.ID()); err != nil || !rec.Acted || rec.State != retrysafe.InFlight {
						t.Errorf("Inspect: %v, acted %v, %v, want in flight, true", rec.State, rec.Acted, err)
					}
					return completed
				})
				l.wantState(t, retrysafe.Completed)
			})
		})
	}
}

// TestActOfALateOwner: it slept over the end of its lease. It may act while nobody wrote, and never once somebody did.
func TestActOfALateOwner(t *testing.T) {
	forgotten := func(t *testing.T, l *lab) { // so that the key has a history
		l.mustClaim(t, hold, retrysafe.Won)
		if _, err := l.Forget(t.Context(), order.ID(), "ann", "a test", true); err != nil {
			t.Fatalf("Forget: %v", err)
		}
	}
	swept := func(t *testing.T, l *lab) {
		if n, err := l.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("Sweep: %d, %v, want 1", n, err)
		}
	}
	for _, tt := range []struct {
		name          string
		before, after func(t *testing.T, l *lab)
		err           error
		state         retrysafe.State // if the owner says afterwards that it is done
	}{
		{"nobody wrote", nil, nil, nil, retrysafe.Completed},
		{"claimed again", nil, func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.Won) }, retrysafe.ErrClaimLost, retrysafe.InFlight},
		{"swept", nil, swept, retrysafe.ErrClaimLost, retrysafe.Absent},
		{"swept, and its history kept", forgotten, swept, retrysafe.ErrClaimLost, retrysafe.Free},
		{"forgotten", nil, func(t *testing.T, l *lab) { l.Forget(t.Context(), order.ID(), "ann", "a test", false) }, retrysafe.ErrClaimLost, retrysafe.Free},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				if tt.before != nil {
					tt.before(t, l)
				}
				r, err := l.inTwoSteps(t, func(ctx context.Context) retrysafe.Outcome {
					l.store.hook(down) // as far as the store sees, it sleeps
					advance(pastLease)
					l.store.hook(nil)
					if tt.after != nil {
						tt.after(t, l)
					}
					wantErr(t, "Act", retrysafe.Act(ctx), tt.err)
					if lost := errors.Is(context.Cause(ctx), retrysafe.ErrClaimLost); ctx.Err() == nil && tt.err != nil || lost != (tt.err != nil) {
						t.Errorf("context: %v, cause %v, lost want %v", ctx.Err(), context.Cause(ctx), tt.err != nil)
					}
					return completed
				})
				wantErr(t, "Execute", err, nil)
				wantErr(t, "record", r.Err, tt.err)
				l.wantState(t, tt.state)
			})
		})
	}
}

// TestActOfWhatIsHeld: whoever decides may have looked already whether it happened. The operation may still say that it
// did nothing.
func TestActOfWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		lapse(rerun)(t, l)
		second := l.mustClaim(t, twoStep(hold), retrysafe.TookOver)
		advance(pastLease)
		l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
		wantErr(t, "Act", l.claims.Act(t.Context(), second), retrysafe.ErrUnknownOutcome)
		l.wantState(t, retrysafe.Unknown)
		wantErr(t, "Settle", l.claims.Settle(t.Context(), second, retrysafe.Outcome{State: retrysafe.Free}), nil)
		l.wantState(t, retrysafe.Absent)
	})
}
