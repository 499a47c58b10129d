package retrysafe_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What Execute and Do give back: the answer of the first, to the byte, or why there is none (rules 9, 11 and 12).

// TestAnswersComeBackExactly, empty and nil told apart.
func TestAnswersComeBackExactly(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, answer := range map[string][]byte{"nil": nil, "empty": {}, "a zero": {0}, "every byte": every, "a megabyte": bytes.Repeat(every, 4096)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				for _, want := range []retrysafe.Verdict{retrysafe.Won, retrysafe.Replay, retrysafe.Replay} {
					r, err := l.Do(t.Context(), order, payload, func(context.Context) ([]byte, error) { return bytes.Clone(answer), nil })
					if err != nil || r.Verdict != want || !bytes.Equal(r.Answer, answer) || (r.Answer == nil) != (answer == nil) {
						t.Errorf("Do: %v, %d bytes, nil %v, %v; want %v, %d bytes, nil %v", r.Verdict, len(r.Answer), r.Answer == nil, err, want, len(answer), answer == nil)
					}
					for i := range r.Answer { // it is the caller's
						r.Answer[i] ^= 0xff
					}
				}
			})
		})
	}
}

// TestOutcomes: what each end of an operation leaves, and what the first and the next caller are told.
func TestOutcomes(t *testing.T) {
	kept := []byte("answer")
	tests := []struct {
		name   string
		out    retrysafe.Outcome
		stands retrysafe.State
		first  retrysafe.State // in the first caller's Result
		next   retrysafe.Verdict
		replay retrysafe.Outcome // what the next caller gets
	}{
		{"completed", retrysafe.Outcome{State: retrysafe.Completed, Answer: kept}, retrysafe.Completed, retrysafe.Completed,
			retrysafe.Replay, retrysafe.Outcome{State: retrysafe.Completed, Answer: kept}},
		{"completed, not kept", retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}, retrysafe.Completed, retrysafe.Completed,
			retrysafe.Replay, retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}},
		{"completed, kept in part", retrysafe.Outcome{State: retrysafe.Completed, Answer: kept, NotKept: true}, retrysafe.Completed, retrysafe.Completed,
			retrysafe.Replay, retrysafe.Outcome{State: retrysafe.Completed, Answer: kept, NotKept: true}},
		{"failed", retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: kept}, retrysafe.UnknownAnswered, retrysafe.UnknownAnswered,
			retrysafe.Replay, retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: kept}},
		{"nothing happened", retrysafe.Outcome{State: retrysafe.Free, Answer: kept}, retrysafe.Absent, retrysafe.Free, retrysafe.Won, retrysafe.Outcome{}},
		{"nobody knows", retrysafe.Outcome{}, retrysafe.Unknown, retrysafe.Unknown, retrysafe.OutcomeUnknown, retrysafe.Outcome{}},
		{"nobody knows, and an answer that is none", retrysafe.Outcome{State: retrysafe.Unknown, Answer: kept}, retrysafe.Unknown, retrysafe.Unknown, retrysafe.OutcomeUnknown, retrysafe.Outcome{}},
		{"in flight, which is no outcome", retrysafe.Outcome{State: retrysafe.InFlight}, retrysafe.Unknown, retrysafe.Unknown, retrysafe.OutcomeUnknown, retrysafe.Outcome{}},
		{"expired, which is no outcome", retrysafe.Outcome{State: retrysafe.Tombstone}, retrysafe.Unknown, retrysafe.Unknown, retrysafe.OutcomeUnknown, retrysafe.Outcome{}},
		{"a state of nothing", retrysafe.Outcome{State: 200}, retrysafe.Unknown, retrysafe.Unknown, retrysafe.OutcomeUnknown, retrysafe.Outcome{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				req := retrysafe.Request{Key: order, Fingerprint: payload}
				r, err := l.Execute(t.Context(), req, func(context.Context) retrysafe.Outcome { return tt.out })
				if err != nil || r.Err != nil || r.Verdict != retrysafe.Won || r.State != tt.first || r.ID != order.ID() || r.Epoch == 0 {
					t.Errorf("first: %+v, %v; want won, %v", r, err, tt.first)
				}
				l.wantState(t, tt.stands)
				next, err := l.Execute(t.Context(), req, func(context.Context) retrysafe.Outcome { return retrysafe.Outcome{} })
				if err != nil || next.Verdict != tt.next {
					t.Fatalf("next: %v, %v; want %v", next.Verdict, err, tt.next)
				}
				if got := tt.replay; next.Verdict == retrysafe.Replay && (next.State != got.State || !bytes.Equal(next.Answer, got.Answer) || next.NotKept != got.NotKept || next.Epoch != r.Epoch) {
					t.Errorf("next: %+v, want %+v at epoch %d", next, got, r.Epoch)
				}
			})
		})
	}
}

