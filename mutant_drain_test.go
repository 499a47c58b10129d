package retrysafe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// TestDrainRefusesWhatIsNew while an operation is still under way: another key, and a retry of the same.
func TestDrainRefusesWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		go l.Do(t.Context(), order, payload, slowly(time.Minute))
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(t.Context()) }()
		synctest.Wait()
		l.store.reset()
		for _, key := range []retrysafe.Key{order, {Scope: order.Scope, Name: "order-1002"}} {
			_, err := l.Do(t.Context(), key, payload, never(t))
			wantErr(t, "Do of "+key.Name, err, retrysafe.ErrDraining)
		}
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls of refused operations, want none", n)
		}
		wantErr(t, "Drain", <-drained, nil)
		l.wantState(t, retrysafe.Completed)
	})
}
