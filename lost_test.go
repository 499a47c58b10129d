package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A store may write and lose its answer (rule 4). Here every write of every verb loses it, at every position.

// A story is a course of verbs that ends in one effect, whatever the store loses on the way.
type story struct {
	name string
	o    retrysafe.Options
	tell func(t *testing.T, l *lab, op op)
}

var stories = []story{
	{"run and replay", retrysafe.Options{}, func(t *testing.T, l *lab, op op) {
		l.mustDo(t, op)
	}},
	{"a long run", retrysafe.Options{}, func(t *testing.T, l *lab, op op) {
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			<-time.After(45 * time.Second)
			return op(ctx)
		})
	}},
	{"released, then run", retrysafe.Options{}, func(t *testing.T, l *lab, op op) {
		_, err := l.Do(t.Context(), order, payload, didNothing)
		wantErr(t, "Do", err, retrysafe.ErrDidNothing)
		l.mustDo(t, op)
	}},
	{"taken over", retrysafe.Options{OnLeaseEnd: retrysafe.Rerun}, func(t *testing.T, l *lab, op op) {
		lapse(rerun)(t, l)
		if r := l.mustDo(t, op); r.Verdict != retrysafe.TookOver {
			t.Errorf("Do: verdict %v, want %v", r.Verdict, retrysafe.TookOver)
		}
	}},
	{"recovered, it had not happened", retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: notHappened}, func(t *testing.T, l *lab, op op) {
		lapse(recovered)(t, l)
		l.mustDo(t, op)
	}},
	{"held, then resolved as not happened", retrysafe.Options{}, func(t *testing.T, l *lab, op op) {
		lapse(hold)(t, l)
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrUnknownOutcome)
		if _, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{By: "ann", Why: "asked the bank"}); err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		l.mustDo(t, op)
	}},
	{"run, swept, forgotten, released, run", retrysafe.Options{}, func(t *testing.T, l *lab, op op) {
		l.mustDo(t, paid)
		advance(25 * time.Hour)
		if n, err := l.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("Sweep: %d, %v, want 1", n, err)
		}
		if _, err := l.Forget(t.Context(), order.ID(), "ann", "a new year", false); err != nil {
			t.Fatalf("Forget: %v", err)
		}
		_, err := l.Do(t.Context(), order, payload, didNothing)
		wantErr(t, "Do", err, retrysafe.ErrDidNothing)
		l.mustDo(t, op)
	}},
}

func notHappened(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
	return retrysafe.Outcome{State: retrysafe.Free}, nil
}

// run tells the story over a store that deals with writes as around says, from the n-th on for as many as times.
// It returns how many writes there were.
func (s story) run(t *testing.T, n, times int, around hook) (writes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := s.o
		l := newLab(t, &o)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if writes++; writes >= n && writes < n+times {
				return around(c, do)
			}
			return do()
		})
		ran := 0
		s.tell(t, l, func(ctx context.Context) ([]byte, error) {
			ran++
			return []byte("paid " + s.name), nil
		})
		l.store.hook(nil)
		if ran != 1 {
			t.Errorf("the operation ran %d times, want once", ran)
		}
		if r := l.mustDo(t, never(t)); string(r.Answer) != "paid "+s.name {
			t.Errorf("the answer kept is %q, want %q", r.Answer, "paid "+s.name)
		}
	})
	return writes
}

// TestLostAnswersOfEveryWrite holds rule 4 for answers lost once or twice in a row: nobody notices. A write that
// was lost before it took place is no different.
func TestLostAnswersOfEveryWrite(t *testing.T) {
	faults := []struct {
		name   string
		around hook
	}{{"answer lost", answerLost}, {"write lost", down}}
	for _, s := range stories {
		writes := s.run(t, 0, 0, nil)
		for _, fault := range faults {
			for n := 1; n <= writes; n++ {
				for times := 1; times <= 2; times++ {
					t.Run(fmt.Sprintf("%s/%s/write %d, %d times", s.name, fault.name, n, times), func(t *testing.T) {
						s.run(t, n, times, fault.around)
					})
				}
			}
		}
	}
}

// TestClaimNeverAnswered is the other half of rule 4: the caller is told that nothing ran, and in the background
// the claim is taken back, so that nothing is left of it.
func TestClaimNeverAnswered(t *testing.T) {
	landed := func(r retrysafe.Reply, err error) {
		if err != nil || !r.OK {
			t.Errorf("the late write did not take place: %v, %v", r.OK, err)
		}
	}
	tests := []struct {
		name string
		hook func(try int) hook
		want time.Duration // until it is gone, at most
	}{
		{"every answer is lost", func(int) hook { return answerLost }, 0},
		{"only the first try was written", func(try int) hook {
			if try == 1 {
				return answerLost
			}
			return down
		}, 0},
		{"only the last try was written", func(try int) hook {
			if try == 3 {
				return answerLost
			}
			return down
		}, 0},
		{"the write arrives when the caller has gone", func(try int) hook {
			return func(_ call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
				if try == 3 {
					time.AfterFunc(2*time.Second, func() { landed(do()) })
				}
				return retrysafe.Reply{}, errBlip
			}
		}, 7 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				try := 0
				l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
					if try++; try > 3 {
						return do()
					}
					return tt.hook(try)(c, do)
				})
				_, err := l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do", err, retrysafe.ErrStore)
				wantErr(t, "Do", err, errBlip)
				advance(tt.want)
				if e, found := l.fetch(t, order); found {
					t.Errorf("%v after the call the entry is %v, want none", tt.want, e.State)
				}
				if r := l.mustDo(t, paid); r.Verdict != retrysafe.Won {
					t.Errorf("Do again: verdict %v, want %v", r.Verdict, retrysafe.Won)
				}
			})
		})
	}
}

// TestClaimRefusedAfterItsAnswerWasLost: that the second try was certainly not written says nothing of the first.
func TestClaimRefusedAfterItsAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			l.store.hook(func(call, func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
				l.store.hook(nil)
				return retrysafe.Reply{}, fmt.Errorf("dial: %w", retrysafe.ErrNotWritten)
			})
			return answerLost(c, do)
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		advance(10 * time.Second)
		if e, found := l.fetch(t, order); found {
			t.Errorf("the entry of a claim that never ran is %v, want none", e.State)
		}
	})
}

// TestClaimCertainlyNotWritten: then there is nothing to look after.
func TestClaimCertainlyNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.hook(func(call, func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			return retrysafe.Reply{}, fmt.Errorf("dial: %w", retrysafe.ErrNotWritten)
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		advance(time.Minute)
		if got := l.store.count(); got != 1 {
			t.Errorf("%d store calls %v, want the one that was refused", got, l.store.counts)
		}
	})
}

// TestClaimAnsweredAfterItsLease: the first try was written and not answered for so long that the sweeper declared
// it over. It is the caller's own claim, and nothing has run: its outcome is not unknown.
func TestClaimAnsweredAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: 2 * time.Second})
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			l.store.hook(nil)
			defer func() { <-time.After(5 * time.Second) }()
			return answerLost(c, do)
		})
		time.AfterFunc(3*time.Second, func() { l.Sweep(t.Context()) })
		_, err := l.Do(t.Context(), order, payload, paid)
		if errors.Is(err, retrysafe.ErrUnknownOutcome) {
			t.Errorf("Do: %v, though nothing had run", err)
		}
		advance(10 * time.Second)
		if got := l.standing(t, order); got == retrysafe.Unknown {
			t.Errorf("state of the key is %v, though nothing is unknown of it", got)
		}
	})
}
