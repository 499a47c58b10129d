package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What happens between the end of an operation and the record of its outcome (rules 10 and 11).

// TestAnswerIsHeldBackUntilRecorded is SO-7: the store is down when the operation ends and comes back in time.
func TestAnswerIsHeldBackUntilRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		began := time.Now()
		r, err := l.Do(t.Context(), order, payload, l.ending(down, 7*time.Second))
		if err != nil || r.Err != nil || string(r.Answer) != "paid" {
			t.Errorf("Do: %q, %v, %v, want the answer", r.Answer, r.Err, err)
		}
		if took := time.Since(began); took < 7*time.Second || took > 10*time.Second {
			t.Errorf("Do took %v, want until the store was back after 7s", took)
		}
		l.wantState(t, retrysafe.Completed)
	})
}

// ending is an operation at whose end the store deals with writes as around says, for d.
func (l *lab) ending(around hook, d time.Duration) op {
	return func(ctx context.Context) ([]byte, error) {
		l.store.hook(around)
		time.AfterFunc(d, func() { l.store.hook(nil) })
		return paid(ctx)
	}
}

// TestUnrecorded: after RecordWait the caller gets the answer, and what it is worth; recording goes on.
func TestUnrecorded(t *testing.T) {
	tests := []struct {
		name   string
		around hook
		outage time.Duration
		during error // what a second attempt is told after RecordWait
	}{
		{"within the lease", down, 20 * time.Second, retrysafe.ErrInFlight},
		{"longer than the lease", down, 10 * time.Minute, retrysafe.ErrUnknownOutcome},
		{"answers lost", answerLost, 20 * time.Second, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				began := time.Now()
				r, err := l.Do(t.Context(), order, payload, l.ending(tt.around, tt.outage))
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("Do took %v, want RecordWait, 10s", took)
				}
				wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
				if r.Verdict != retrysafe.Won || string(r.Answer) != "paid" {
					t.Errorf("Do: %v %q, want the answer of the operation", r.Verdict, r.Answer)
				}
				advance(tt.outage - 11*time.Second)
				l.mustFind(t, tt.during)
				advance(7 * time.Second)
				l.mustFind(t, nil)
			})
		})
	}
}

// mustFind looks with a second attempt past the hooks: it must not run.
func (l *lab) mustFind(t *testing.T, want error) {
	t.Helper()
	e := l.second(t)
	r, err := e.Do(t.Context(), order, payload, never(t))
	if want != nil {
		wantErr(t, "Do of another process", err, want)
		return
	}
	if err != nil || r.Verdict != retrysafe.Replay || string(r.Answer) != "paid" {
		t.Errorf("Do of another process: %v %q %v, want replay of %q", r.Verdict, r.Answer, err, "paid")
	}
}

// second returns an Executor of another process on the same store, whose calls no hook sees.
func (l *lab) second(t *testing.T) *retrysafe.Executor {
	t.Helper()
	e, err := retrysafe.New(l.store.Store, nil)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e
}

// TestRecordingEndsWhenFenced: somebody decided while the owner could not record.
func TestRecordingEndsWhenFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		_, err := l.Do(t.Context(), order, payload, l.ending(down, time.Hour))
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
		if _, err := l.second(t).Forget(t.Context(), order.ID(), "ann", "asked the bank", true); err != nil {
			t.Fatalf("Forget: %v", err)
		}
		advance(2 * time.Hour)
		l.wantState(t, retrysafe.Free)
		l.store.reset()
		advance(time.Hour)
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls an hour after the claim was lost, want none", n)
		}
	})
}

// TestRecordAfterAReplayWasCounted: the record stood, its answer was lost, and the count of replays was written
// over it. It is still the owner's record.
func TestRecordAfterAReplayWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		time.AfterFunc(time.Second, func() {
			e := l.second(t)
			if _, err := e.Do(t.Context(), order, payload, never(t)); err != nil {
				t.Errorf("Do of another process: %v", err)
			}
			e.FlushReplays(t.Context())
		})
		_, err := l.Do(t.Context(), order, payload, l.ending(answerLost, 3*time.Second))
		if err != nil {
			t.Errorf("Do: %v, though the outcome stands recorded", err)
		}
		l.mustFind(t, nil)
	})
}

// TestRecordAfterItsAnswerExpired is the same with the sweeper.
func TestRecordAfterItsAnswerExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: time.Second})
		time.AfterFunc(2*time.Second, func() { l.second(t).Sweep(t.Context()) })
		_, err := l.Do(t.Context(), order, payload, l.ending(answerLost, 3*time.Second))
		if errors.Is(err, retrysafe.ErrClaimLost) {
			t.Errorf("Do: %v, though nobody else decided", err)
		}
		l.wantState(t, retrysafe.Tombstone)
	})
}

// TestDrainGivesUpRecording when its time is over, and says how many were left.
func TestDrainGivesUpRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		_, err := l.Do(t.Context(), order, payload, l.ending(down, time.Hour))
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantErr(t, "Drain", l.Drain(ctx), context.DeadlineExceeded)
		advance(10 * time.Second)
		l.store.reset()
		advance(2 * time.Hour)
		if n := l.store.count(); n != 0 {
			t.Errorf("%d store calls after the drain gave up, want none", n)
		}
		l.mustFind(t, retrysafe.ErrUnknownOutcome)
	})
}

// TestDrainWaitsForTheRecord, and the outcome is there when it returns.
func TestDrainWaitsForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		_, err := l.Do(t.Context(), order, payload, l.ending(down, 20*time.Second))
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		l.mustFind(t, nil)
	})
}

// TestAnswerIsNotHeldBackByAHeartbeat: an extension that hangs in the store does not prolong RecordWait. The mutex
// between them keeps a bubble's clock from moving, so this runs on the real one, and ends by a channel.
func TestAnswerIsNotHeldBackByAHeartbeat(t *testing.T) {
	l := newLab(t, &retrysafe.Options{Lease: 30 * time.Millisecond, RecordWait: time.Millisecond, StoreTimeout: time.Hour})
	hanging, unhang := make(chan struct{}), make(chan struct{})
	l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
		if c.verb == "swap" {
			l.store.hook(nil)
			close(hanging)
			<-unhang
		}
		return do()
	})
	answered := make(chan error, 1)
	go func() {
		_, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
			<-hanging
			return paid(ctx)
		})
		answered <- err
	}()
	select {
	case err := <-answered:
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
	case <-time.After(5 * time.Second):
		t.Error("the answer is held back by the heartbeat's call, RecordWait notwithstanding")
	}
	close(unhang)
	if err := l.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
}
