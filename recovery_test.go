package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What becomes of a key whose owner died: held, run again, or recovered. The policy stored with the claim decides.

// TestLeaseEnd is CR-1: the owner died; after its lease the policy answers, not a conflict for a day.
func TestLeaseEnd(t *testing.T) {
	tests := []struct {
		name    string
		policy  retrysafe.Policy // of the dead owner
		o       retrysafe.Options
		runs    int
		verdict retrysafe.Verdict
		err     error
		after   retrysafe.State
	}{
		{"hold", hold, retrysafe.Options{}, 0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"rerun", rerun, retrysafe.Options{}, 1, retrysafe.TookOver, nil, retrysafe.Completed},
		{"recover, it happened", recovered, recovering(retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid before")}, nil),
			0, retrysafe.Replay, nil, retrysafe.Completed},
		{"recover, it happened and the answer is lost", recovered, recovering(retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}, nil),
			0, retrysafe.Replay, retrysafe.ErrAnswerNotKept, retrysafe.Completed},
		{"recover, it failed", recovered, recovering(retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: []byte("500")}, nil),
			0, retrysafe.Replay, retrysafe.ErrFailed, retrysafe.UnknownAnswered},
		{"recover, it did not happen", recovered, recovering(retrysafe.Outcome{State: retrysafe.Free}, nil),
			1, retrysafe.Won, nil, retrysafe.Completed},
		{"recover, nobody knows", recovered, recovering(retrysafe.Outcome{}, nil),
			0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"recover, the question fails", recovered, recovering(retrysafe.Outcome{State: retrysafe.Free}, errBlip),
			0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"recover, and this process cannot ask", recovered, retrysafe.Options{}, 0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"hold, whatever the retry's own policy", hold, retrysafe.Options{OnLeaseEnd: retrysafe.Rerun}, 0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"hold, though this process can ask", hold, recovering(retrysafe.Outcome{State: retrysafe.Free}, nil), 0, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &tt.o)
				dead := l.mustClaim(t, tt.policy, retrysafe.Won)
				advance(tt.policy.Lease - time.Microsecond)
				_, err := l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do in the last microsecond of the lease", err, retrysafe.ErrInFlight)
				advance(time.Microsecond)
				ran := 0
				r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					ran++
					return paid(ctx)
				})
				wantErr(t, "Do", err, tt.err)
				if r.Verdict != tt.verdict || ran != tt.runs {
					t.Errorf("Do: verdict %v, ran %d times; want %v, %d", r.Verdict, ran, tt.verdict, tt.runs)
				}
				if took := r.Verdict == retrysafe.TookOver || tt.runs == 1; took && r.Epoch <= dead.Epoch() {
					t.Errorf("epoch %d, want more than the dead owner's %d", r.Epoch, dead.Epoch())
				}
				l.wantState(t, tt.after)
			})
		})
	}
}

func recovering(out retrysafe.Outcome, err error) retrysafe.Options {
	return retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
		return out, err
	}}
}

// TestRecoveryIsAskedOfWhat: it gets the key in clear, a claim of its own with a new epoch, and nobody asks beside it.
func TestRecoveryIsAskedOfWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		dead := l.mustClaim(t, recovered, retrysafe.Won)
		advance(recovered.Lease)
		req := retrysafe.Request{Key: order, Fingerprint: payload}
		req.Recover = func(ctx context.Context, key retrysafe.Key) (retrysafe.Outcome, error) {
			if key != order {
				t.Errorf("recovery of %#v, want %#v", key, order)
			}
			if epoch := retrysafe.EpochOf(ctx); epoch <= dead.Epoch() {
				t.Errorf("recovery at epoch %d, want more than %d", epoch, dead.Epoch())
			}
			_, err := l.Do(ctx, order, payload, never(t))
			wantErr(t, "Do beside the recovery", err, retrysafe.ErrInFlight)
			<-time.After(2 * recovered.Lease) // kept alive like an operation
			wantErr(t, "late owner's Settle", l.claims.Settle(ctx, dead, completed), retrysafe.ErrClaimLost)
			return completed, ctx.Err()
		}
		r, err := l.Execute(t.Context(), req, func(context.Context) retrysafe.Outcome {
			t.Error("the operation ran")
			return retrysafe.Outcome{}
		})
		if err != nil || r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
			t.Errorf("Execute: %v %q %v, want replay of %q", r.Verdict, r.Answer, err, "paid")
		}
	})
}

