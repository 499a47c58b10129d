package history

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A story is a history told in a few calls under one key, with fingerprint 1 and answer 7 where nothing
// else is said. Its want is the kind of its only violation, with a trail of its first; "" means legal.
type story struct {
	name    string
	rules   Rules
	calls   []Call
	effects []Effect
	trail   []Transition
	want    Kind
}

func fresh(epoch, start, end int64, recorded State) Call {
	c := Call{Class: Fresh, Epoch: epoch, Start: start, End: end, Recorded: recorded}
	if c.answered() {
		c.Answer = 7
	}
	return c
}

func replay(epoch, start, end int64) Call {
	return Call{Class: Replay, Epoch: epoch, Start: start, End: end, Recorded: Completed, Answer: 7}
}

func told(class Class, epoch, start, end int64) Call {
	return Call{Class: class, Epoch: epoch, Start: start, End: end}
}

func failed(start int64) Call { return Call{Class: Failed, Start: start} }

func resolved(epoch, prior, start, end int64, to State) Call {
	return Call{Class: Resolved, Epoch: epoch, Prior: prior, Start: start, End: end, Recorded: to, Answer: 7}
}

func forced(c Call) Call                   { c.Forced = true; return c }
func answering(answer uint64, c Call) Call { c.Answer = answer; return c }
func print3(c Call) Call                   { c.Fingerprint = 3; return c }
func print2(c Call) Call                   { c.Fingerprint = 2; return c }

// tell gives the story its key and its fingerprint.
func (s story) tell() History {
	h := History{Rules: s.rules, Calls: slices.Clone(s.calls), Effects: slices.Clone(s.effects), Trail: slices.Clone(s.trail)}
	for i := range h.Calls {
		h.Calls[i].Key = "k"
		h.Calls[i].Fingerprint = max(h.Calls[i].Fingerprint, 1)
	}
	for i := range h.Effects {
		h.Effects[i].Key = "k"
	}
	for i := range h.Trail {
		h.Trail[i].Key = "k"
	}
	return h
}

