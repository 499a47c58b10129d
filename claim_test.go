package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Two claims at once: one wins. What each verb costs is counted in calls of the store.

// hold is the policy of most claims that tests make by hand.
var hold = retrysafe.Policy{Lease: 30 * time.Second, Retention: 24 * time.Hour, Remember: 30 * 24 * time.Hour}

// rerun and recovered are hold with another end of the lease.
var (
	rerun     = retrysafe.Policy{OnLeaseEnd: retrysafe.Rerun, Lease: hold.Lease, Retention: hold.Retention, Remember: hold.Remember}
	recovered = retrysafe.Policy{OnLeaseEnd: retrysafe.Recover, Lease: hold.Lease, Retention: hold.Retention, Remember: hold.Remember}
)

// settle ends a claim made by hand.
func (l *lab) settle(t *testing.T, c *retrysafe.Claim, o retrysafe.Outcome) {
	t.Helper()
	if err := l.claims.Settle(t.Context(), c, o); err != nil {
		t.Fatalf("Settle(%v): %v", o.State, err)
	}
}

var completed = retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid")}

// TestOfManyAtOnceOneRuns is CC-1 and CC-8.
func TestOfManyAtOnceOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var ran, won, busy atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					ran.Add(1)
					<-time.After(200 * time.Millisecond)
					return paid(ctx)
				})
				switch {
				case err == nil && r.Verdict == retrysafe.Won:
					won.Add(1)
				case errors.Is(err, retrysafe.ErrInFlight) && r.Left > 0 && r.Left <= 30*time.Second:
					busy.Add(1)
				default:
					t.Errorf("Do: verdict %v with %v left, error %v", r.Verdict, r.Left, err)
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 || won.Load() != 1 || busy.Load() != 49 {
			t.Errorf("%d ran, %d won, %d were told it is in flight; want 1, 1, 49", ran.Load(), won.Load(), busy.Load())
		}
		if r := l.mustDo(t, never(t)); r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
			t.Errorf("Do afterwards: %v %q, want replay of %q", r.Verdict, r.Answer, "paid")
		}
	})
}

// TestKeysOfOneCallerRunSideBySide is CC-14.
func TestKeysOfOneCallerRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				key := retrysafe.Key{Scope: order.Scope, Name: fmt.Sprint("order-", i)}
				if _, err := l.Do(t.Context(), key, payload, slowly(time.Second)); err != nil {
					t.Errorf("Do(%v): %v", key, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("ten operations of a second each took %v, want 1s: they waited for each other", took)
		}
	})
}

// slowly is paid after d.
func slowly(d time.Duration) op {
	return func(ctx context.Context) ([]byte, error) {
		<-time.After(d)
		return paid(ctx)
	}
}

// TestStoreCalls holds rule 1: a fresh claim is one call, a replay one, a completion one, a takeover two.
func TestStoreCalls(t *testing.T) {
	claim := func(p retrysafe.Policy, want retrysafe.Verdict) func(*testing.T, *lab) {
		return func(t *testing.T, l *lab) { l.mustClaim(t, p, want) }
	}
	tests := []struct {
		name   string
		before func(*testing.T, *lab)
		do     func(*testing.T, *lab)
		want   int
	}{
		{"fresh claim", nil, claim(hold, retrysafe.Won), 1},
		{"claim in flight", claim(hold, retrysafe.Won), claim(hold, retrysafe.Busy), 1},
		{"first run: claim and completion", nil, func(t *testing.T, l *lab) { l.mustDo(t, paid) }, 2},
		{"replay", func(t *testing.T, l *lab) { l.mustDo(t, paid) }, func(t *testing.T, l *lab) { l.mustDo(t, never(t)) }, 1},
		{"mismatch", func(t *testing.T, l *lab) { l.mustDo(t, paid) }, func(t *testing.T, l *lab) {
			_, err := l.Do(t.Context(), order, other, never(t))
			wantErr(t, "Do", err, retrysafe.ErrMismatch)
		}, 1},
		{"takeover", lapse(rerun), claim(rerun, retrysafe.TookOver), 2},
		{"recovery", lapse(recovered), claim(recovered, retrysafe.Recovering), 2},
		{"lease over, the first that meets it", lapse(hold), claim(hold, retrysafe.OutcomeUnknown), 2},
		{"held", func(t *testing.T, l *lab) { lapse(hold)(t, l); l.mustClaim(t, hold, retrysafe.OutcomeUnknown) },
			claim(hold, retrysafe.OutcomeUnknown), 1},
		{"run and release", nil, func(t *testing.T, l *lab) {
			_, err := l.Do(t.Context(), order, payload, didNothing)
			wantErr(t, "Do", err, retrysafe.ErrDidNothing)
		}, 2},
		{"run of 25 s under a lease of 30 s", nil, func(t *testing.T, l *lab) { l.mustDo(t, slowly(25*time.Second)) }, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				if tt.before != nil {
					tt.before(t, l)
				}
				l.store.reset()
				tt.do(t, l)
				if got := l.store.count(); got != tt.want {
					t.Errorf("%d store calls %v, want %d", got, l.store.counts, tt.want)
				}
			})
		})
	}
}