// TestRecoveryThatPanics leaves the outcome unknown, to be asked for again.
func TestRecoveryThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
			if asked++; asked == 1 {
				panic("no route to bank")
			}
			return completed, nil
		}})
		lapse(recovered)(t, l)
		if got := panicOf(func() { l.Do(t.Context(), order, payload, never(t)) }); got != "no route to bank" {
			t.Errorf("Do panicked with %v, want the panic of the recovery", got)
		}
		l.wantState(t, retrysafe.Unknown)
		if r := l.mustDo(t, never(t)); r.Verdict != retrysafe.Replay || asked != 2 {
			t.Errorf("Do: verdict %v after %d questions, want replay after 2", r.Verdict, asked)
		}
	})
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// TestRecoveryWhoseRecordIsLost is no answer: the store did not take what recovery found out.
func TestRecoveryWhoseRecordIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lab
		l = newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
			l.store.hook(down)
			time.AfterFunc(15*time.Second, func() { l.store.hook(nil) })
			return retrysafe.Outcome{State: retrysafe.Free}, nil
		}})
		lapse(recovered)(t, l)
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
		advance(10 * time.Second)
		l.wantState(t, retrysafe.Absent)
		l.mustDo(t, paid)
	})
}

// TestRecoveryFencedByAnOperator: what it found out is void.
func TestRecoveryFencedByAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lab
		l = newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: func(ctx context.Context, _ retrysafe.Key) (retrysafe.Outcome, error) {
			if _, err := l.Forget(ctx, order.ID(), "ann", "asked the bank", true); err != nil {
				t.Errorf("Forget: %v", err)
			}
			return completed, nil
		}})
		lapse(recovered)(t, l)
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrClaimLost)
		l.wantState(t, retrysafe.Free)
	})
}

// TestSecondDeathBehindARecovery: recovery says that it did not happen, another attempt is faster to claim, and
// dies too. Whoever meets that claim has to ask again before it may run.
func TestSecondDeathBehindARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Wait: time.Hour, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
			if asked++; asked == 1 {
				return retrysafe.Outcome{State: retrysafe.Free}, nil
			}
			return retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid by the second")}, nil
		}})
		lapse(recovered)(t, l)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			rep, err := do()
			if c.verb == "delete" {
				l.store.hook(nil)
				l.mustClaim(t, recovered, retrysafe.Won) // and is never heard of again
			}
			return rep, err
		})
		r := l.mustDo(t, never(t))
		if asked != 2 || string(r.Answer) != "paid by the second" {
			t.Errorf("recovery was asked %d times and the answer is %q, want 2 and the second's", asked, r.Answer)
		}
	})
}

// TestLateOwner: declared over but not decided, it may still complete, fail, hold and release (hold); not so once
// somebody else owns the key or decided.
func TestLateOwner(t *testing.T) {
	outcomes := []retrysafe.Outcome{completed, {State: retrysafe.UnknownAnswered, Answer: []byte("500")}, {Reason: "no answer"}, {State: retrysafe.Free}}
	want := []retrysafe.State{retrysafe.Completed, retrysafe.UnknownAnswered, retrysafe.Unknown, retrysafe.Absent}
	tests := []struct {
		name  string
		p     retrysafe.Policy
		after func(t *testing.T, l *lab)
		err   error
		state retrysafe.State // where err is not nil
	}{
		{"nobody met it", hold, func(*testing.T, *lab) {}, nil, 0},
		{"rerun, nobody met it", rerun, func(*testing.T, *lab) {}, nil, 0},
		{"a claim declared it over", hold, func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.OutcomeUnknown) }, nil, 0},
		{"the sweeper declared it over", hold, func(t *testing.T, l *lab) { l.Sweep(t.Context()) }, nil, 0},
		{"taken over", rerun, func(t *testing.T, l *lab) { l.mustClaim(t, rerun, retrysafe.TookOver) }, retrysafe.ErrClaimLost, retrysafe.InFlight},
		{"in recovery", recovered, func(t *testing.T, l *lab) { l.mustClaim(t, recovered, retrysafe.Recovering) }, retrysafe.ErrClaimLost, retrysafe.InFlight},
		{"resolved", hold, func(t *testing.T, l *lab) {
			l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, By: "ann", Why: "asked the bank"})
		}, retrysafe.ErrClaimLost, retrysafe.Completed},
		{"forgotten", hold, func(t *testing.T, l *lab) { l.Forget(t.Context(), order.ID(), "ann", "asked the bank", false) }, retrysafe.ErrClaimLost, retrysafe.Free},
	}
	for _, tt := range tests {
		for i, out := range outcomes {
			t.Run(tt.name+", then "+out.State.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, nil)
					owner := l.mustClaim(t, tt.p, retrysafe.Won)
					epoch := owner.Epoch()
					advance(tt.p.Lease + time.Hour)
					tt.after(t, l)
					err := l.claims.Settle(t.Context(), owner, out)
					if !errors.Is(err, tt.err) {
						t.Errorf("Settle: %v, want %v", err, tt.err)
					}
					if tt.err != nil {
						l.wantState(t, tt.state)
						return
					}
					l.wantState(t, want[i])
					if e, found := l.fetch(t, order); found && e.Epoch != epoch {
						t.Errorf("epoch is %d, want the owner's %d", e.Epoch, epoch)
					}
				})
			})
		}
	}
}