// judge checks that Check finds what the story wants and nothing else, and that porcupine agrees.
func judge(t *testing.T, stories []story) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			h := s.tell()
			found := Check(h)
			var kinds []Kind
			for _, v := range found {
				kinds = append(kinds, v.Kind)
				if strings.Contains(v.String(), "\n") || v.Key != "k" {
					t.Errorf("not one line about the key: %q", v)
				}
			}
			if s.rules.Audit {
				kinds = kinds[:min(1, len(kinds))] // a break in the trail shows in the calls, too
			}
			var want []Kind
			if s.want != "" {
				want = []Kind{s.want}
			}
			if !slices.Equal(kinds, want) {
				t.Errorf("Check found %v, want %q\n%v", found, s.want, h)
			}
			if legal := porcupine.CheckOperations(opinion(), operations(h)); legal != (s.want == "") {
				t.Errorf("porcupine says legal %t, want %q\n%v", legal, s.want, h)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	judge(t, []story{
		{name: "one run, then replays", calls: []Call{fresh(5, 0, 10, Completed), replay(5, 11, 12), replay(5, 13, 14)}},
		{name: "replay while the run has not returned", calls: []Call{fresh(5, 0, 10, Completed), replay(5, 3, 4)}},
		{name: "two answers", calls: []Call{fresh(5, 0, 10, Completed), answering(8, replay(5, 11, 12))}, want: TwoAnswers},
		{name: "two answers among replays", calls: []Call{failed(0), replay(5, 11, 12), answering(8, replay(5, 13, 14))}, want: TwoAnswers},
		{name: "completed, replayed as a 5xx", calls: []Call{fresh(5, 0, 10, UnknownAnswered), replay(5, 11, 12)}, want: TwoAnswers},
		{name: "answers of two epochs may differ", rules: Rules{Retention: 10, Memory: 10}, calls: []Call{
			fresh(5, 0, 10, Completed), answering(8, fresh(50, 40, 50, Completed)), answering(8, replay(50, 51, 52))}},
		{name: "replay of a released run", calls: []Call{fresh(5, 0, 10, Free), replay(5, 5, 6)}, want: NeverCompleted},
		{name: "replay of a run left unknown", calls: []Call{fresh(5, 0, 10, Unknown), replay(5, 11, 12)}, want: NeverCompleted},
		{name: "replay of an answer recorded late", calls: []Call{fresh(5, 0, 10, InFlight), told(Busy, 5, 11, 12), replay(5, 13, 14)}},
		{name: "replay of a call that failed", calls: []Call{failed(0), replay(5, 11, 12)}},
		{name: "replay before its run began", calls: []Call{fresh(5, 10, 20, Completed), replay(5, 3, 9)}, want: TooEarly},
		{name: "replay ends as its run begins", calls: []Call{fresh(5, 10, 20, Completed), replay(5, 3, 10)}},
		{name: "replay of an epoch nobody claimed", calls: []Call{replay(5, 11, 12)}, want: NoOwner},
		{name: "replay before the only failed call began", calls: []Call{failed(20), replay(5, 11, 12)}, want: NoOwner},
		{name: "one failed call cannot own two epochs", calls: []Call{failed(0), told(Busy, 5, 1, 2), told(Busy, 6, 3, 4)}, want: NoOwner},
		{name: "two failed calls can", calls: []Call{failed(0), failed(1), told(Busy, 5, 1, 2), told(Busy, 6, 3, 4)}},
		{name: "two failed calls, the second too late", calls: []Call{failed(0), failed(5), told(Busy, 5, 1, 2), told(Busy, 6, 3, 4)}, want: NoOwner},
		{name: "expired after its retention", rules: Rules{Retention: 10}, calls: []Call{fresh(5, 0, 10, Completed), told(Expired, 5, 11, 12)}},
		{name: "expired before its retention was over", rules: Rules{Retention: 10}, calls: []Call{fresh(5, 0, 10, Completed), told(Expired, 5, 5, 9)}, want: EarlyExpiry},
		{name: "expired where nothing expires", calls: []Call{fresh(5, 0, 10, Completed), told(Expired, 5, 50, 51)}, want: EarlyExpiry},
		{name: "replay after it had expired", rules: Rules{Retention: 10}, calls: []Call{fresh(5, 0, 10, Completed), told(Expired, 5, 30, 31), replay(5, 32, 33)}, want: StaleReplay},
		{name: "replay that overlaps the expired", rules: Rules{Retention: 10}, calls: []Call{fresh(5, 0, 10, Completed), told(Expired, 5, 30, 31), replay(5, 31, 33)}},
	})
}