// lapse claims order and lets its lease run out. Writes of one moment bear stamps a microsecond apart, hence the
// millisecond.
func lapse(p retrysafe.Policy) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) {
		t.Helper()
		l.mustClaim(t, p, retrysafe.Won)
		advance(p.Lease + time.Millisecond)
	}
}

// didNothing is an operation that knows that nothing happened.
func didNothing(context.Context) ([]byte, error) {
	return nil, fmt.Errorf("connect: %w", retrysafe.ErrDidNothing)
}

// TestClaimThatArrivesLateReplays is CC-2: between its start and its claim the first attempt ended.
func TestClaimThatArrivesLateReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var first atomic.Bool
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if c.verb == "create" && !first.Swap(true) {
				<-time.After(time.Second) // the claim of the second attempt is on its way
			}
			return do()
		})
		late := make(chan retrysafe.Result)
		go func() {
			r, err := l.Do(t.Context(), order, payload, never(t))
			if err != nil {
				t.Errorf("late Do: %v", err)
			}
			late <- r
		}()
		synctest.Wait()
		l.mustDo(t, paid)
		if r := <-late; r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
			t.Errorf("late Do: %v %q, want replay of %q", r.Verdict, r.Answer, "paid")
		}
	})
}

// TestTakeoverFromAStaleLook is CC-4: the owner completed between the look and the takeover.
func TestTakeoverFromAStaleLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
		owner := l.mustClaim(t, rerun, retrysafe.Won)
		advance(rerun.Lease)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if c.verb == "swap" {
				l.store.hook(nil)
				l.settle(t, owner, completed)
			}
			return do()
		})
		if r := l.mustDo(t, never(t)); r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
			t.Errorf("Do: %v %q, want replay of %q", r.Verdict, r.Answer, "paid")
		}
	})
}

// TestRejectedDuplicateChangesNothing is CC-5: what was refused leaves the owner's entry as it was, to the byte.
func TestRejectedDuplicateChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		refused := func(fp retrysafe.Fingerprint, want error) {
			t.Helper()
			before, _ := l.fetch(t, order)
			_, err := l.Do(t.Context(), order, fp, never(t))
			wantErr(t, "Do", err, want)
			if after, _ := l.fetch(t, order); after.Rev != before.Rev {
				t.Errorf("a Do refused with %v wrote", want)
			}
		}
		owner := l.mustClaim(t, hold, retrysafe.Won)
		refused(payload, retrysafe.ErrInFlight)
		refused(other, retrysafe.ErrMismatch) // wins over in flight
		refused(payload, retrysafe.ErrInFlight)
		l.settle(t, owner, completed)
		refused(other, retrysafe.ErrMismatch)
		refused(payload, nil)
	})
}

// TestStoreThatSaysNeitherYesNorWhatStands is CC-11: a claim that is refused though nothing stands is tried
// again, and never taken for a licence to run.
func TestStoreThatSaysNeitherYesNorWhatStands(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times int
		runs  bool
	}{{"once", 1, true}, {"for ever", 1 << 30, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				left := tt.times
				l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
					if left--; c.verb == "create" && left >= 0 {
						return retrysafe.Reply{Now: time.Now()}, nil
					}
					return do()
				})
				ran := false
				_, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					ran = true
					e, found := l.fetch(t, order)
					if !found || e.State != retrysafe.InFlight {
						t.Errorf("the operation runs without a claim that stands")
					}
					return paid(ctx)
				})
				if ran != tt.runs || tt.runs != (err == nil) {
					t.Errorf("ran: %v with error %v, want %v", ran, err, tt.runs)
				}
				if !tt.runs {
					wantErr(t, "Do", err, retrysafe.ErrStore)
				}
				advance(time.Minute)
			})
		})
	}
}

// TestManyCallersOverManyKeysLeaveNothingBehind is CC-10: with random hang-ups no goroutine and no waiter stays.
// The bubble itself fails when a goroutine is left.
func TestManyCallersOverManyKeysLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Wait: 10 * time.Second})
		const callers, keys = 4000, 400
		var ran [keys]atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*7919%3000)*time.Millisecond)
				defer cancel()
				key := retrysafe.Key{Name: fmt.Sprint("order-", i%keys)}
				_, err := l.Do(ctx, key, payload, func(ctx context.Context) ([]byte, error) {
					ran[i%keys].Add(1)
					return slowly(2 * time.Second)(ctx)
				})
				if err != nil && !errors.Is(err, retrysafe.ErrInFlight) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do(%v): %v", key, err)
				}
			})
		}
		wg.Wait()
		advance(time.Minute)
		for i := range ran {
			if n := ran[i].Load(); n != 1 {
				t.Errorf("order-%d ran %d times", i, n)
			}
		}
		if n := l.Watched(); n != 0 {
			t.Errorf("%d entries are still waited for", n)
		}
	})
}
