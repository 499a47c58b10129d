package retrysafe_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A takeover whose answer never came is swapped back: what stood before stands again, with what is left of its times.

// until returns the moments at which the entry of order is due and forgotten.
func (l *lab) until(t *testing.T) (due, forgotten time.Time) {
	t.Helper()
	e, found := l.fetch(t, order)
	if !found {
		t.Fatal("nothing stands")
	}
	return e.Stamp.Add(e.Due), e.Stamp.Add(e.TTL)
}

// loseClaim has a claim whose every answer is lost but that of its first look, so that its takeover stands.
func (l *lab) loseClaim(t *testing.T, o retrysafe.ClaimRequest) error {
	t.Helper()
	l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
		if c.verb == "swap" {
			return answerLost(c, do)
		}
		return do()
	})
	defer l.store.hook(nil)
	o.Key, o.Fingerprint, o.CanRecover = order, payload, true
	c, err := l.claims.Claim(t.Context(), o)
	if err == nil {
		t.Fatalf("Claim: verdict %v, want its answer lost", c.Verdict)
	}
	wantErr(t, "Claim", err, retrysafe.ErrStore)
	l.wantState(t, retrysafe.InFlight)
	return err
}

func (l *lab) takeBack(t *testing.T, lost error) {
	t.Helper()
	if certain, err := l.claims.TakeBack(t.Context(), lost); !certain || err != nil {
		t.Errorf("take back: certain %v, error %v, want true", certain, err)
	}
}

func TestLostTakeoverIsSwappedBack(t *testing.T) {
	tests := []struct {
		name   string
		policy retrysafe.Policy
		before func(t *testing.T, l *lab, owner *retrysafe.Claim)
		want   retrysafe.State
		then   retrysafe.Verdict
	}{
		{"over a lapsed claim", rerun, func(*testing.T, *lab, *retrysafe.Claim) { advance(hold.Lease + time.Second) },
			retrysafe.InFlight, retrysafe.TookOver},
		{"of a recovery", recovered, func(*testing.T, *lab, *retrysafe.Claim) { advance(hold.Lease + time.Second) },
			retrysafe.InFlight, retrysafe.Recovering},
		{"of an unknown outcome to recover", recovered, func(t *testing.T, l *lab, owner *retrysafe.Claim) {
			l.settle(t, owner, retrysafe.Outcome{})
			advance(time.Hour)
		}, retrysafe.Unknown, retrysafe.Recovering},
		{"over a freed key", hold, func(t *testing.T, l *lab, owner *retrysafe.Claim) {
			if _, err := l.Forget(t.Context(), order.ID(), "ann", "double entry", true); err != nil {
				t.Fatalf("Forget: %v", err)
			}
			advance(time.Hour)
		}, retrysafe.Free, retrysafe.Won},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				owner := l.mustClaim(t, tt.policy, retrysafe.Won)
				tt.before(t, l, owner)
				before, _ := l.fetch(t, order)
				due, forgotten := l.until(t)

				lost := l.loseClaim(t, retrysafe.ClaimRequest{Policy: tt.policy})
				advance(time.Second)
				l.takeBack(t, lost)

				after, _ := l.fetch(t, order)
				if after.State != tt.want || after.Fingerprint != before.Fingerprint {
					t.Errorf("what stands is %v, want what stood before", after.State)
				}
				if nextDue, next := l.until(t); before.TTL > 0 && (!near(nextDue, due) || !near(next, forgotten)) {
					t.Errorf("due at %v and forgotten at %v, want %v and %v as before", nextDue, next, due, forgotten)
				}
				if after.Due > before.Due {
					t.Errorf("due %v after its stamp, want no more than before", after.Due)
				}
				l.mustClaim(t, tt.policy, tt.then)
			})
		})
	}
}

// near allows for the microseconds by which a store keeps its stamps apart.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond }

func TestOwnerAfterALostTakeoverMaySettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		owner := l.mustClaim(t, rerun, retrysafe.Won)
		advance(rerun.Lease)
		epoch := owner.Epoch()
		lost := l.loseClaim(t, retrysafe.ClaimRequest{Policy: rerun})
		wantErr(t, "Settle under a takeover that may stand", l.claims.Settle(t.Context(), owner, completed), retrysafe.ErrClaimLost)
		l.takeBack(t, lost)
		l.settle(t, owner, completed)
		if r := l.mustDo(t, never(t)); r.Epoch != epoch {
			t.Errorf("epoch of the answer is %d, want the owner's, %d", r.Epoch, epoch)
		}
	})
}

