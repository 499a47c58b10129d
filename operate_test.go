package retrysafe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What operators do: resolve and forget, under the same compare-and-swap as everybody (OP-5), with a trail.

var (
	happened   = retrysafe.Resolution{Happened: true, Answer: []byte("paid, says the bank"), By: "ann", Why: "asked the bank"}
	notAtAll   = retrysafe.Resolution{By: "ann", Why: "asked the bank"}
	withForce  = func(r retrysafe.Resolution) retrysafe.Resolution { r.Force = true; return r }
	failedOnce = retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: []byte("500")}
	setUnknown = func(t *testing.T, l *lab) {
		l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{Reason: "no answer"})
	}
	setFailed = func(t *testing.T, l *lab) { l.settle(t, l.mustClaim(t, hold, retrysafe.Won), failedOnce) }
	setDone   = func(t *testing.T, l *lab) { l.mustDo(t, paid) }
	setLive   = func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.Won) }
	setPast   = func(t *testing.T, l *lab) { l.mustDo(t, paid); advance(25 * time.Hour) }
	setTomb   = func(t *testing.T, l *lab) { setPast(t, l); l.Sweep(t.Context()) }
	setFree   = func(t *testing.T, l *lab) {
		setUnknown(t, l)
		l.Forget(t.Context(), order.ID(), "bob", "before", false)
	}
	setNothing  = func(*testing.T, *lab) {}
	operateOver = map[string]func(*testing.T, *lab){"absent": setNothing, "free": setFree, "live": setLive, "lapsed hold": lapse(hold),
		"lapsed rerun": lapse(rerun), "lapsed recover": lapse(recovered), "unknown": setUnknown, "failed": setFailed, "done": setDone,
		"retention over": setPast, "tombstone": setTomb}
)

// TestOperatorsActs: what each act makes of each thing that may stand, and what is refused. R is refused, F refused
// without force, N not found.
func TestOperatorsActs(t *testing.T) {
	const table = `
		absent          N N N
		free            R R free
		live            F F F
		lapsed_hold     completed free free
		lapsed_rerun    completed free free
		lapsed_recover  completed free free
		unknown         completed free free
		failed          completed free free
		done            F F F
		retention_over  R R free
		tombstone       R R free`
	acts := []struct {
		name string
		do   func(t *testing.T, l *lab, force bool) (retrysafe.Record, error)
		to   string
	}{
		{"happened", func(t *testing.T, l *lab, force bool) (retrysafe.Record, error) {
			r := happened
			r.Force = force
			return l.Resolve(t.Context(), order.ID(), r)
		}, "completed"},
		{"did not happen", func(t *testing.T, l *lab, force bool) (retrysafe.Record, error) {
			r := notAtAll
			r.Force = force
			return l.Resolve(t.Context(), order.ID(), r)
		}, "free"},
		{"forget", func(t *testing.T, l *lab, force bool) (retrysafe.Record, error) {
			return l.Forget(t.Context(), order.ID(), "ann", "asked the bank", force)
		}, "free"},
	}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Fields(line)
		from := strings.ReplaceAll(cells[0], "_", " ")
		for i, act := range acts {
			for _, force := range []bool{false, true} {
				want := cells[1+i]
				if want == "F" && force {
					want = act.to
				}
				t.Run(fmt.Sprintf("%s, %s, force %v", from, act.name, force), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newLab(t, nil)
						operateOver[from](t, l)
						advance(time.Millisecond)
						before, _ := l.fetch(t, order)
						rec, err := act.do(t, l, force)
						l.checkAct(t, before, rec, err, want)
					})
				})
			}
		}
	}
}

