package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Answer keys through the years: rotated, added to a store that kept answers in clear, lost.

// with is the lab of another process on the same store, with these answer keys.
func (l *lab) with(t *testing.T, keys ...string) *lab {
	t.Helper()
	o := &retrysafe.Options{Wait: time.Minute}
	for _, k := range keys {
		o.AnswerKeys = append(o.AnswerKeys, secret(k))
	}
	return labOver(t, l.store, o)
}

// TestAnswerKeys follows one store through deployments; each line is a process with its keys, in order. Each records an
// answer of its own and looks at all before.
func TestAnswerKeys(t *testing.T) {
	type process struct {
		keys  string // separated by blanks
		opens string // + or - for each process before
	}
	tests := []struct {
		name      string
		processes []process
	}{
		{"the same key", []process{{"a", ""}, {"a", "+"}, {"a", "++"}}},
		{"never any", []process{{"", ""}, {"", "+"}}},
		{"sealed from now on", []process{{"", ""}, {"a", "+"}, {"a", "++"}}},
		{"no more", []process{{"a", ""}, {"", "-"}, {"a", "++"}}},
		{"rotation", []process{{"a", ""}, {"b a", "+"}, {"b", "-+"}, {"b a", "+++"}}},
		{"two rotations", []process{{"a", ""}, {"b a", "+"}, {"c b a", "++"}, {"c", "--+"}}},
		{"rotation, and the oldest process restarts", []process{{"a", ""}, {"b a", "+"}, {"a", "+-"}, {"b a", "+++"}}},
		{"a key that is known before it seals", []process{{"a", ""}, {"a b", "+"}, {"b a", "++"}, {"a b", "+++"}}},
		{"another key", []process{{"a", ""}, {"b", "-"}, {"a", "+-"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newLab(t, nil)
				for i, p := range tt.processes {
					l := first.with(t, strings.Fields(p.keys)...)
					for before, opens := range p.opens {
						want := map[rune]error{'+': nil, '-': retrysafe.ErrUnreadable}[opens]
						r, err := l.Do(t.Context(), orderOf(before), payload, never(t))
						wantErr(t, fmt.Sprintf("process %d with %q: Do of what process %d recorded", i, p.keys, before), err, want)
						if want == nil && string(r.Answer) != fmt.Sprint("answer ", before) {
							t.Errorf("process %d: answer %q of process %d", i, r.Answer, before)
						}
					}
					if _, err := l.Do(t.Context(), orderOf(i), payload, func(context.Context) ([]byte, error) { return fmt.Append(nil, "answer ", i), nil }); err != nil {
						t.Errorf("process %d: Do: %v", i, err)
					}
				}
			})
		})
	}
}

func orderOf(process int) retrysafe.Key {
	return retrysafe.Key{Scope: "tenant-7", Name: fmt.Sprint("order-", process)}
}

// TestAnswerKeyThatIsGone fails closed on every path, says which key it was, and leaves the entry as it is. What needs
// no answer goes on.
func TestAnswerKeyThatIsGone(t *testing.T) {
	missing := func(t *testing.T, what string, err error) {
		t.Helper()
		wantErr(t, what, err, retrysafe.ErrUnreadable)
		if err != nil && !strings.Contains(err.Error(), "answer key "+retrysafe.AnswerKeyID(secret("a"))+", which is not configured") {
			t.Errorf("%s: %v, want it to name the key", what, err)
		}
	}
	tests := []struct {
		name string
		do   func(t *testing.T, l *lab)
		kept bool // what stands is as it was
	}{
		{"replay", func(t *testing.T, l *lab) {
			_, err := l.Do(t.Context(), order, payload, never(t))
			missing(t, "Do", err)
		}, true},
		{"what would be met", func(t *testing.T, l *lab) {
			_, ok, err := l.Met(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload})
			if missing(t, "Met", err); ok {
				t.Error("Met says that it met something")
			}
		}, true},
		{"another payload", func(t *testing.T, l *lab) {
			_, err := l.Do(t.Context(), order, other, never(t))
			wantErr(t, "Do", err, retrysafe.ErrMismatch)
		}, true},
		{"inspect", func(t *testing.T, l *lab) {
			rec, err := l.Inspect(t.Context(), order.ID())
			missing(t, "Inspect", err)
			missing(t, "Reason", fmt.Errorf("%w %s", retrysafe.ErrUnreadable, rec.Reason))
			if rec.Answer != nil || rec.Unreadable || rec.State != retrysafe.Completed || rec.Attempts != 1 || rec.Policy != hold {
				t.Errorf("Inspect: %+v, want all but the answer", rec)
			}
		}, true},
		{"list", func(t *testing.T, l *lab) {
			records, _, err := l.List(t.Context(), retrysafe.Filter{State: retrysafe.Completed})
			if err != nil || len(records) != 1 || records[0].Answer != nil || records[0].Reason == "" {
				t.Errorf("List: %+v, %v, want it without its answer, and why", records, err)
			}
		}, true},
		{"resolve", func(t *testing.T, l *lab) {
			_, err := l.Resolve(t.Context(), order.ID(), happened)
			if refused := (*retrysafe.RefusedError)(nil); !errors.As(err, &refused) || !refused.Force {
				t.Errorf("Resolve without force: %v, want it refused as of any answer", err)
			}
			l.resolves(t, true)
			l.wantCanary(t)
		}, false},
		{"resolve without an answer", func(t *testing.T, l *lab) {
			rec, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, By: "ann", Why: "asked the bank", Force: true})
			if err != nil || !rec.NotKept || rec.Answer != nil {
				t.Errorf("Resolve: %+v, %v", rec, err)
			}
		}, false},
		{"forget", func(t *testing.T, l *lab) {
			if _, err := l.Forget(t.Context(), order.ID(), "ann", "paid back", true); err != nil {
				t.Errorf("Forget: %v", err)
			}
			l.mustDo(t, charged)
			l.wantCanary(t)
		}, false},
		{"replays counted and swept, then the key is back", func(t *testing.T, l *lab) {
			l.CountReplay(order.ID())
			l.FlushReplays(t.Context())
			l.Sweep(t.Context())
			l.with(t, "b", "a").wantCanary(t)
		}, false},
		{"retention over", func(t *testing.T, l *lab) {
			advance(hold.Retention + time.Millisecond)
			_, err := l.Do(t.Context(), order, payload, never(t))
			wantErr(t, "Do", err, retrysafe.ErrExpired)
			if rec, err := l.Inspect(t.Context(), order.ID()); err != nil || rec.State != retrysafe.Tombstone || rec.Reason != "" {
				t.Errorf("Inspect: %+v, %v, want a tombstone like any other", rec, err)
			}
		}, true},
		{"swept to a tombstone", func(t *testing.T, l *lab) {
			advance(hold.Retention + time.Millisecond)
			if n, err := l.Sweep(t.Context()); n != 1 || err != nil {
				t.Errorf("Sweep: %d, %v, want 1", n, err)
			}
			_, err := l.Do(t.Context(), order, payload, never(t))
			wantErr(t, "Do", err, retrysafe.ErrExpired)
		}, false},
	}
	for _, tt := range tests {
		for _, keys := range [][]string{nil, {"b"}} {
			t.Run(fmt.Sprintf("%s, keys %q", tt.name, keys), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := newLab(t, nil)
					first.with(t, "a").mustDo(t, charged)
					before, _ := first.fetch(t, order)
					tt.do(t, first.with(t, keys...))
					if after, _ := first.fetch(t, order); tt.kept != (after.Rev == before.Rev) {
						t.Errorf("what stands was written over: %v", tt.kept)
					}
				})
			})
		}
	}
}