// TestLostTakeoverThatArrivesLate: the look after it found what stood before, and must not believe it too soon.
func TestLostTakeoverThatArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
		owner := l.mustClaim(t, rerun, retrysafe.Won)
		advance(rerun.Lease)
		var arrived atomic.Bool
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if c.verb != "swap" {
				return do()
			}
			time.AfterFunc(2*time.Second, func() {
				rep, err := do()
				if err == nil && rep.OK {
					arrived.Store(true)
				}
			})
			return retrysafe.Reply{}, errBlip
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		l.store.hook(nil)
		advance(10 * time.Second)
		if !arrived.Load() {
			t.Fatal("the late write did not take place, the test shows nothing")
		}
		l.settle(t, owner, completed)
		l.mustDo(t, never(t))
	})
}

// TestAnothersEntryOfTheSameEpoch, as a store may hold that was restored from a backup: the nonce tells.
func TestAnothersEntryOfTheSameEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		owner := l.mustClaim(t, hold, retrysafe.Won)
		l.damage(t, func(e retrysafe.Entry) retrysafe.Entry {
			e.Epoch = owner.Epoch()
			return retrysafe.WithNonce(e, retrysafe.NewRev())
		})
		wantErr(t, "Settle", l.claims.Settle(t.Context(), owner, completed), retrysafe.ErrClaimLost)
		wantErr(t, "Extend", l.claims.Extend(t.Context(), owner), retrysafe.ErrClaimLost)
		l.wantState(t, retrysafe.InFlight)
	})
}

// TestTakeBackTouchesOnlyItsOwn: by the nonce it knows what it wrote.
func TestTakeBackTouchesOnlyItsOwn(t *testing.T) {
	tests := []struct {
		name  string
		after func(t *testing.T, l *lab) // what happens before the take-back looks
		want  retrysafe.State
	}{
		{"another attempt claims", func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.Won) }, retrysafe.InFlight},
		{"another attempt runs", func(t *testing.T, l *lab) { l.mustDo(t, paid) }, retrysafe.Completed},
		{"another attempt ends unknown", func(t *testing.T, l *lab) {
			l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{})
		}, retrysafe.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.store.hook(down)
				_, lost := l.claims.Claim(t.Context(), retrysafe.ClaimRequest{Key: order, Fingerprint: payload, Policy: hold})
				wantErr(t, "Claim", lost, retrysafe.ErrStore)
				l.store.hook(nil)
				tt.after(t, l)
				before, _ := l.fetch(t, order)
				l.takeBack(t, lost)
				if after, _ := l.fetch(t, order); after.Rev != before.Rev || after.State != tt.want {
					t.Errorf("what stands is %v and was rewritten, want %v untouched", after.State, tt.want)
				}
			})
		})
	}
}

// TestTakeBackOfAClaimDeclaredOver: the sweeper was faster, and made an unknown outcome of what never ran.
func TestTakeBackOfAClaimDeclaredOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.hook(answerLost)
		_, lost := l.claims.Claim(t.Context(), retrysafe.ClaimRequest{Key: order, Fingerprint: payload, Policy: hold})
		l.store.hook(nil)
		advance(hold.Lease)
		l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
		l.wantState(t, retrysafe.Unknown)
		if certain, err := l.claims.TakeBack(t.Context(), lost); certain || err != nil {
			t.Errorf("take back: certain %v, error %v; want it to look again: the claim was sent more than once", certain, err)
		}
		l.wantState(t, retrysafe.Absent)
	})
}

// TestTakeBackGoesOnWhileTheStoreIsDown until it can look.
func TestTakeBackGoesOnWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.hook(answerLost)
		l.store.reads = func(call) error { return errBlip }
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		advance(time.Hour)
		if _, found := l.fetch(t, order); !found {
			t.Fatal("nothing stands, the test shows nothing")
		}
		l.store.mu.Lock()
		l.store.around, l.store.reads = nil, nil
		l.store.mu.Unlock()
		advance(6 * time.Second)
		if e, found := l.fetch(t, order); found {
			t.Errorf("the entry is %v, want none", e.State)
		}
	})
}
