// Package history judges what callers of an idempotency layer saw. A test records every call with a
// Recorder while faults are injected; Check then says what cannot have happened: a second effect, a
// second answer, a stale "busy", an answer out of an old epoch. It shares no code with the layer.
//
// Check is complete for the model written down in fate.go and timeline.go, and takes linear time once
// the calls of each key are sorted. The model leaves out, and so does not judge:
//
//   - the recovery of an unknown outcome by a claim of its own (policy recover);
//   - an epoch that comes back: once a later one stood, it is over, also if the later one was taken back;
//   - what lasts too long: a lease, an answer or a memory may outlive its time.
package history

import (
	"fmt"
	"strings"
	"time"
)

// A History is everything that was recorded in one run. The order of Calls and Effects does not
// matter; the rows of the Trail stand in the order in which they were written.
type History struct {
	Rules   Rules
	Calls   []Call
	Effects []Effect
	Trail   []Transition
}

// Rules are the settings that the layer ran under. They hold for every key of a history.
type Rules struct {
	// Policy says what becomes of a claim whose lease ended. Defaults to Hold.
	Policy Policy
	// Lease, if set, is the shortest time between a claim and its lapse. Zero: it may lapse at once.
	// It must not be longer than Retention and Memory together where both are set.
	Lease time.Duration
	// Retention, if set, is the shortest time for which an answer is kept. Zero: it never expires.
	Retention time.Duration
	// Memory, if set, is the shortest time, after the retention, for which a key is remembered.
	// Zero: it is never forgotten.
	Memory time.Duration
	// Ledger says that every effect is in Effects: an answer told as completed then needs one.
	Ledger bool
	// Audit says that every write of the layer is in Trail. Without it the Trail is not read.
	Audit bool
}

// Policy says what becomes of a claim whose lease ended.
type Policy uint8

const (
	Hold  Policy = iota // its outcome is unknown until the late owner or an operator settles it
	Rerun               // the next claim takes it over and runs the operation again
)

// A Call is one call as its caller saw it. Start and End are taken just outside the call, on one
// monotonic clock, in nanoseconds.
type Call struct {
	Key         string // scope and key in one; printed in violations
	Fingerprint uint64
	Start, End  int64 // End is not read where Class is Failed: such a call may act at any later time
	Class       Class
	// Recorded is what the caller was told about the record. Fresh: Completed, UnknownAnswered,
	// Unknown (no answer, and the owner is done with it), Free (released), or InFlight (answered, but not
	// recorded, or not yet).
	// Replay: Completed or UnknownAnswered. Resolved: Completed or Free.
	Recorded State
	// Epoch is the one the answer speaks of. A Busy answer that cannot know it has 0 and is not judged;
	// Refused has none; a Failed caller names it if it came to know that it had claimed.
	Epoch  int64
	Answer uint64 // hash of the answer told
	Nonce  uint64 // of the claim, if the caller knows it: leads to its rows of the Trail
	Prior  int64  // Resolved: the epoch that was replaced
	Forced bool   // Resolved: whatever its state was
}

// A Class is what a caller was answered. The zero value says nothing, and that is the honest
// record of a call which never returned.
type Class uint8

const (
	Failed         Class = iota // nothing said: may have claimed, acted and recorded, or may do so later
	Fresh                       // this call ran the operation
	Resolved                    // an operator settled the key under a new epoch
	Busy                        // another call holds the key
	OutcomeUnknown              // the outcome is held as unknown
	Replay                      // the recorded answer
	Expired                     // it happened, its answer is no longer kept
	Mismatch                    // the key stands for another operation
	Refused                     // nothing was claimed, and never will be, by this call
)

// A State is where a key stands.
type State uint8

const (
	Free            State = iota + 1 // nobody holds it: absent, or kept as claimable
	InFlight                         // claimed
	Completed                        // answer recorded
	UnknownAnswered                  // answer recorded, but it does not say whether it happened (5xx)
	Unknown                          // held without an answer
	Tombstone                        // answer dropped, key remembered
)

// An Effect is one row of the ledger that the operation itself writes, outside the layer. At is the
// time of the write on the clock of the calls.
type Effect struct {
	Key   string
	Epoch int64
	At    int64
}

// A Transition is one write of the layer to its store. A takeover and an operator's act name the new
// epoch. From is the state that was replaced; retention and memory need not have been written.
type Transition struct {
	Key      string
	Epoch    int64
	Nonce    uint64 // of the claim that the entry belongs to; 0 if not known
	From, To State
}

// String names the class.
func (c Class) String() string {
	names := [...]string{"failed", "fresh", "resolved", "busy", "unknown", "replay", "expired", "mismatch", "refused"}
	if int(c) >= len(names) {
		return fmt.Sprintf("class %d", uint8(c))
	}
	return names[c]
}

// String names the state.
func (s State) String() string {
	names := [...]string{"unset", "free", "in flight", "completed", "unknown with answer", "unknown", "tombstone"}
	if int(s) >= len(names) {
		return fmt.Sprintf("state %d", uint8(s))
	}
	return names[s]
}

// String is the call in one short line, without its key.
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(epoch %d", c.Class, c.Epoch)
	if c.Recorded != 0 {
		fmt.Fprintf(&b, ", %v", c.Recorded)
	}
	if c.Answer != 0 {
		fmt.Fprintf(&b, ", answer %x", c.Answer)
	}
	if c.Class == Resolved {
		fmt.Fprintf(&b, ", replaced %d, forced %t", c.Prior, c.Forced)
	}
	fmt.Fprintf(&b, ") fingerprint %x [%d %d]", c.Fingerprint, c.Start, c.End)
	return b.String()
}

// String is the whole history, a line for each entry, as violations number them.
func (h History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rules %+v\n", h.Rules)
	for i, c := range h.Calls {
		fmt.Fprintf(&b, "#%d %q %v nonce %x\n", i, c.Key, c, c.Nonce)
	}
	for i, e := range h.Effects {
		fmt.Fprintf(&b, "effect #%d %q epoch %d at %d\n", i, e.Key, e.Epoch, e.At)
	}
	for i, t := range h.Trail {
		fmt.Fprintf(&b, "row #%d %q epoch %d nonce %x: %v -> %v\n", i, t.Key, t.Epoch, t.Nonce, t.From, t.To)
	}
	return b.String()
}
