package retrysafe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Two-step policies: an operation says durably that it acts, and a claim under which nobody said so holds nothing up.

// pastLease is when the lease of every test's policy has ended, whatever the steps of the store's clock.
const pastLease = 30*time.Second + time.Millisecond

// twoStep is p with two steps.
func twoStep(p retrysafe.Policy) retrysafe.Policy {
	p.TwoStep = true
	return p
}

// acts marks c.
func (l *lab) acts(t *testing.T, c *retrysafe.Claim) {
	t.Helper()
	wantErr(t, "Act", l.claims.Act(t.Context(), c), nil)
}

// inTwoSteps runs op under order and a two-step policy.
func (l *lab) inTwoSteps(t *testing.T, op func(context.Context) retrysafe.Outcome) (retrysafe.Result, error) {
	t.Helper()
	p := twoStep(hold)
	return l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload, Policy: &p}, op)
}

// TestDeathBeforeAndAfterActing: before, the next claim is the first; after, the policy decides as it does without two
// steps. That is so whether the sweeper has passed or not, and whether the lease ended or the owner is known to be gone.
func TestDeathBeforeAndAfterActing(t *testing.T) {
	after := map[retrysafe.LeaseEnd]retrysafe.Verdict{retrysafe.Hold: retrysafe.OutcomeUnknown, retrysafe.Rerun: retrysafe.TookOver, retrysafe.Recover: retrysafe.Recovering}
	ends := map[string]func(t *testing.T, l *lab) *lab{
		"lease over": func(t *testing.T, l *lab) *lab { advance(pastLease); return l },
		"lease over, swept": func(t *testing.T, l *lab) *lab {
			advance(pastLease)
			l.Sweep(t.Context())
			return l
		},
		"process ended":        func(t *testing.T, l *lab) *lab { return endProcess(t, l, order, nil) },
		"process ended, swept": func(t *testing.T, l *lab) *lab { l = endProcess(t, l, order, nil); l.Sweep(t.Context()); return l },
	}
	for _, p := range []retrysafe.Policy{hold, rerun, recovered} {
		for name, end := range ends {
			for _, acted := range []bool{false, true} {
				t.Run(p.OnLeaseEnd.String()+", "+name+map[bool]string{true: ", acted"}[acted], func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newLab(t, nil)
						dead, want := l.mustClaim(t, twoStep(p), retrysafe.Won), retrysafe.Won
						if acted {
							l.acts(t, dead)
							want = after[p.OnLeaseEnd]
						}
						l = end(t, l)
						next := l.mustClaim(t, p, want)
						if next.Owned() && next.Epoch() <= dead.Epoch() {
							t.Errorf("epoch %d, want more than the dead owner's %d", next.Epoch(), dead.Epoch())
						}
					})
				})
			}
		}
	}
}

// TestBornMarked: who takes over a claim that had acted may die before it acts itself, and that frees nothing.
func TestBornMarked(t *testing.T) {
	for _, tt := range []struct {
		dead retrysafe.Policy
		over retrysafe.Verdict
	}{{rerun, retrysafe.TookOver}, {recovered, retrysafe.Recovering}, {twoStep(rerun), retrysafe.TookOver}, {twoStep(recovered), retrysafe.Recovering}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, nil)
			l.acts(t, l.mustClaim(t, tt.dead, retrysafe.Won))
			advance(pastLease)
			l.mustClaim(t, twoStep(hold), tt.over)
			advance(pastLease)
			l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
		})
	}
}

// TestWordOfAnOperationThatDidNotAct: what it says counts, and only its silence is read as nothing.
func TestWordOfAnOperationThatDidNotAct(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   func(context.Context) retrysafe.Outcome
		want retrysafe.State
	}{
		{"nobody knows", func(context.Context) retrysafe.Outcome { return retrysafe.Outcome{} }, retrysafe.Unknown},
		{"a panic", func(context.Context) retrysafe.Outcome { panic("out of paper") }, retrysafe.Unknown},
		{"done", func(context.Context) retrysafe.Outcome { return completed }, retrysafe.Completed},
		{"nothing happened", func(context.Context) retrysafe.Outcome { return retrysafe.Outcome{State: retrysafe.Free} }, retrysafe.Absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				panicOf(func() { l.inTwoSteps(t, tt.op) })
				advance(pastLease)
				l.Sweep(t.Context())
				l.wantState(t, tt.want)
			})
		})
	}
}

