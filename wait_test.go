package retrysafe_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Waiting for another attempt to end: bounded by patience, by the caller's own ctx, and in what it costs the store.

// eachFront runs a test over a store that tells of changes and over one that is polled.
func eachFront(t *testing.T, o retrysafe.Options, f func(t *testing.T, l *lab)) {
	t.Helper()
	for _, polled := range []bool{false, true} {
		name := "store that tells"
		if polled {
			name = "store that is polled"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &hooked{Store: memstore.New(nil)}
				var front retrysafe.Store = s
				if polled {
					front = silent{s}
				}
				f(t, labBehind(t, s, front, &o))
				advance(time.Second) // the poller notices that nobody waits
			})
		})
	}
}

// TestWaiterGetsTheFirstAnswer is CC-16 and TO-2: the first takes half a second, the second waits up to two.
func TestWaiterGetsTheFirstAnswer(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: 2 * time.Second}, func(t *testing.T, l *lab) {
		began := time.Now()
		go l.Do(t.Context(), order, payload, slowly(500*time.Millisecond))
		synctest.Wait()
		r := l.mustDo(t, never(t))
		if r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
			t.Errorf("Do: %v %q, want replay of %q", r.Verdict, r.Answer, "paid")
		}
		if took := time.Since(began); took < 500*time.Millisecond || took > 530*time.Millisecond {
			t.Errorf("the waiter got it after %v, want when the first ended, at 500ms, or one poll later", took)
		}
	})
}

// TestWaiterLosesPatience is TO-1, TO-2 and CC-7: it is told so at its time and leaves the owner's claim alone.
func TestWaiterLosesPatience(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: 2 * time.Second}, func(t *testing.T, l *lab) {
		go l.Do(t.Context(), order, payload, slowly(10*time.Second))
		synctest.Wait()
		for range 3 { // and the third attempt fares as the second
			began := time.Now()
			r, err := l.Do(t.Context(), order, payload, never(t))
			wantErr(t, "Do", err, retrysafe.ErrInFlight)
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("the waiter gave up after %v, want 2s", took)
			}
			if r.Left <= 0 || r.Left > 30*time.Second {
				t.Errorf("%v left of the lease, want more than none and at most 30s", r.Left)
			}
		}
		advance(10 * time.Second)
		l.wantState(t, retrysafe.Completed)
	})
}

// TestWaiterHangsUp is TO-5: it leaves at once, the owner undisturbed.
func TestWaiterHangsUp(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Hour}, func(t *testing.T, l *lab) {
		go l.Do(t.Context(), order, payload, slowly(10*time.Second))
		synctest.Wait()
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		began := time.Now()
		_, err := l.Do(ctx, order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrInFlight)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the waiter left after %v, want 1s", took)
		}
		synctest.Wait()
		if n := l.Watched(); n != 0 {
			t.Errorf("%d entries are still waited for", n)
		}
		advance(10 * time.Second)
		l.wantState(t, retrysafe.Completed)
	})
}

// TestWaiterOfAReleasedKeyRuns: one of them, and the others wait for it.
func TestWaiterOfAReleasedKeyRuns(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Minute}, func(t *testing.T, l *lab) {
		go l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
			<-time.After(time.Second)
			return didNothing(ctx)
		})
		synctest.Wait()
		var ran atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					ran.Add(1)
					return slowly(time.Second)(ctx)
				})
				if err != nil || string(r.Answer) != "paid" {
					t.Errorf("Do: %q, %v", r.Answer, err)
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 {
			t.Errorf("the operation ran %d times, want once", ran.Load())
		}
	})
}

// TestWaiterOfADeadOwner waits for the lease to end, not for its whole patience.
func TestWaiterOfADeadOwner(t *testing.T) {
	tests := []struct {
		name string
		p    retrysafe.Policy
		want error
		runs int
	}{
		{"hold", hold, retrysafe.ErrUnknownOutcome, 0},
		{"rerun", rerun, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachFront(t, retrysafe.Options{Wait: time.Hour}, func(t *testing.T, l *lab) {
				l.mustClaim(t, tt.p, retrysafe.Won)
				began, ran := time.Now(), 0
				_, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
					ran++
					return paid(ctx)
				})
				wantErr(t, "Do", err, tt.want)
				if took := time.Since(began); took < tt.p.Lease || took > tt.p.Lease+100*time.Millisecond || ran != tt.runs {
					t.Errorf("the waiter was answered after %v and ran %d times, want %v and %d", took, ran, tt.p.Lease, tt.runs)
				}
			})
		})
	}
}

