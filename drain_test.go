package retrysafe_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Shutting down: nothing new begins, and what is under way ends in order.

func TestDrainOfAnIdleExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		if l.Draining() {
			t.Error("Draining before Drain")
		}
		for range 2 { // a second call is no harm
			if err := l.Drain(t.Context()); err != nil {
				t.Errorf("Drain: %v", err)
			}
		}
		if !l.Draining() {
			t.Error("not Draining after Drain")
		}
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrDraining)
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls of a refused operation, want none", n)
		}
	})
}

func TestDrainWaitsForOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		for i := range 3 {
			key := retrysafe.Key{Name: fmt.Sprint("order-", i)}
			go l.Do(t.Context(), key, payload, slowly(time.Duration(i+1)*time.Minute))
		}
		synctest.Wait()
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		err := l.Drain(short)
		wantErr(t, "Drain", err, context.DeadlineExceeded)
		if want := "drain: 2 operations were still under way: context deadline exceeded"; err == nil || err.Error() != want {
			t.Errorf("Drain: %v, want %s", err, want)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("Drain again: %v", err)
		}
		if took := time.Since(began); took != 3*time.Minute {
			t.Errorf("drained after %v, want when the last operation ended, 3m", took)
		}
	})
}

// TestDrainLetsWaitersBeAnswered: they came before it.
func TestDrainLetsWaitersBeAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Wait: time.Minute})
		go l.Do(t.Context(), order, payload, slowly(10*time.Second))
		synctest.Wait()
		waited := make(chan error)
		go func() {
			_, err := l.Do(t.Context(), order, payload, never(t))
			waited <- err
		}()
		synctest.Wait()
		go l.Drain(t.Context())
		wantErr(t, "Do of a waiter", <-waited, nil)
	})
}

// TestDrainLetsAnOperationTakeItsSteps: an operation under way is not new, nor is what it is made of. Refused, it
// would end half done, its outcome unknown.
func TestDrainLetsAnOperationTakeItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		drained := make(chan error, 1)
		r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
			if _, err := retrysafe.Step(ctx, "charge", func(context.Context) (string, error) { return "ch_1", nil }); err != nil {
				return nil, err
			}
			go func() { drained <- l.Drain(t.Context()) }()
			synctest.Wait()
			mail, err := retrysafe.Step(ctx, "mail", func(context.Context) (string, error) { return "sent", nil })
			return []byte(mail), err
		})
		if err != nil || string(r.Answer) != "sent" {
			t.Errorf("Do: %q, %v, want its steps taken", r.Answer, err)
		}
		wantErr(t, "Drain", <-drained, nil)
	})
}

// TestDrainWaitsForATakeBack: a claim that was never answered is undone before the process may end.
func TestDrainWaitsForATakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if c.verb == "create" {
				return answerLost(c, do)
			}
			return down(c, do)
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		time.AfterFunc(10*time.Second, func() { l.store.hook(nil) })
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if e, found := l.fetch(t, order); found {
			t.Errorf("the entry is %v after the drain, want none", e.State)
		}
	})
}
