package retrysafe

import (
	"slices"
	"time"
)

// This file is the transition table: what every act may do to what stands. It is data; the verbs, the model
// test and docs/protocol.md read it, and nothing else decides a state.

// A LeaseEnd says what becomes of a claim whose lease ran out, unless its policy is two-step and it had not acted: that
// one is free. It is stored with the claim, and the stored one decides, not the configuration of whoever meets it.
type LeaseEnd uint8

// What becomes of a claim whose lease ran out.
const (
	Hold    LeaseEnd = iota // its outcome is unknown, held for a person
	Rerun                   // the next claim runs the operation again: at least once, asked for
	Recover                 // the next claim asks the world what happened, under a lease of its own
)

// String returns "hold", "rerun" or "recover".
func (l LeaseEnd) String() string { return [...]string{"hold", "rerun", "recover"}[min(l, Recover)] }

// A Verdict is what a claim meets.
type Verdict uint8

// The verdicts of a claim. The first three own the key; the others changed nothing for the caller.
const (
	Won            Verdict = iota + 1 // first: run the operation
	TookOver                          // its owner is gone and the policy is Rerun: run the operation again
	Recovering                        // its owner is gone and the policy is Recover: ask what happened
	Busy                              // somebody is on it
	Replay                            // done: here is the answer
	Mismatch                          // the key belongs to another operation
	OutcomeUnknown                    // held
	Expired                           // done, the answer is gone
)

var verdictNames = [...]string{"none", "won", "took_over", "recovering", "busy", "replay", "mismatch", "outcome_unknown", "expired"}

// String returns the verdict's name, as metrics carry it.
func (v Verdict) String() string { return verdictNames[min(int(v), len(verdictNames)-1)] }

// A situation is what stands under an ID at one moment of the store's clock.
type situation uint8

const (
	none          situation = iota // nothing stands
	free                           // Free
	over                           // memory has ended; the sweeper has not passed yet
	live                           // InFlight, lease running
	lapsedUnacted                  // InFlight, lease over, two-step and not marked: nothing can have happened
	lapsedHold                     // InFlight, lease over, by policy
	lapsedRerun                    //
	lapsedRecover                  //
	held                           // Unknown without answer
	heldRecover                    // the same, and the policy says recover
	done                           // Completed, within retention
	failed                         // UnknownAnswered, within retention
	past                           // Completed or UnknownAnswered after retention, and Tombstone
	situations                     // how many
)

var situationNames = [situations]string{"absent", "Free", "memory over", "InFlight, lease live",
	"InFlight, lease over, two-step and had not acted", "InFlight, lease over, hold",
	"InFlight, lease over, rerun", "InFlight, lease over, recover", "Unknown without answer, hold or rerun", "Unknown without answer, recover",
	"Completed", "Unknown with answer", "Tombstone, or retention over"}

// meet returns the situation of an entry with its record at now, on the store's clock.
func meet(e *Entry, rec *record, now time.Time) situation {
	age := now.Sub(e.Stamp)
	if e.TTL > 0 && age >= e.TTL {
		return over
	}
	switch e.State {
	case Free:
		return free
	case InFlight:
		if age < e.Due && !e.Orphan {
			return live
		}
		if rec.policy.TwoStep && !rec.acted {
			return lapsedUnacted
		}
		return lapsedHold + situation(min(rec.policy.OnLeaseEnd, Recover))
	case Unknown: // whether it was marked or not: its owner said so, or somebody who had seen the mark
		if rec.policy.OnLeaseEnd == Recover {
			return heldRecover
		}
		return held
	case Tombstone:
		return past
	}
	switch {
	case age >= e.Due:
		return past
	case e.State == Completed:
		return done
	}
	return failed
}

// A verb is an act on an entry. The owner's are checked against the claim's nonce before the table is asked.
type verb uint8

const (
	claim         verb = iota
	extend             // owner: the lease starts anew
	act                // owner: it acts from now on
	complete           // owner: done, answer kept or marked not kept
	fail               // owner: answered with a failure after which nobody knows
	hold               // owner: no answer, may have happened
	release            // owner: nothing happened
	sweep              // the sweeper passes
	resolveDone        // operator: it happened
	resolveUndone      // operator: it did not
	forget             // operator: claimable again, whatever happened
	verbs              // how many
)

