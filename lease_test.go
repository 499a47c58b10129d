package retrysafe_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// While an operation runs its lease is kept alive; however it ends, its outcome is recorded.

// TestHeartbeat is TO-4 and CR-1: a lease of seconds carries an operation of minutes.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: 3 * time.Second})
		r := l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			for range 600 {
				advance(time.Second)
				if got := l.standing(t, order); got != retrysafe.InFlight {
					t.Fatalf("state is %v while the operation runs", got)
				}
			}
			return paid(ctx)
		})
		if r.Err != nil || l.store.count("swap") != 600+1 {
			t.Errorf("%d swaps and error %v, want an extension each second and one record", l.store.count("swap"), r.Err)
		}
		l.store.reset()
		advance(time.Hour)
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls after the operation, want none", n)
		}
	})
}

// TestHeartbeatStopsAtMaxRun: an operation that hangs does not hold its key for ever. It may still complete.
func TestHeartbeatStopsAtMaxRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{MaxRun: 5 * time.Minute})
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			advance(5 * time.Minute)
			l.wantState(t, retrysafe.InFlight)
			advance(31 * time.Second)
			l.wantState(t, retrysafe.Unknown)
			_, err := l.Do(t.Context(), order, payload, never(t))
			wantErr(t, "Do", err, retrysafe.ErrUnknownOutcome)
			return paid(ctx)
		})
		l.wantState(t, retrysafe.Completed)
	})
}

// TestHeartbeatThroughAnOutage: a store that is down for a while is asked again before the lease ends.
func TestHeartbeatThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			l.store.hook(down)
			advance(25 * time.Second)
			l.store.hook(nil)
			advance(10 * time.Second)
			l.wantState(t, retrysafe.InFlight)
			return paid(ctx)
		})
	})
}

// TestHeartbeatAfterTheLeaseEnded: this process slept, nobody met the claim, and it goes on.
func TestHeartbeatAfterTheLeaseEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			l.store.hook(down)
			advance(time.Minute)
			l.wantState(t, retrysafe.Unknown) // by the clock; nothing is written
			l.store.hook(nil)
			advance(5 * time.Second)
			l.wantState(t, retrysafe.InFlight)
			return paid(ctx)
		})
	})
}

// TestHeartbeatAfterItWasDeclaredOver: it stops, the operation goes on, and its record still counts.
func TestHeartbeatAfterItWasDeclaredOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			l.store.hook(down)
			advance(time.Minute)
			l.store.hook(nil)
			l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
			advance(time.Minute)
			l.wantState(t, retrysafe.Unknown)
			if ctx.Err() != nil {
				t.Errorf("the operation's ctx ended: %v", context.Cause(ctx))
			}
			return paid(ctx)
		})
		l.wantState(t, retrysafe.Completed)
	})
}

// TestClaimLostUnderway: an operator, or another attempt, decided over a running operation. Its ctx ends with the
// reason, and it may write nothing more.
func TestClaimLostUnderway(t *testing.T) {
	tests := []struct {
		name  string
		act   func(t *testing.T, l *lab)
		state retrysafe.State
	}{
		{"forgotten by force", func(t *testing.T, l *lab) {
			if _, err := l.Forget(t.Context(), order.ID(), "ann", "stuck", true); err != nil {
				t.Errorf("Forget: %v", err)
			}
		}, retrysafe.Free},
		{"resolved by force", func(t *testing.T, l *lab) {
			if _, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, By: "ann", Why: "stuck", Force: true}); err != nil {
				t.Errorf("Resolve: %v", err)
			}
		}, retrysafe.Completed},
		{"taken over while this process slept", func(t *testing.T, l *lab) {
			l.store.hook(down)
			advance(time.Minute)
			l.store.hook(nil)
			l.mustClaim(t, rerun, retrysafe.TookOver)
		}, retrysafe.InFlight},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
				r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					tt.act(t, l)
					acted := time.Now()
					<-ctx.Done()
					if cause := context.Cause(ctx); cause != retrysafe.ErrClaimLost {
						t.Errorf("the ctx ended with %v, want %v", cause, retrysafe.ErrClaimLost)
					}
					if took := time.Since(acted); took > 10*time.Second {
						t.Errorf("the ctx ended after %v, want within a third of the lease", took)
					}
					return paid(ctx)
				})
				wantErr(t, "Do", err, retrysafe.ErrClaimLost)
				wantErr(t, "Result", r.Err, retrysafe.ErrClaimLost)
				if string(r.Answer) != "paid" {
					t.Errorf("answer %q, want the operation's own", r.Answer)
				}
				l.wantState(t, tt.state)
			})
		})
	}
}

// TestHowOperationsEnd is CR-5, CR-7 and CR-13: every end of an operation ends its claim.
func TestHowOperationsEnd(t *testing.T) {
	tests := []struct {
		name  string
		op    op
		state retrysafe.State
		again error // what the next attempt is told; nil where it may run
	}{
		{"an error", func(context.Context) ([]byte, error) { return nil, errBlip }, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
		{"an error beside an answer", func(context.Context) ([]byte, error) { return []byte("half"), errBlip }, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
		{"nothing happened", didNothing, retrysafe.Absent, nil},
		{"a panic", func(context.Context) ([]byte, error) { panic(errBlip) }, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
		{"a panic with ErrDidNothing", func(context.Context) ([]byte, error) { panic(retrysafe.ErrDidNothing) }, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
		{"Goexit", func(context.Context) ([]byte, error) { runtime.Goexit(); return nil, nil }, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					defer func() { recover() }()
					if _, err := l.Do(t.Context(), order, payload, tt.op); err == nil {
						t.Error("Do: no error")
					}
				}()
				<-ended
				l.wantState(t, tt.state)
				advance(time.Hour) // well beyond the lease: nothing keeps it alive
				l.wantState(t, tt.state)
				if tt.again == nil {
					l.mustDo(t, paid)
					return
				}
				_, err := l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do again", err, tt.again)
			})
		})
	}
}