// TestWaiterWithoutTheKey is told so as well: it reads the entry on a way of its own.
func TestWaiterWithoutTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLab(t, nil)
		a, b := first.with(t, "a"), first.with(t, "b")
		owner := a.mustClaim(t, hold, retrysafe.Won)
		done := make(chan error, 1)
		go func() {
			_, err := b.Do(t.Context(), order, payload, never(t))
			done <- err
		}()
		synctest.Wait()
		a.settle(t, owner, chargedAs(retrysafe.Completed))
		wantErr(t, "Do", <-done, retrysafe.ErrUnreadable)
	})
}

// TestMovedAnswer is S5: two rows of the store with their answers exchanged, checksums and all, open for nobody.
func TestMovedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil).with(t, "a")
		l.mustDo(t, charged)
		theirs := retrysafe.Key{Scope: "tenant-8", Name: order.Name}
		if _, err := l.Do(t.Context(), theirs, payload, paid); err != nil {
			t.Fatalf("Do: %v", err)
		}
		row, _ := l.fetch(t, theirs)
		mine := l.damage(t, func(e retrysafe.Entry) retrysafe.Entry { return retrysafe.WithAnswerOf(e, row) })
		if err := mine.Check(); err != nil {
			t.Fatalf("Check: %v, want a row that looks sound", err)
		}
		r, err := l.Do(t.Context(), order, payload, never(t))
		if wantErr(t, "Do", err, retrysafe.ErrUnreadable); r.Answer != nil {
			t.Errorf("Do gave %q, another's answer", r.Answer)
		}
	})
}

// TestAnswerOfAnEarlierLife of the same key: the old row's answer, put into the row of what an operator decided.
func TestAnswerOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil).with(t, "a")
		l.mustDo(t, paid)
		before, _ := l.fetch(t, order)
		l.resolves(t, true)
		l.damage(t, func(e retrysafe.Entry) retrysafe.Entry { return retrysafe.WithAnswerOf(e, before) })
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrUnreadable)
	})
}

// TestFailurePassedOffAsSuccess: a sealed failure in a row that says completed is no answer.
func TestFailurePassedOffAsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil).with(t, "a")
		l.settle(t, l.mustClaim(t, hold, retrysafe.Won), chargedAs(retrysafe.UnknownAnswered))
		l.damage(t, func(e retrysafe.Entry) retrysafe.Entry {
			was := e
			e.State = retrysafe.Completed
			return retrysafe.Resettled(e, was)
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrUnreadable)
	})
}

// TestAnswerKeyOptions are refused before anything is opened.
func TestAnswerKeyOptions(t *testing.T) {
	for name, o := range map[string]*retrysafe.Options{
		"empty list":        {AnswerKeys: [][]byte{}},
		"short":             {AnswerKeys: [][]byte{secret("a")[1:]}},
		"a fingerprint key": {AnswerKeys: [][]byte{secret("a")}, FingerprintKeys: [][]byte{secret("b"), secret("a")}},
	} {
		_, err := retrysafe.New(memstore.New(nil), o)
		wantErr(t, name, err, retrysafe.ErrInvalid)
	}
}
