package retrysafe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Sealed answers on every path on which one enters a record, stays in it, or leaves it (TN-7).

// canary is an answer that must not stand anywhere in clear.
const canary = "card 4929-0000-1111 paid 10 EUR"

// An eavesdropper hears all that a store is given.
type eavesdropper struct {
	*hooked
	mu    sync.Mutex
	heard bytes.Buffer
}

func (s *eavesdropper) hear(v ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range v {
		if e, ok := v.(retrysafe.Entry); ok {
			fmt.Fprintf(&s.heard, "%s %s %s %s ", e.Scope, e.Display, e.Fingerprint[:], e.Body)
		}
		fmt.Fprintf(&s.heard, "%+v ", v)
	}
}

func (s *eavesdropper) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.String()
}

func (s *eavesdropper) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	s.hear(e)
	return s.hooked.Create(ctx, e)
}

func (s *eavesdropper) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	s.hear(old, e)
	return s.hooked.Swap(ctx, old, e)
}

func (s *eavesdropper) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	s.hear(id, old)
	return s.hooked.Delete(ctx, id, old)
}

func (s *eavesdropper) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	s.hear(ids)
	return s.hooked.Get(ctx, ids...)
}

func (s *eavesdropper) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	s.hear(id, old)
	return s.hooked.Wait(ctx, id, old)
}

func (s *eavesdropper) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	s.hear(q)
	return s.hooked.List(ctx, q)
}

// charged is an operation whose answer is the canary.
func charged(context.Context) ([]byte, error) { return []byte(canary), nil }

// chargedAs is an outcome whose answer is the canary.
func chargedAs(s retrysafe.State) retrysafe.Outcome {
	return retrysafe.Outcome{State: s, Answer: []byte(canary)}
}

// resolves is an operator who knows the answer.
func (l *lab) resolves(t *testing.T, force bool) {
	t.Helper()
	rec, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, Answer: []byte(canary), By: "ann", Why: "asked the bank", Force: force})
	if err != nil || string(rec.Answer) != canary {
		t.Errorf("Resolve: answer %q, %v, want what was decided", rec.Answer, err)
	}
}

// answerPaths leave order with the canary as its answer. Each is a way for an answer into a record, or to stay there.
var answerPaths = []struct {
	name string
	walk func(t *testing.T, l *lab)
}{
	{"operation returns", func(t *testing.T, l *lab) {
		if r := l.mustDo(t, charged); string(r.Answer) != canary {
			t.Errorf("its own caller got %q, want the answer", r.Answer)
		}
	}},
	{"operation records before it returns", func(t *testing.T, l *lab) {
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			return nil, retrysafe.Settle(ctx, chargedAs(retrysafe.Completed))
		})
	}},
	{"owner completes", func(t *testing.T, l *lab) {
		l.settle(t, l.mustClaim(t, hold, retrysafe.Won), chargedAs(retrysafe.Completed))
	}},
	{"owner completes with a failure", func(t *testing.T, l *lab) {
		l.settle(t, l.mustClaim(t, hold, retrysafe.Won), chargedAs(retrysafe.UnknownAnswered))
	}},
	{"owner completes, extended before", func(t *testing.T, l *lab) {
		c := l.mustClaim(t, hold, retrysafe.Won)
		advance(time.Second)
		wantErr(t, "Extend", l.claims.Extend(t.Context(), c), nil)
		l.settle(t, c, chargedAs(retrysafe.Completed))
	}},
	{"late owner completes", func(t *testing.T, l *lab) {
		c := l.mustClaim(t, hold, retrysafe.Won)
		advance(hold.Lease)
		l.mustClaim(t, hold, retrysafe.OutcomeUnknown)
		l.settle(t, c, chargedAs(retrysafe.Completed))
	}},
	{"owner of a takeover completes", func(t *testing.T, l *lab) {
		lapse(rerun)(t, l)
		l.settle(t, l.mustClaim(t, rerun, retrysafe.TookOver), chargedAs(retrysafe.Completed))
	}},
	{"recovery knows it", func(t *testing.T, l *lab) {
		lapse(recovered)(t, l)
		l.mustDo(t, never(t))
	}},
	{"the store's answers are lost", func(t *testing.T, l *lab) {
		c, left := l.mustClaim(t, hold, retrysafe.Won), 4
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			if left--; left >= 0 {
				return answerLost(c, do)
			}
			return do()
		})
		wantErr(t, "Settle", l.claims.Settle(t.Context(), c, chargedAs(retrysafe.Completed)), errBlip)
		l.settle(t, c, chargedAs(retrysafe.Completed)) // the same write by its Rev, sealed anew
	}},
	{"recorded in the background", func(t *testing.T, l *lab) {
		_, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
			l.store.hook(down)
			return charged(ctx)
		})
		wantErr(t, "Do", err, retrysafe.ErrUnrecorded)
		l.store.hook(nil)
		advance(time.Minute)
	}},
	{"operator decides an unknown outcome", func(t *testing.T, l *lab) {
		l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{})
		l.resolves(t, false)
	}},
	{"operator decides a lapsed claim", func(t *testing.T, l *lab) { lapse(hold)(t, l); l.resolves(t, false) }},
	{"operator decides a claim of this moment", func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.Won); l.resolves(t, true) }},
	{"operator overrules an answer", func(t *testing.T, l *lab) { l.mustDo(t, paid); l.resolves(t, true) }},
	{"replays are counted", func(t *testing.T, l *lab) {
		l.mustDo(t, charged)
		for range 2 {
			advance(time.Hour)
			l.CountReplay(order.ID())
			l.FlushReplays(t.Context())
		}
		if rec, err := l.Inspect(t.Context(), order.ID()); err != nil || rec.Replays != 2 {
			t.Errorf("Inspect: %d replays, %v, want 2: the entry was to be written again", rec.Replays, err)
		}
	}},
	{"the sweeper passes early", func(t *testing.T, l *lab) {
		l.mustDo(t, charged)
		advance(time.Hour)
		l.Sweep(t.Context())
	}},
}