// TestPanicGoesOn to whoever called Do, after its record.
func TestPanicGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		got := panicOf(func() {
			l.Do(t.Context(), order, payload, func(context.Context) ([]byte, error) { panic("out of paper") })
		})
		if got != "out of paper" {
			t.Errorf("Do panicked with %v, want the operation's own panic", got)
		}
		l.wantState(t, retrysafe.Unknown)
	})
}

// TestCallerHangsUp is CR-8 and rule 10, before, during and after the operation.
func TestCallerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		ctx, hangUp := context.WithCancel(t.Context())
		hangUp()
		_, err := l.Do(ctx, order, payload, never(t))
		wantErr(t, "Do, hung up before", err, context.Canceled)
		wantErr(t, "Do, hung up before", err, retrysafe.ErrStore)
		advance(time.Minute)
		l.wantState(t, retrysafe.Absent)

		ctx, hangUp = context.WithCancel(t.Context())
		r, err := l.Do(ctx, order, payload, func(ctx context.Context) ([]byte, error) {
			hangUp()
			<-ctx.Done()
			<-time.After(45 * time.Second) // it had acted already, and its lease is kept alive
			return []byte("paid"), nil
		})
		if err != nil || r.Err != nil {
			t.Errorf("Do, hung up during: %v, %v, want its record", err, r.Err)
		}
		l.wantState(t, retrysafe.Completed)
		if r := l.mustDo(t, never(t)); string(r.Answer) != "paid" {
			t.Errorf("replay of %q, want %q", r.Answer, "paid")
		}
	})
}

// TestOperationOutlivesItsLeaseAndFails is CR-10: what it leaves expires after its end, not after its claim.
func TestOperationOutlivesItsLeaseAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: time.Hour, MaxRun: time.Minute})
		req := retrysafe.Request{Key: order, Fingerprint: payload}
		_, err := l.Execute(t.Context(), req, func(context.Context) retrysafe.Outcome {
			advance(3 * time.Hour)
			return retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: []byte("500")}
		})
		if err != nil {
			t.Fatalf("Execute: %v", err)
		}
		advance(time.Hour - time.Second)
		_, err = l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do within retention", err, retrysafe.ErrFailed)
		advance(time.Second)
		_, err = l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do after retention", err, retrysafe.ErrExpired)
	})
}

// TestExtensionAfterTheEnd: a heartbeat that was about to beat when the operation ended comes behind its record. It
// must not bring the claim back to life: the operation would run again, or be held unknown, though it is recorded.
func TestExtensionAfterTheEnd(t *testing.T) {
	tests := []struct {
		name string
		out  retrysafe.Outcome
		want retrysafe.State
		err  error
	}{
		{"completed", completed, retrysafe.Completed, retrysafe.ErrClaimLost},
		{"failed", failedOnce, retrysafe.UnknownAnswered, retrysafe.ErrClaimLost},
		{"no answer", retrysafe.Outcome{}, retrysafe.Unknown, retrysafe.ErrUnknownOutcome},
		{"released", retrysafe.Outcome{State: retrysafe.Free}, retrysafe.Absent, retrysafe.ErrClaimLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				c := l.mustClaim(t, hold, retrysafe.Won)
				l.settle(t, c, tt.out)
				wantErr(t, "Extend", l.claims.Extend(t.Context(), c), tt.err)
				l.wantState(t, tt.want)
			})
		})
	}
}

// TestSettledOnce: what an owner recorded it cannot record otherwise.
func TestSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		c := l.mustClaim(t, hold, retrysafe.Won)
		l.settle(t, c, completed)
		before, _ := l.fetch(t, order)
		for _, out := range []retrysafe.Outcome{completed, failedOnce, {}, {State: retrysafe.Free}} {
			advance(time.Second)
			l.claims.Settle(t.Context(), c, out)
			after, found := l.fetch(t, order)
			if !found || after.State != retrysafe.Completed || !after.Stamp.Equal(before.Stamp) {
				t.Fatalf("after Settle(%v) %v stands, stamped %v later; want the first record untouched", out.State, after.State, after.Stamp.Sub(before.Stamp))
			}
		}
	})
}

// TestOnlyOwnersWrite: a claim that was answered by what stands owns nothing, and says so at once.
func TestOnlyOwnersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustClaim(t, hold, retrysafe.Won)
		before, _ := l.fetch(t, order)
		busy := l.mustClaim(t, hold, retrysafe.Busy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantErr(t, "Settle", l.claims.Settle(ctx, busy, completed), retrysafe.ErrClaimLost)
		wantErr(t, "Extend", l.claims.Extend(ctx, busy), retrysafe.ErrClaimLost)
		if after, _ := l.fetch(t, order); after.Rev != before.Rev {
			t.Error("somebody who owns nothing wrote")
		}
	})
}