func (l *lab) checkAct(t *testing.T, before retrysafe.Entry, rec retrysafe.Record, err error, want string) {
	t.Helper()
	after, _ := l.fetch(t, order)
	var refused *retrysafe.RefusedError
	switch want {
	case "N":
		wantErr(t, "act", err, retrysafe.ErrNotFound)
	case "R", "F":
		if !errors.As(err, &refused) || refused.Force != (want == "F") || after.Rev != before.Rev {
			t.Errorf("act: %v, entry rewritten %v; want it refused, with a hint at force: %v", err, after.Rev != before.Rev, want == "F")
		}
	default:
		if err != nil || rec.State.String() != want || after.State != rec.State {
			t.Fatalf("act: %v, now %v, %v stands; want %s", err, rec.State, after.State, want)
		}
		if got, was := rec.Epoch, max(before.Epoch, before.Stamp.UnixMicro()); got <= was {
			t.Errorf("epoch %d after %d, want more", got, was)
		}
		if retrysafe.NonceIn(after) == retrysafe.NonceIn(before) {
			t.Error("the nonce is the owner's still")
		}
		trail := rec.History[len(rec.History)-1]
		if trail.By != "ann" || trail.Why != "asked the bank" || trail.From != before.State || !trail.At.Equal(time.Now()) {
			t.Errorf("history says %+v, want who, why, when and from what", trail)
		}
	}
}

// TestResolvedAnswer is what retries get, or that it was not kept.
func TestResolvedAnswer(t *testing.T) {
	tests := []struct {
		name   string
		answer []byte
		err    error
	}{{"given", []byte("paid"), nil}, {"given and empty", []byte{}, nil}, {"not given", nil, retrysafe.ErrAnswerNotKept}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				setUnknown(t, l)
				r := happened
				r.Answer = tt.answer
				if _, err := l.Resolve(t.Context(), order.ID(), r); err != nil {
					t.Fatalf("Resolve: %v", err)
				}
				got, err := l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do", err, tt.err)
				if got.Verdict != retrysafe.Replay || string(got.Answer) != string(tt.answer) || (got.Answer == nil) != (tt.answer == nil) {
					t.Errorf("Do: %v %#v, want replay of %#v", got.Verdict, got.Answer, tt.answer)
				}
				_, err = l.Do(t.Context(), order, other, never(t))
				wantErr(t, "Do with another payload", err, retrysafe.ErrMismatch)
				advance(hold.Retention + time.Second)
				_, err = l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do after retention", err, retrysafe.ErrExpired)
			})
		})
	}
}

// TestFreedKey is TT-8: it is claimable, also for another payload, under a greater epoch, and its history stays.
func TestFreedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		first := l.mustDo(t, paid)
		rec, err := l.Forget(t.Context(), order.ID(), "ann", "double entry", true)
		if err != nil || rec.State != retrysafe.Free {
			t.Fatalf("Forget: %v, %v", rec.State, err)
		}
		r, err := l.Do(t.Context(), order, other, didNothing) // released again
		wantErr(t, "Do", err, retrysafe.ErrDidNothing)
		if r.Epoch <= rec.Epoch || rec.Epoch <= first.Epoch {
			t.Errorf("epochs %d, %d, %d, want them to grow", first.Epoch, rec.Epoch, r.Epoch)
		}
		rec, err = l.Inspect(t.Context(), order.ID())
		if err != nil || rec.State != retrysafe.Free || len(rec.History) != 1 || rec.History[0].Did != "forgot" || rec.History[0].From != retrysafe.Completed {
			t.Errorf("after a release: %+v, %v, want it free with its history", rec, err)
		}
		second, err := l.Do(t.Context(), order, other, paid)
		if err != nil || second.Epoch <= r.Epoch {
			t.Errorf("Do: epoch %d after %d, %v", second.Epoch, r.Epoch, err)
		}
		rec, _ = l.Inspect(t.Context(), order.ID())
		if len(rec.History) != 1 || rec.Attempts != 3 {
			t.Errorf("%d acts and %d attempts, want 1 and 3", len(rec.History), rec.Attempts)
		}
		advance(hold.Retention + hold.Remember + time.Second)
		l.Sweep(t.Context())
		if _, found := l.fetch(t, order); found {
			t.Error("what is no longer remembered still stands")
		}
	})
}

func TestActsNeedWhoAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		setUnknown(t, l)
		before, _ := l.fetch(t, order)
		for _, who := range [][2]string{{"", "why"}, {"ann", ""}, {" \t", "why"}, {"ann", "\n"}} {
			_, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, By: who[0], Why: who[1]})
			wantErr(t, fmt.Sprintf("Resolve by %q for %q", who[0], who[1]), err, retrysafe.ErrInvalid)
			_, err = l.Forget(t.Context(), order.ID(), who[0], who[1], true)
			wantErr(t, fmt.Sprintf("Forget by %q for %q", who[0], who[1]), err, retrysafe.ErrInvalid)
		}
		if after, _ := l.fetch(t, order); after.Rev != before.Rev {
			t.Error("a refused act wrote")
		}
	})
}

// TestHistoryIsBounded in number and in the length of its texts; the latest acts stay.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		setUnknown(t, l)
		long := strings.Repeat("é", 1<<16)
		for i := range 100 {
			advance(time.Second)
			if _, err := l.Forget(t.Context(), order.ID(), fmt.Sprint("ann ", i), long, false); err != nil {
				t.Fatalf("Forget: %v", err)
			}
		}
		rec, err := l.Inspect(t.Context(), order.ID())
		if err != nil || len(rec.History) != 32 || rec.History[31].By != "ann 99" || rec.History[0].By != "ann 68" {
			t.Errorf("%d acts from %q on, %v; want the latest 32", len(rec.History), rec.History[0].By, err)
		}
		if !slices.IsSortedFunc(rec.History, func(a, b retrysafe.Decision) int { return a.At.Compare(b.At) }) {
			t.Error("the history is not in order")
		}
		if e, _ := l.fetch(t, order); len(e.Body) > 20_000 {
			t.Errorf("the entry has %d bytes, want a history that is bounded", len(e.Body))
		}
	})
}

// TestActRacesTheOwner: between the operator's look and its write the owner completed. The act looks again, and is
// refused as it would have been.
func TestActRacesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		owner := l.mustClaim(t, hold, retrysafe.Won)
		advance(hold.Lease)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			l.store.hook(nil)
			l.settle(t, owner, completed)
			return do()
		})
		_, err := l.Resolve(t.Context(), order.ID(), notAtAll)
		var refused *retrysafe.RefusedError
		if !errors.As(err, &refused) || !refused.Force || refused.State != retrysafe.Completed {
			t.Errorf("Resolve: %v, want it refused: the key is completed", err)
		}
		l.mustDo(t, never(t))
	})
}

// TestActThroughLostAnswers is done once, and written into the history once.
func TestActThroughLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		setUnknown(t, l)
		tries := 0
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if tries++; tries <= 2 {
				return answerLost(c, do)
			}
			return do()
		})
		rec, err := l.Resolve(t.Context(), order.ID(), happened)
		if err != nil || len(rec.History) != 1 {
			t.Errorf("Resolve: %d acts, %v, want 1", len(rec.History), err)
		}
		l.store.hook(down)
		_, err = l.Resolve(t.Context(), order.ID(), withForce(notAtAll))
		wantErr(t, "Resolve while the store is down", err, retrysafe.ErrStore)
	})
}

func TestRefusedErrorSaysWhy(t *testing.T) {
	for want, err := range map[string]*retrysafe.RefusedError{
		"resolve: key is in_flight under a live lease: only with force": {Act: "resolve", State: retrysafe.InFlight, Live: true, Force: true},
		"forget: key is completed: only with force":                     {Act: "forget", State: retrysafe.Completed, Force: true},
		"resolve: key is expired: nothing to resolve":                   {Act: "resolve", State: retrysafe.Tombstone},
	} {
		if err.Error() != want {
			t.Errorf("error text is %q, want %q", err, want)
		}
	}
}
