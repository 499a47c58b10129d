package retrysafe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// TestMismatchAfterRetention: when its answer is gone the key still belongs to its operation, swept or not.
func TestMismatchAfterRetention(t *testing.T) {
	for swept, stands := range map[bool]retrysafe.State{false: retrysafe.Completed, true: retrysafe.Tombstone} {
		t.Run(fmt.Sprintf("swept %v", swept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.mustDo(t, paid)
				advance(hold.Retention + time.Millisecond)
				if swept {
					l.Sweep(t.Context())
				}
				before, _ := l.fetch(t, order)
				if before.State != stands {
					t.Fatalf("%v stands, want %v", before.State, stands)
				}
				_, err := l.Do(t.Context(), order, other, never(t))
				wantErr(t, "Do with another payload", err, retrysafe.ErrMismatch)
				_, err = l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do with the same", err, retrysafe.ErrExpired)
				if after, _ := l.fetch(t, order); after.Rev != before.Rev {
					t.Errorf("%v stands and was rewritten", after.State)
				}
			})
		})
	}
}