func TestHolding(t *testing.T) {
	judge(t, []story{
		{name: "busy while the run is on", calls: []Call{fresh(5, 0, 10, Completed), told(Busy, 5, 10, 30)}},
		{name: "busy after the run was answered", calls: []Call{fresh(5, 0, 10, Completed), told(Busy, 5, 11, 30)}, want: StaleBusy},
		{name: "busy after a replay", calls: []Call{fresh(5, 0, 50, Completed), replay(5, 10, 20), told(Busy, 5, 21, 30)}, want: StaleBusy},
		{name: "busy after an unrecorded answer", calls: []Call{fresh(5, 0, 10, InFlight), told(Busy, 5, 11, 30)}},
		{name: "busy before the claim", calls: []Call{fresh(5, 10, 20, Completed), told(Busy, 5, 3, 9)}, want: BusyOutside},
		{name: "busy after the release", calls: []Call{fresh(5, 0, 10, Free), told(Busy, 5, 11, 12)}, want: BusyOutside},
		{name: "busy of an old epoch after a new claim", rules: Rules{Policy: Rerun}, calls: []Call{failed(0), failed(1), told(Busy, 6, 10, 20), told(Busy, 5, 21, 22)}, want: BusyOutside},
		{name: "busy of an operator's act", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), told(Busy, 6, 11, 12)}, want: BusyOutside},
		{name: "busy without an epoch is not judged", calls: []Call{fresh(5, 0, 10, Completed), told(Busy, 0, 11, 30)}},
		{name: "unknown, then the late owner completes", calls: []Call{fresh(5, 0, 50, Completed), told(OutcomeUnknown, 5, 20, 21), replay(5, 40, 41)}},
		{name: "unknown, then the late owner releases", calls: []Call{fresh(5, 0, 50, Free), told(OutcomeUnknown, 5, 20, 21), fresh(6, 30, 60, Completed)}},
		{name: "unknown after the owner was answered", calls: []Call{fresh(5, 0, 10, Completed), told(OutcomeUnknown, 5, 11, 12)}, want: FalseUnknown},
		{name: "unknown after a replay", calls: []Call{failed(0), replay(5, 1, 2), told(OutcomeUnknown, 5, 3, 4)}, want: FalseUnknown},
		{name: "unknown of a run that was taken over", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 10, InFlight), told(OutcomeUnknown, 5, 3, 4)}, want: FalseUnknown},
		{name: "busy after unknown", calls: []Call{failed(0), told(OutcomeUnknown, 5, 1, 2), told(Busy, 5, 3, 4)}, want: BusyOutside},
		{name: "unknown within the lease", rules: Rules{Lease: 10}, calls: []Call{fresh(5, 0, 50, Completed), told(OutcomeUnknown, 5, 8, 9)}, want: EarlyLapse},
		{name: "unknown at the end of the lease", rules: Rules{Lease: 10}, calls: []Call{fresh(5, 0, 50, Completed), told(OutcomeUnknown, 5, 8, 10)}},
		{name: "left unknown by its owner within the lease", rules: Rules{Lease: 10}, calls: []Call{fresh(5, 0, 6, Unknown), told(OutcomeUnknown, 5, 3, 4)}},
		{name: "mismatch with another fingerprint", calls: []Call{fresh(5, 0, 10, Completed), print2(told(Mismatch, 5, 20, 21))}},
		{name: "mismatch with the same fingerprint", calls: []Call{fresh(5, 0, 10, Completed), told(Mismatch, 5, 20, 21)}, want: FalseMismatch},
		{name: "mismatch after the release", calls: []Call{fresh(5, 0, 10, Free), print2(told(Mismatch, 5, 20, 21))}, want: FalseMismatch},
		{name: "mismatch with a freed key", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Free), print2(told(Mismatch, 6, 11, 12))}, want: FalseMismatch},
		{name: "mismatch with an operator's answer", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), print2(told(Mismatch, 6, 13, 14))}},
		{name: "mismatch that no failed call explains", calls: []Call{failed(0), told(Mismatch, 5, 2, 3)}, want: NoOwner},
		{name: "a call that was taken back once is not taken twice", calls: []Call{
			failed(0), print2(failed(1)), print2(failed(1)), {Fingerprint: 9, Class: Mismatch, Epoch: 5, Start: 0, End: 5},
			told(Busy, 6, 0, 6), told(Busy, 7, 0, 7)}, want: NoOwner},
		{name: "mismatches share out in two steps", calls: []Call{
			failed(0), failed(15), failed(18), print2(failed(1)), print3(failed(2)), print3(failed(6)),
			told(Busy, 3, 0, 1), {Fingerprint: 9, Class: Mismatch, Epoch: 4, Start: 0, End: 5}, print3(told(Busy, 5, 0, 8)),
			told(Busy, 6, 0, 20), print2(told(Busy, 7, 0, 30))}},
		{name: "mismatches cannot share out what began too late", calls: []Call{
			failed(0), failed(15), failed(18), print2(failed(1)), print3(failed(2)),
			told(Busy, 3, 0, 1), {Fingerprint: 9, Class: Mismatch, Epoch: 4, Start: 0, End: 5}, print3(told(Busy, 5, 0, 8)),
			told(Busy, 6, 0, 20), print2(told(Busy, 7, 0, 30))}, want: NoOwner},
		{name: "a failed call too late for the memory", rules: Rules{Retention: 10, Memory: 10}, calls: []Call{
			failed(0), failed(25), print2(failed(10)), told(Busy, 4, 1, 2), {Fingerprint: 9, Class: Mismatch, Epoch: 5, Start: 1, End: 30},
			fresh(60, 30, 40, Completed)}, effects: []Effect{{Epoch: 5, At: 28}}},
		{name: "mismatches share out the failed calls", calls: []Call{
			failed(0), print2(failed(0)), {Fingerprint: 3, Class: Mismatch, Epoch: 5, Start: 1, End: 2}, told(Busy, 6, 3, 4)}},
		{name: "replay across fingerprints", calls: []Call{fresh(5, 0, 10, Completed), print2(replay(5, 20, 21))}, want: MissedMismatch},
		{name: "busy across fingerprints", calls: []Call{fresh(5, 0, 10, Completed), print2(told(Busy, 5, 5, 6))}, want: MissedMismatch},
		{name: "replays of two fingerprints from one failed call", calls: []Call{failed(0), replay(5, 1, 2), print2(replay(5, 3, 4))}, want: MissedMismatch},
	})
}

