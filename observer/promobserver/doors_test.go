package promobserver_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// afterAClaim are the codes whose requests asked the store, which other metrics count.
var afterAClaim = []problem.Code{problem.AnswerNotKept, problem.KeyReused, problem.InFlight, problem.UpstreamUnreachable, problem.OutcomeUnknown,
	problem.AnswerExpired, problem.Unrecorded, problem.EntryUnreadable, problem.Draining, problem.StoreUnavailable}

// Every code that a door can answer with has a counter of its own, from the start.
func TestRefused(t *testing.T) {
	registry, o := register(t)
	for _, s := range problem.Situations {
		if s.Code == "" || slices.Contains(afterAClaim, s.Code) {
			continue
		}
		at := "refused_total " + string(s.Code)
		if v, ok := samples(t, registry)[at]; !ok || v != 0 {
			t.Errorf("%s stands at %v, %v, before anything happened", at, v, ok)
		}
		o.Observe(t.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: string(s.Code)})
		if v := samples(t, registry)[at]; v != 1 {
			t.Errorf("%s is %v after one", at, v)
		}
	}
	o.Observe(t.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: "k-secret"})
	if v := samples(t, registry)["refused_total other"]; v != 1 {
		t.Errorf("other is %v after a code that nobody knows", v)
	}
}

func TestPassedAndSuspected(t *testing.T) {
	registry, o := register(t)
	o.Observe(t.Context(), retrysafe.Event{Kind: retrysafe.EventPassed})
	o.Observe(t.Context(), retrysafe.Event{Kind: retrysafe.EventSuspected})
	if got := samples(t, registry); got["passed_total"] != 1 || got["suspected_total"] != 1 {
		t.Errorf("passed %v, suspected %v, want 1 of each", got["passed_total"], got["suspected_total"])
	}
}

// What is held is counted at each pass, and no longer when it was decided.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		ctx, stop := context.WithCancel(t.Context())
		go l.Run(ctx)
		defer stop()
		l.ends(t, retrysafe.Outcome{})
		advance(10 * time.Second)
		if got := samples(t, l.registry)["held"]; got != 1 {
			t.Errorf("held %v, want 1", got)
		}
		if _, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{By: "ann", Why: "bank says so"}); err != nil {
			t.Fatal(err)
		}
		advance(10 * time.Second)
		if got := samples(t, l.registry)["held"]; got != 0 {
			t.Errorf("held %v after the decision, want 0", got)
		}
	})
}

// Answers that are kept are measured, and nothing else.
func TestAnswerBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		l.ends(t, retrysafe.Outcome{State: retrysafe.Free})
		l.ends(t, retrysafe.Outcome{State: retrysafe.Completed, Answer: make([]byte, 300)})
		l.ends(t, retrysafe.Outcome{State: retrysafe.Completed}) // a replay
		if got := samples(t, l.registry); got["answer_bytes count"] != 1 || got["answer_bytes sum"] != 300 {
			t.Errorf("%v answers of %v bytes, want 1 of 300", got["answer_bytes count"], got["answer_bytes sum"])
		}
	})
}