// sealing are the options of a lab that seals, or keeps in clear what is known to be found then.
func sealing(sealed bool, log *slog.Logger) *retrysafe.Options {
	o := &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Logger: log, Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
		return chargedAs(retrysafe.Completed), nil
	}}
	if sealed {
		o.AnswerKeys = [][]byte{secret("answers")}
	}
	return o
}

// TestAnswersAreSealedOnEveryPath and are in clear for whoever may see them. Kept in clear, each is heard: so the ear
// is no deaf one.
func TestAnswersAreSealedOnEveryPath(t *testing.T) {
	for _, tt := range answerPaths {
		for _, sealed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sealed %v", tt.name, sealed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					hooks := &hooked{Store: memstore.New(nil)}
					ear := &eavesdropper{hooked: hooks}
					l := labBehind(t, hooks, ear, sealing(sealed, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
					tt.walk(t, l)
					l.wantCanary(t)
					if e, _ := l.fetch(t, order); retrysafe.Sealed(e) != sealed {
						t.Errorf("the entry's answer is sealed: %v", !sealed)
					}
					if heard := strings.Contains(ear.said(), canary); heard == sealed {
						t.Errorf("the store was given the answer in clear: %v", heard)
					}
					if strings.Contains(log.String(), canary) {
						t.Error("the log holds the answer")
					}
				})
			})
		}
	}
}

// wantCanary expects everybody who may see the answer of order to see it.
func (l *lab) wantCanary(t *testing.T) {
	t.Helper()
	if c := l.mustClaim(t, hold, retrysafe.Replay); string(c.Answer) != canary {
		t.Errorf("replay of %q, want the answer", c.Answer)
	}
	if r, ok, err := l.Met(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}); !ok || err != nil || string(r.Answer) != canary {
		t.Errorf("Met: %q, %v, %v, want the answer", r.Answer, ok, err)
	}
	if rec, err := l.Inspect(t.Context(), order.ID()); err != nil || string(rec.Answer) != canary {
		t.Errorf("Inspect: %q, %v, want the answer", rec.Answer, err)
	}
	records, _, err := l.List(t.Context(), retrysafe.Filter{})
	if err != nil || len(records) != 1 || string(records[0].Answer) != canary {
		t.Errorf("List: %d records, %v, want one with the answer", len(records), err)
	}
}

// TestWaitersOpenOneEntry at once: what one does to its answer is not seen by another.
func TestWaitersOpenOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sealing(true, nil)
		o.Wait = time.Minute
		l := newLab(t, o)
		owner := l.mustClaim(t, hold, retrysafe.Won)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				r, err := l.Do(t.Context(), order, payload, never(t))
				if err != nil || string(r.Answer) != canary {
					t.Errorf("Do: %q, %v, want the answer", r.Answer, err)
				}
				clear(r.Answer)
			})
		}
		synctest.Wait()
		l.settle(t, owner, chargedAs(retrysafe.Completed))
		all.Wait()
	})
}

// TestStepsAreSealed: the value of a step is an answer under a key of its own, and so is that of a typed operation.
func TestStepsAreSealed(t *testing.T) {
	ear := &eavesdropper{hooked: &hooked{Store: memstore.New(nil)}}
	e, err := retrysafe.New(ear, sealing(true, nil))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	for i := range 2 {
		got, _, err := retrysafe.Do(t.Context(), e, order, payload, nil, func(ctx context.Context) (string, error) {
			return retrysafe.Step(ctx, "charge", func(context.Context) (string, error) { return canary, nil })
		})
		if err != nil || got != canary {
			t.Errorf("Do %d: %q, %v, want the step's value", i, got, err)
		}
	}
	if strings.Contains(ear.said(), canary) {
		t.Error("the store was given the value in clear")
	}
}

// TestAnswersComeBackSealed exactly, of every size, nil and empty kept apart, kept whole or in part.
func TestAnswersComeBackSealed(t *testing.T) {
	for _, state := range []retrysafe.State{retrysafe.Completed, retrysafe.UnknownAnswered} {
		for _, answer := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte{7}, 15), bytes.Repeat([]byte{8}, 16), bytes.Repeat([]byte{9}, 1<<20)} {
			for _, notKept := range []bool{false, true} {
				l := newLab(t, sealing(true, nil))
				l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{State: state, Answer: answer, NotKept: notKept})
				c := l.mustClaim(t, hold, retrysafe.Replay)
				if !bytes.Equal(c.Answer, answer) || (c.Answer == nil) != (answer == nil) || c.NotKept != notKept || c.Failed != (state == retrysafe.UnknownAnswered) {
					t.Errorf("%v, %d bytes, nil %v, not kept %v: came back as %d, nil %v", state, len(answer), answer == nil, notKept, len(c.Answer), c.Answer == nil)
				}
			}
		}
	}
}