func TestClaims(t *testing.T) {
	judge(t, []story{
		{name: "run again after a release", calls: []Call{fresh(5, 0, 10, Free), print2(fresh(6, 5, 20, Completed))}},
		{name: "run again after completion", calls: []Call{fresh(5, 0, 10, Completed), fresh(6, 11, 20, Completed)}, want: RanAgain},
		{name: "run again while held", calls: []Call{fresh(5, 0, 10, Unknown), fresh(6, 11, 20, Completed)}, want: RanAgain},
		{name: "run again though the answer is only unrecorded", calls: []Call{fresh(5, 0, 10, InFlight), fresh(6, 11, 20, Completed)}, want: RanAgain},
		{name: "run again after a failed call that was replayed", calls: []Call{failed(0), replay(5, 1, 2), fresh(6, 11, 20, Completed)}, want: RanAgain},
		{name: "run again after a failed call that may have released", calls: []Call{failed(0), told(Busy, 5, 1, 2), fresh(6, 11, 20, Completed)}},
		{name: "run again after the memory", rules: Rules{Retention: 10, Memory: 10}, calls: []Call{fresh(5, 0, 10, Completed), fresh(60, 11, 20, Completed)}},
		{name: "run again within the memory", rules: Rules{Retention: 10, Memory: 10}, calls: []Call{fresh(5, 0, 10, Completed), fresh(60, 11, 19, Completed)}, want: RanAgain},
		{name: "one epoch claimed twice", calls: []Call{fresh(5, 0, 10, Free), fresh(5, 20, 30, Free)}, want: TwoClaims},
		{name: "epochs against real time", calls: []Call{fresh(6, 0, 10, Free), fresh(5, 11, 20, Free)}, want: EpochOrder},
		{name: "epochs of overlapping claims", calls: []Call{fresh(6, 0, 10, Free), fresh(5, 10, 20, Free)}},
		{name: "taken over", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, InFlight), fresh(6, 20, 30, Completed), replay(6, 31, 32)}},
		{name: "taken over within the lease", rules: Rules{Policy: Rerun, Lease: 31}, calls: []Call{fresh(5, 0, 50, InFlight), fresh(6, 20, 30, Completed)}, want: EarlyLapse},
		{name: "taken over by another operation", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, InFlight), print2(fresh(6, 20, 30, Completed))}, want: MissedMismatch},
		{name: "another operation after a takeover that was released", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, InFlight), failed(0), print2(fresh(7, 20, 30, Completed))}},
		{name: "no epoch was free for such a takeover", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, InFlight), failed(0), print2(fresh(6, 20, 30, Completed))}, want: MissedMismatch},
		{name: "such a takeover began too late", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, InFlight), failed(31), print2(fresh(7, 20, 30, Completed))}, want: MissedMismatch},
		{name: "a zombie completes under its old epoch", rules: Rules{Policy: Rerun}, calls: []Call{fresh(5, 0, 50, Completed), fresh(6, 20, 30, Completed)}, want: Zombie},
		{name: "the old answer comes back", rules: Rules{Retention: 10, Memory: 10}, calls: []Call{fresh(5, 0, 10, Completed), fresh(60, 40, 50, Completed), replay(5, 51, 52)}, want: Zombie},
		{name: "held for good by its owner, then answered", rules: Rules{Policy: Rerun}, calls: []Call{failed(0), told(OutcomeUnknown, 5, 1, 2), replay(5, 3, 4)}, want: NeverCompleted},
		{name: "failed, but claimed for sure", calls: []Call{{Class: Failed, Epoch: 5}, replay(5, 1, 2)}},
		{name: "a refused call explains nothing", calls: []Call{{Class: Refused, End: 1}, replay(5, 1, 2)}, want: NoOwner},
	})
}