// TestFingerprintOfWhatDidNotAct: nothing is bound to it, as little before the sweeper passes as after.
func TestFingerprintOfWhatDidNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustClaim(t, twoStep(hold), retrysafe.Won)
		_, err := l.Do(t.Context(), order, other, never(t))
		wantErr(t, "another operation within the lease", err, retrysafe.ErrMismatch)
		advance(pastLease)
		r, err := l.Do(t.Context(), order, other, paid)
		if err != nil || r.Verdict != retrysafe.Won {
			t.Errorf("another operation after it: %v, %v, want won", r.Verdict, err)
		}
	})
}

// TestStepActs: a step that a re-run would find done is an effect of the operation.
func TestStepActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.inTwoSteps(t, func(ctx context.Context) retrysafe.Outcome {
			_, err := retrysafe.Step(ctx, "charge", func(context.Context) (int, error) {
				if rec, err := l.Inspect(ctx, order.ID()); err != nil || !rec.Acted {
					t.Errorf("within the step: the operation has acted: %v, %v, want true", rec.Acted, err)
				}
				return 1, nil
			})
			wantErr(t, "Step", err, nil)
			lose(t, l, nil)
			_, err = retrysafe.Step(ctx, "mail", func(context.Context) (int, error) {
				t.Error("a step ran when the claim was lost")
				return 1, nil
			})
			wantErr(t, "Step when the claim is lost", err, retrysafe.ErrClaimLost)
			return completed
		})
	})
}

// TestRecoveryAnsweredAfterItsLease: the claim that recovers was written and not answered for so long that another one
// declared it over. Written once more it is still marked, and still speaks of the owner that is gone.
func TestRecoveryAnsweredAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		lapse(recovered)(t, l)
		p := twoStep(hold)
		p.Lease = 2 * time.Second
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if c.verb != "swap" {
				return do()
			}
			l.store.hook(nil)
			rep, err := answerLost(c, do)
			advance(3 * time.Second)
			l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
			return rep, err
		})
		asked := false
		req := retrysafe.Request{Key: order, Fingerprint: payload, Policy: &p}
		req.Recover = func(ctx context.Context, _ retrysafe.Key) (retrysafe.Outcome, error) {
			asked = true
			wantQuiet(t, retrysafe.QuietOf(ctx), recovered.Lease+time.Millisecond+3*time.Second)
			if rec, err := l.Inspect(ctx, order.ID()); err != nil || !rec.Acted || rec.State != retrysafe.InFlight {
				t.Errorf("Inspect: %v, acted %v, %v, want in flight, true", rec.State, rec.Acted, err)
			}
			return completed, nil
		}
		if _, err := l.Execute(t.Context(), req, nil); err != nil || !asked {
			t.Errorf("Execute: %v, recovery asked: %v", err, asked)
		}
	})
}

// TestInspectWhatDidNotAct: operators see that the lease is over and that nothing is to be found out.
func TestInspectWhatDidNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		lapse(twoStep(hold))(t, l)
		rec, err := l.Inspect(t.Context(), order.ID())
		if err != nil || rec.State != retrysafe.InFlight || rec.Acted || rec.Reason != "lease over before it acted" || rec.Expires.After(time.Now()) {
			t.Errorf("Inspect: %+v, %v, want in flight, over, not acted", rec, err)
		}
		if unknown, _, err := l.List(t.Context(), retrysafe.Filter{State: retrysafe.Unknown}); err != nil || len(unknown) > 0 {
			t.Errorf("List of what is unknown: %+v, %v, want nothing", unknown, err)
		}
	})
}
