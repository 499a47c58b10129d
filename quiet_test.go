package retrysafe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What a recovery is told of the owner that is gone: how long it has not been heard of.

// asks runs a recovery of order that ends with out and returns what it was told.
func (l *lab) asks(t *testing.T, out retrysafe.Outcome) (quiet time.Duration) {
	t.Helper()
	asked := false
	req := retrysafe.Request{Key: order, Fingerprint: payload, Policy: &recovered}
	req.Recover = func(ctx context.Context, _ retrysafe.Key) (retrysafe.Outcome, error) {
		quiet, asked = retrysafe.QuietOf(ctx), true
		return out, nil
	}
	_, err := l.Execute(t.Context(), req, func(context.Context) retrysafe.Outcome { return completed })
	if err != nil || !asked {
		t.Fatalf("Execute: %v, recovery asked: %v", err, asked)
	}
	return quiet
}

// wantQuiet expects got to be want but for the steps of the store's clock.
func wantQuiet(t *testing.T, got, want time.Duration) {
	t.Helper()
	if (got - want).Abs() > time.Millisecond {
		t.Errorf("quiet for %v, want %v", got, want)
	}
}

func TestQuietOf(t *testing.T) {
	const long = 10 * time.Minute
	nobodyKnows := retrysafe.Outcome{}
	tests := []struct {
		name  string
		since func(t *testing.T, l *lab, dead *retrysafe.Claim) // the owner's last sign of life
		quiet time.Duration                                     // that passed during it, since that sign
	}{
		{"lease over", func(*testing.T, *lab, *retrysafe.Claim) {}, 0},
		{"extended", func(t *testing.T, l *lab, dead *retrysafe.Claim) {
			advance(recovered.Lease / 2)
			wantErr(t, "Extend", l.claims.Extend(t.Context(), dead), nil)
		}, 0},
		{"extended late", func(t *testing.T, l *lab, dead *retrysafe.Claim) {
			advance(long)
			wantErr(t, "Extend", l.claims.Extend(t.Context(), dead), nil)
		}, 0},
		{"the owner did not know how it ended", func(t *testing.T, l *lab, dead *retrysafe.Claim) {
			advance(recovered.Lease / 2)
			wantErr(t, "Settle", l.claims.Settle(t.Context(), dead, nobodyKnows), nil)
		}, 0},
		{"recovery failed twice", func(t *testing.T, l *lab, _ *retrysafe.Claim) {
			advance(long)
			wantQuiet(t, l.asks(t, nobodyKnows), long)
			advance(long)
			wantQuiet(t, l.asks(t, nobodyKnows), 2*long)
		}, 2 * long},
		{"whoever recovered died too", func(t *testing.T, l *lab, _ *retrysafe.Claim) {
			advance(long)
			l.mustClaim(t, recovered, retrysafe.Recovering)
		}, long},
		{"whoever recovered extended, and died too", func(t *testing.T, l *lab, _ *retrysafe.Claim) {
			advance(long)
			second := l.mustClaim(t, recovered, retrysafe.Recovering)
			advance(recovered.Lease / 2)
			wantErr(t, "Extend", l.claims.Extend(t.Context(), second), nil)
		}, long + recovered.Lease/2},
		{"a recovery was taken back", func(t *testing.T, l *lab, _ *retrysafe.Claim) {
			advance(long)
			l.store.hook(answerLost)
			_, err := l.claims.Claim(t.Context(), retrysafe.ClaimRequest{Key: order, Fingerprint: payload, Policy: recovered, CanRecover: true})
			l.store.hook(nil)
			wantErr(t, "Claim", err, retrysafe.ErrStore)
			if certain, err := l.claims.TakeBack(t.Context(), err); !certain || err != nil {
				t.Fatalf("TakeBack: %v, %v", certain, err)
			}
		}, long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				tt.since(t, l, l.mustClaim(t, recovered, retrysafe.Won))
				advance(long)
				wantQuiet(t, l.asks(t, completed), tt.quiet+long)
			})
		})
	}
}

// TestQuietOfGrows while the recovery runs: the lease that it extends is its own.
func TestQuietOfGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		lapse(recovered)(t, l)
		req := retrysafe.Request{Key: order, Fingerprint: payload}
		req.Recover = func(ctx context.Context, _ retrysafe.Key) (retrysafe.Outcome, error) {
			before := retrysafe.QuietOf(ctx)
			advance(2 * recovered.Lease)
			wantQuiet(t, retrysafe.QuietOf(ctx), before+2*recovered.Lease)
			return completed, nil
		}
		if _, err := l.Execute(t.Context(), req, nil); err != nil {
			t.Errorf("Execute: %v", err)
		}
	})
}

// TestQuietOfAnOrphan: the process ended and another one asks, before the lease would have been over.
func TestQuietOfAnOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newLab(t, nil)
		before.mustClaim(t, recovered, retrysafe.Won)
		advance(recovered.Lease / 3)
		l := endProcess(t, before, order, nil)
		wantQuiet(t, l.asks(t, retrysafe.Outcome{}), recovered.Lease/3)
		advance(time.Hour)
		wantQuiet(t, l.asks(t, completed), recovered.Lease/3+time.Hour)
	})
}

// TestQuietOfWhatIsHeld: nobody could ask when the lease ended, so that the outcome became unknown; the time counts on.
func TestQuietOfWhatIsHeld(t *testing.T) {
	tests := []struct {
		name   string
		rewind func(retrysafe.Entry) retrysafe.Entry // what stood in an entry of an earlier release
		want   time.Duration
	}{
		{"as it is written now", func(e retrysafe.Entry) retrysafe.Entry { return e }, 2 * time.Hour},
		{"of a release that did not keep the time", retrysafe.Unheard, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.mustClaim(t, hold, retrysafe.Won)
				advance(time.Hour)
				if n, err := l.Sweep(t.Context()); n != 1 || err != nil {
					t.Fatalf("Sweep: %d, %v, want 1", n, err)
				}
				e, _ := l.fetch(t, order)
				next := tt.rewind(retrysafe.WithPolicy(e, recovered)) // under recover the sweeper holds nothing
				next.Rev = retrysafe.NewRev()
				if rep, err := l.store.Store.Swap(t.Context(), e.Rev, next); err != nil || !rep.OK {
					t.Fatalf("Swap: %v", err)
				}
				advance(time.Hour)
				wantQuiet(t, l.asks(t, completed), tt.want)
			})
		})
	}
}

func TestQuietOfOutsideOfARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := retrysafe.QuietOf(t.Context()); got != 0 {
			t.Errorf("outside of an operation: %v, want 0", got)
		}
		l := newLab(t, nil)
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			advance(time.Hour)
			if got := retrysafe.QuietOf(ctx); got != 0 {
				t.Errorf("in an operation: %v, want 0", got)
			}
			return nil, nil
		})
	})
}