func TestActs(t *testing.T) {
	judge(t, []story{
		{name: "resolved as completed", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), replay(6, 13, 14)}},
		{name: "resolved as free, run again", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Free), fresh(7, 12, 20, Completed)}},
		{name: "run again before it was resolved", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 21, 22, Free), fresh(7, 12, 20, Completed)}, want: EpochOrder},
		{name: "a stored 5xx resolved", calls: []Call{fresh(5, 0, 10, UnknownAnswered), resolved(6, 5, 11, 12, Free)}},
		{name: "the owner is fenced by the act", calls: []Call{fresh(5, 0, 50, InFlight), told(OutcomeUnknown, 5, 5, 6), resolved(6, 5, 11, 12, Completed), replay(6, 13, 14)}},
		{name: "an expired 5xx resolved", rules: Rules{Retention: 10}, calls: []Call{fresh(5, 0, 10, UnknownAnswered), told(Expired, 5, 30, 31), resolved(6, 5, 32, 33, Free)}, want: FalseResolve},
		{name: "an operator's answer resolved", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), resolved(7, 6, 13, 14, Free)}, want: FalseResolve},
		{name: "an answer resolved", calls: []Call{fresh(5, 0, 10, Completed), resolved(6, 5, 11, 12, Free)}, want: FalseResolve},
		{name: "an answer resolved by force", calls: []Call{fresh(5, 0, 10, Completed), forced(resolved(6, 5, 11, 12, Free)), fresh(7, 13, 20, Completed)}},
		{name: "a released key resolved", calls: []Call{fresh(5, 0, 10, Free), resolved(6, 5, 11, 12, Free)}, want: FalseResolve},
		{name: "busy after it was resolved", calls: []Call{{Class: Failed, Epoch: 5}, told(Busy, 5, 20, 21), resolved(6, 5, 1, 19, Free)}, want: BusyOutside},
		{name: "an act upon what no longer stood", calls: []Call{fresh(5, 0, 10, Unknown), forced(resolved(6, 5, 11, 12, Free)), fresh(7, 13, 20, Unknown), resolved(8, 5, 21, 22, Free)}, want: EpochOrder},
		{name: "the operator's answer differs later", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), answering(8, replay(6, 13, 14))}, want: TwoAnswers},
		{name: "the fingerprint outlives the act", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed), print2(replay(6, 13, 14))}, want: MissedMismatch},
	})
}

func TestEffects(t *testing.T) {
	judge(t, []story{
		{name: "one effect", rules: Rules{Ledger: true}, calls: []Call{fresh(5, 0, 10, Completed)}, effects: []Effect{{Epoch: 5, At: 4}}},
		{name: "two effects of one run", calls: []Call{fresh(5, 0, 10, Completed)}, effects: []Effect{{Epoch: 5, At: 4}, {Epoch: 5, At: 5}}, want: TwoEffects},
		{name: "two effects of two runs", calls: []Call{failed(0), fresh(6, 11, 20, Completed)}, effects: []Effect{{Epoch: 5, At: 4}, {Epoch: 6, At: 15}}, want: TwoEffects},
		{name: "two effects with rerun", rules: Rules{Policy: Rerun}, calls: []Call{failed(0), fresh(6, 11, 20, Completed)}, effects: []Effect{{Epoch: 5, At: 25}, {Epoch: 6, At: 15}}},
		{name: "two effects around an operator's word", calls: []Call{failed(0), resolved(6, 5, 5, 6, Free), fresh(7, 11, 20, Completed)}, effects: []Effect{{Epoch: 5, At: 4}, {Epoch: 7, At: 15}}},
		{name: "freed although it acted", calls: []Call{failed(0), fresh(6, 11, 20, Unknown)}, effects: []Effect{{Epoch: 5, At: 4}}, want: RanAgain},
		{name: "released although it acted", calls: []Call{fresh(5, 0, 10, Free)}, effects: []Effect{{Epoch: 5, At: 4}}, want: ReleasedYetActed},
		{name: "answer without effect", rules: Rules{Ledger: true}, calls: []Call{fresh(5, 0, 10, Completed)}, want: AnswerWithoutEffect},
		{name: "replay without effect", rules: Rules{Ledger: true}, calls: []Call{failed(0), replay(5, 1, 2)}, want: AnswerWithoutEffect},
		{name: "a 5xx without effect", rules: Rules{Ledger: true}, calls: []Call{fresh(5, 0, 10, UnknownAnswered)}},
		{name: "effect without a call", calls: []Call{fresh(5, 0, 10, Free)}, effects: []Effect{{Epoch: 6, At: 20}}, want: EffectWithoutCall},
		{name: "effect of an operator", calls: []Call{fresh(5, 0, 10, Unknown), resolved(6, 5, 11, 12, Completed)}, effects: []Effect{{Epoch: 6, At: 12}}, want: EffectWithoutCall},
		{name: "effect of a failed call", calls: []Call{failed(0)}, effects: []Effect{{Epoch: 6, At: 20}}},
		{name: "effect before its claim", calls: []Call{fresh(5, 10, 20, Completed)}, effects: []Effect{{Epoch: 5, At: 4}}, want: TooEarly},
		{name: "effect after the answer", calls: []Call{fresh(5, 0, 10, Completed)}, effects: []Effect{{Epoch: 5, At: 11}}, want: TooEarly},
		{name: "effect after a 504", calls: []Call{fresh(5, 0, 10, UnknownAnswered)}, effects: []Effect{{Epoch: 5, At: 11}}},
	})
}