// TestWaiterSeesAMismatchAtOnce: what waits is compared before it waits (rule 5).
func TestWaiterSeesAMismatchAtOnce(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Hour}, func(t *testing.T, l *lab) {
		l.mustClaim(t, hold, retrysafe.Won)
		began := time.Now()
		_, err := l.Do(t.Context(), order, other, never(t))
		wantErr(t, "Do", err, retrysafe.ErrMismatch)
		if took := time.Since(began); took != 0 {
			t.Errorf("the mismatch was told after %v, want at once", took)
		}
	})
}

// TestWaitThroughAnOutage: a store that cannot be read for a while costs the waiter nothing but time.
func TestWaitThroughAnOutage(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Minute}, func(t *testing.T, l *lab) {
		go l.Do(t.Context(), order, payload, slowly(8*time.Second))
		synctest.Wait()
		l.store.mu.Lock()
		l.store.reads = func(call) error { return errBlip }
		l.store.mu.Unlock()
		time.AfterFunc(5*time.Second, func() {
			l.store.mu.Lock()
			defer l.store.mu.Unlock()
			l.store.reads = nil
		})
		if r := l.mustDo(t, never(t)); string(r.Answer) != "paid" {
			t.Errorf("Do: %q, want %q", r.Answer, "paid")
		}
		if n := l.store.count("get", "wait"); n > 9*40+10 {
			t.Errorf("%d reads in 8s, want at most one each 25ms", n)
		}
	})
}

// TestAThousandWaiters holds rule 8: once each has claimed and been told to wait, they cost a bounded number of store
// calls, however many they are, however often the owner extends its lease, and when the answer is there.
func TestAThousandWaiters(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Hour, Lease: 3 * time.Second}, func(t *testing.T, l *lab) {
		const waiters, seconds = 1000, 20
		go l.Do(t.Context(), order, payload, slowly(seconds*time.Second))
		synctest.Wait()
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				if r, err := l.Do(t.Context(), order, payload, never(t)); err != nil || string(r.Answer) != "paid" {
					t.Errorf("Do: %q, %v", r.Answer, err)
				}
			})
		}
		synctest.Wait()
		l.store.reset()
		wg.Wait()
		if n := l.store.count(); n > seconds*50 {
			t.Errorf("%d store calls %v in %ds of waiting, want at most 50 a second", n, l.store.counts, seconds)
		}
		if n := l.Watched(); n != 0 {
			t.Errorf("%d entries are still waited for", n)
		}
	})
}

// TestWaitersOfManyKeysShareTheirReads: one Get looks for all of them.
func TestWaitersOfManyKeysShareTheirReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{Store: memstore.New(nil)}
		l := labBehind(t, s, silent{s}, &retrysafe.Options{Wait: 5 * time.Second, Lease: time.Hour})
		const keys = 1200
		var wg sync.WaitGroup
		for i := range keys {
			key := retrysafe.Key{Name: "order-" + time.Duration(i).String()}
			if _, err := l.claims.Claim(t.Context(), retrysafe.ClaimRequest{Key: key, Fingerprint: payload, Policy: hold}); err != nil {
				t.Fatalf("Claim: %v", err)
			}
			wg.Go(func() {
				if _, err := l.Do(t.Context(), key, payload, never(t)); !errors.Is(err, retrysafe.ErrInFlight) {
					t.Errorf("Do: %v, want %v", err, retrysafe.ErrInFlight)
				}
			})
		}
		wg.Wait()
		if n, want := l.store.count("get"), 5*40*3; n > want {
			t.Errorf("%d reads for %d keys in 5s, want at most %d: one for 500 keys each 25ms", n, keys, want)
		}
		advance(time.Second)
		l.store.reset()
		advance(time.Minute)
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls after the last waiter left, want none", n)
		}
	})
}

// TestWaiterOfADamagedEntry is told at once: nobody will ever read it again.
func TestWaiterOfADamagedEntry(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Hour}, func(t *testing.T, l *lab) {
		l.mustClaim(t, hold, retrysafe.Won)
		time.AfterFunc(time.Second, func() { l.damage(t, damages["junk"]) })
		began := time.Now()
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrUnreadable)
		if took := time.Since(began); took > 1030*time.Millisecond {
			t.Errorf("the waiter was told after %v, want 1s, or one poll later", took)
		}
	})
}

// TestWaiterSeesADecision of an operator as it is made.
func TestWaiterSeesADecision(t *testing.T) {
	eachFront(t, retrysafe.Options{Wait: time.Hour}, func(t *testing.T, l *lab) {
		l.mustClaim(t, hold, retrysafe.Won)
		time.AfterFunc(time.Second, func() { l.Resolve(t.Context(), order.ID(), withForce(happened)) })
		began := time.Now()
		r := l.mustDo(t, never(t))
		if took := time.Since(began); string(r.Answer) != string(happened.Answer) || took > 1030*time.Millisecond {
			t.Errorf("Do: %q after %v, want what the operator said after 1s", r.Answer, took)
		}
	})
}