// TestStoreDown is SO-1: it fails closed, before and after the fingerprint keys are known, and works when it is back.
func TestStoreDown(t *testing.T) {
	for _, opened := range []bool{false, true} {
		t.Run(fmt.Sprint("opened ", opened), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &hooked{Store: memstore.New(nil)}
				e, err := retrysafe.New(s, nil)
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				if opened {
					if err := e.Open(t.Context()); err != nil {
						t.Fatalf("Open: %v", err)
					}
				}
				s.hook(down)
				_, err = e.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do", err, retrysafe.ErrStore)
				wantErr(t, "Do", err, errBlip)
				s.hook(nil)
				advance(10 * time.Second)
				if _, err := e.Do(t.Context(), order, payload, paid); err != nil {
					t.Errorf("Do when it is back: %v", err)
				}
			})
		})
	}
}

// TestStoreThatHangs costs a caller its StoreTimeout three times, no more.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Store: memstore.New(nil)}
		e, err := retrysafe.New(s, &retrysafe.Options{StoreTimeout: time.Second})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		if err := e.Open(t.Context()); err != nil {
			t.Fatalf("Open: %v", err)
		}
		s.hangs = true
		began := time.Now()
		_, err = e.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrStore)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Do took %v, want at most three times StoreTimeout", took)
		}
		s.hangs = false
		advance(10 * time.Second)
	})
}

// hanging is a store whose writes, while it hangs, take place never and answer when their ctx ends.
type hanging struct {
	*memstore.Store
	hangs bool
}

func (h *hanging) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	if h.hangs {
		<-ctx.Done()
		return retrysafe.Reply{}, ctx.Err()
	}
	return h.Store.Create(ctx, e)
}

// TestCallerIsNotHeldUpByAnothersOpening: while the first caller's look for the fingerprint keys hangs in the store,
// another whose patience is over leaves.
func TestCallerIsNotHeldUpByAnothersOpening(t *testing.T) {
	s := &hanging{Store: memstore.New(nil), hangs: true}
	e, err := retrysafe.New(s, &retrysafe.Options{StoreTimeout: time.Hour})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	do := func(ctx context.Context, told chan<- error) {
		_, err := e.Do(ctx, order, payload, never(t))
		told <- err
	}
	go do(ctx, first)
	gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
	defer leave()
	<-gone.Done()
	go do(gone, second)
	select {
	case err := <-second:
		wantErr(t, "Do of the second", err, context.DeadlineExceeded)
	case <-time.After(5 * time.Second):
		t.Error("the second caller is held up by the first")
	}
	cancel()
	wantErr(t, "Do of the first", <-first, context.Canceled)
}

// TestResultSaysTheEpoch that the operation ran under, and that its ctx carries.
func TestResultSaysTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var carried int64
		r := l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			carried = retrysafe.EpochOf(ctx)
			return paid(ctx)
		})
		again := l.mustDo(t, never(t))
		if carried == 0 || r.Epoch != carried || again.Epoch != carried {
			t.Errorf("epochs %d in the operation, %d in its result, %d in the replay; want one", carried, r.Epoch, again.Epoch)
		}
	})
}