// What makes no sense is told, not judged.
func TestRecordsThatMakeNoSense(t *testing.T) {
	for name, h := range map[string]History{
		"fresh says nothing of the record": {Calls: []Call{{Class: Fresh, Epoch: 5}}},
		"fresh recorded a tombstone":       {Calls: []Call{fresh(5, 0, 10, Tombstone)}},
		"fresh without an epoch":           {Calls: []Call{fresh(0, 0, 10, Completed)}},
		"replay of what was free":          {Calls: []Call{{Class: Replay, Epoch: 5, Recorded: Free}}},
		"ends before it starts":            {Calls: []Call{told(Expired, 5, 10, 9)}},
		"busy ends before it starts":       {Calls: []Call{told(Busy, 0, 10, 9)}},
		"failed in a negative epoch":       {Calls: []Call{{Epoch: -1}}},
		"failed, yet recorded":             {Calls: []Call{{Recorded: Completed}}},
		"refused in an epoch":              {Calls: []Call{told(Refused, 5, 0, 1)}},
		"resolved into an older epoch":     {Calls: []Call{resolved(5, 6, 0, 1, Free)}},
		"no such class":                    {Calls: []Call{told(99, 5, 0, 1)}},
		"effect without an epoch":          {Effects: []Effect{{At: 5}}},
		"row without an epoch":             {Rules: Rules{Audit: true}, Trail: []Transition{{From: Free, To: InFlight}}},
		"negative lease":                   {Rules: Rules{Lease: -1}},
		"no such policy":                   {Rules: Rules{Policy: 9}},
		"lease longer than memory":         {Rules: Rules{Lease: 21, Retention: 10, Memory: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			if found := Check(h); len(found) != 1 || found[0].Kind != BadRecord {
				t.Errorf("Check found %v, want one %q\n%v", found, BadRecord, h)
			}
		})
	}
}

func TestTimesWithoutEnd(t *testing.T) {
	ever := time.Duration(math.MaxInt64)
	h := story{rules: Rules{Retention: ever, Memory: ever, Lease: ever}, calls: []Call{
		fresh(5, 0, 10, Completed), replay(5, 11, 12), failed(0), told(Busy, 9, 13, 14)}}.tell()
	if found := Check(h); len(found) != 1 || found[0].Kind != NoOwner && found[0].Kind != RanAgain {
		t.Errorf("Check found %v, want one claim that nothing explains", found)
	}
}

func TestAViolationNamesItsWitnesses(t *testing.T) {
	h := story{calls: []Call{replay(5, 11, 12), fresh(5, 0, 10, Completed), told(Busy, 5, 13, 20)}}.tell()
	found := Check(h)
	if len(found) != 1 || !slices.Equal(found[0].Calls, []int{2, 1}) {
		t.Fatalf("Check found %v, want the calls 2 and 1", found)
	}
	const want = `key "k": busy after the answer was told: the first began after the second had ended: ` +
		`#2 busy(epoch 5) fingerprint 1 [13 20]; #1 fresh(epoch 5, completed, answer 7) fingerprint 1 [0 10]`
	if got := found[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestABrokenKeyIsToldOfInPart(t *testing.T) {
	s := story{calls: []Call{fresh(5, 0, 10, Completed)}}
	for range 1000 {
		s.calls = append(s.calls, answering(8, replay(5, 11, 12)))
	}
	if found := Check(s.tell()); len(found) != perKey {
		t.Errorf("%d violations of one key, want %d", len(found), perKey)
	}
}
