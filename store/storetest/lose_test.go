package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/storetest"
)

func TestLoseAnswersKeepsWhatAStoreCan(t *testing.T) {
	s := newEngine(newDisk(map[retrysafe.ID]retrysafe.Entry{}, time.Time{}))
	tests := []struct {
		name         string
		s            retrysafe.Store
		waits, lists bool
	}{
		{"a store", struct{ retrysafe.Store }{s}, false, false},
		{"a waiter", struct {
			retrysafe.Store
			retrysafe.Waiter
		}{s, s}, true, false},
		{"an inspector", struct {
			retrysafe.Store
			retrysafe.Inspector
		}{s, s}, false, true},
		{"both", s, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := storetest.LoseAnswers(tt.s)
			w, waits := l.(retrysafe.Waiter)
			i, lists := l.(retrysafe.Inspector)
			if waits != tt.waits || lists != tt.lists {
				t.Fatalf("got a Waiter: %v, an Inspector: %v; want %v, %v", waits, lists, tt.waits, tt.lists)
			}
			if waits {
				if err := w.Wait(t.Context(), retrysafe.ID{1}, retrysafe.Rev{}); err != nil {
					t.Errorf("wait: %v", err)
				}
			}
			if lists {
				if page, err := i.List(t.Context(), retrysafe.Query{}); err != nil || len(page.Entries) != 0 {
					t.Errorf("list: %d entries, %v", len(page.Entries), err)
				}
			}
		})
	}
}

func TestLoseAnswersLosesTheFirstAnswerToEachWrite(t *testing.T) {
	ctx := t.Context()
	s := newEngine(newDisk(map[retrysafe.ID]retrysafe.Entry{}, time.Time{}))
	l := storetest.LoseAnswers(s)
	first := entry{ID: retrysafe.ID{1}, Rev: retrysafe.NewRev(), State: retrysafe.InFlight}
	second, third := first, first
	second.Rev, third.Rev = retrysafe.NewRev(), retrysafe.NewRev()
	steps := []struct {
		name   string
		send   func() (reply, error)
		stands int // entries under the ID after each sending
		ok     bool
	}{
		{"create", func() (reply, error) { return l.Create(ctx, first) }, 1, true},
		{"swap", func() (reply, error) { return l.Swap(ctx, first.Rev, second) }, 1, true},
		{"refused swap", func() (reply, error) { return l.Swap(ctx, first.Rev, third) }, 1, false},
		{"refused delete", func() (reply, error) { return l.Delete(ctx, first.ID, first.Rev) }, 1, false},
		{"delete", func() (reply, error) { return l.Delete(ctx, first.ID, second.Rev) }, 0, true},
	}
	for _, step := range steps {
		for sending := range 3 {
			rep, err := step.send()
			if lost := sending == 0; errors.Is(err, storetest.ErrAnswerLost) != lost || !lost && (err != nil || rep.OK != step.ok) || lost && (rep.OK || rep.Found) {
				t.Fatalf("%s, sending %d: OK %v, %v", step.name, sending, rep.OK, err)
			}
			if got, _, err := l.Get(ctx, first.ID); err != nil || len(got) != step.stands {
				t.Fatalf("%s, sending %d: %d entries stand, %v; want %d", step.name, sending, len(got), err, step.stands)
			}
		}
	}
}

func TestLoseAnswersPassesErrors(t *testing.T) {
	l := storetest.LoseAnswers(newEngine(newDisk(map[retrysafe.ID]retrysafe.Entry{}, time.Time{})))
	e := entry{ID: retrysafe.ID{1}, Rev: retrysafe.NewRev()}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 2 {
		if _, err := l.Create(ended, e); !errors.Is(err, retrysafe.ErrNotWritten) {
			t.Fatalf("create with an ended context: %v, want the store's own error", err)
		}
	}
	if _, err := l.Create(t.Context(), e); !errors.Is(err, storetest.ErrAnswerLost) {
		t.Fatalf("create after errors: %v, want the first answer lost", err)
	}
	if rep, err := l.Create(t.Context(), e); err != nil || !rep.OK {
		t.Fatalf("create sent again: OK %v, %v", rep.OK, err)
	}
}