var verbNames = [verbs]string{"claim", "owner extends", "owner acts", "owner completes", "owner completes with a failure", "owner ends without an answer",
	"owner releases", "sweep", "operator resolves: happened", "operator resolves: did not happen", "operator forgets"}

// An edge is a row of the table.
type edge struct {
	from    []situation
	verb    verb
	write   bool    // false: what stands stays as it is, to the byte
	to      State   // Absent: the entry is deleted, or kept Free where it has a history
	fence   bool    // a new epoch and a new nonce: whoever owned it may write nothing more
	force   bool    // only with force
	verdict Verdict // of a claim
}

var (
	claimable = []situation{none, free, over, lapsedUnacted}
	lapsed    = []situation{lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover}
	unsettled = []situation{lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover, held, heldRecover}
	owners    = []situation{live, lapsedUnacted, lapsedHold, lapsedRerun, lapsedRecover, held, heldRecover} // while the nonce is the owner's
)

var table = []edge{
	{from: claimable, verb: claim, write: true, to: InFlight, fence: true, verdict: Won},
	{from: []situation{live}, verb: claim, verdict: Busy},
	{from: []situation{lapsedHold}, verb: claim, write: true, to: Unknown, verdict: OutcomeUnknown},
	{from: []situation{lapsedRerun}, verb: claim, write: true, to: InFlight, fence: true, verdict: TookOver},
	{from: []situation{lapsedRecover, heldRecover}, verb: claim, write: true, to: InFlight, fence: true, verdict: Recovering},
	{from: []situation{held}, verb: claim, verdict: OutcomeUnknown},
	{from: []situation{done, failed}, verb: claim, verdict: Replay},
	{from: []situation{past}, verb: claim, verdict: Expired},

	{from: []situation{live}, verb: extend, write: true, to: InFlight},
	{from: lapsed, verb: extend, write: true, to: InFlight},
	{from: []situation{live}, verb: act, write: true, to: InFlight},
	{from: lapsed, verb: act, write: true, to: InFlight},
	{from: owners, verb: complete, write: true, to: Completed},
	{from: owners, verb: fail, write: true, to: UnknownAnswered},
	{from: owners, verb: hold, write: true, to: Unknown},
	{from: owners, verb: release, write: true, to: Absent},

	{from: []situation{over}, verb: sweep, write: true, to: Absent},
	{from: []situation{lapsedUnacted}, verb: sweep, write: true, to: Absent, fence: true},
	{from: []situation{lapsedHold}, verb: sweep, write: true, to: Unknown},
	{from: []situation{past}, verb: sweep, write: true, to: Tombstone},

	{from: unsettled, verb: resolveDone, write: true, to: Completed, fence: true},
	{from: []situation{failed}, verb: resolveDone, write: true, to: Completed, fence: true},
	{from: []situation{live, done}, verb: resolveDone, write: true, to: Completed, fence: true, force: true},
	{from: unsettled, verb: resolveUndone, write: true, to: Free, fence: true},
	{from: []situation{failed}, verb: resolveUndone, write: true, to: Free, fence: true},
	{from: []situation{live, done}, verb: resolveUndone, write: true, to: Free, fence: true, force: true},

	{from: []situation{free, failed, past}, verb: forget, write: true, to: Free, fence: true},
	{from: unsettled, verb: forget, write: true, to: Free, fence: true},
	{from: []situation{live, done}, verb: forget, write: true, to: Free, fence: true, force: true},
}

// edges is the table by situation and verb.
var edges = func() (m [situations][verbs]*edge) {
	for i := range table {
		for _, from := range table[i].from {
			m[from][table[i].verb] = &table[i]
		}
	}
	return m
}()

// decide returns what v does to s, or nil where the table has no such edge.
func decide(s situation, v verb) *edge { return edges[s][v] }

// compared tells whether the fingerprint of a claim must equal that of what stands. A mismatch changes
// nothing and wins over every other verdict.
func (s situation) compared() bool { return !slices.Contains(claimable, s) }

// nextEpoch is strictly greater than any epoch before, also where a release or the sweeper dropped the entry:
// the store's clock has moved on since.
func nextEpoch(before int64, now time.Time) int64 { return max(before+1, now.UnixMicro()) }
