package history

import "fmt"

// A fate is what can become of an epoch, seen from its owner alone. An epoch runs
//
//	claimed -> [held as unknown] -> [decided: answer recorded] -> [expired] -> ended
//
// or claimed -> [held] -> released. An operator's act is decided or released at once.
type fate struct {
	hold    chance
	decide  chance
	release chance
	lapse   bool // it is held only by the end of its lease; else its owner can record it so at once
	final   bool // once held, its owner is out of the game: it neither decides nor releases
}

type chance uint8

const (
	never chance = iota
	may
	must
)

// fateOf reads the fate off what the owner was told; nil is an owner who was told nothing. Of such
// a one every end is possible.
func (r Rules) fateOf(owner *Call) fate {
	rerun := r.Policy == Rerun
	if owner == nil || owner.Class == Failed {
		return fate{hold: may, decide: may, release: may, final: rerun}
	}
	if owner.Class == Resolved {
		return fate{decide: mustIf(owner.Recorded == Completed), release: mustIf(owner.Recorded == Free)}
	}
	f := fate{hold: may, lapse: true}
	if rerun {
		f.hold = never // a lapsed claim is taken over instead
	}
	switch owner.Recorded {
	case Completed, UnknownAnswered:
		f.decide = must
	case InFlight:
		f.decide = may
	case Free:
		f.release = must
	case Unknown: // it gave up: it is late for nothing, and only an operator moves the key now
		f = fate{hold: must}
	}
	return f
}

func mustIf(is bool) chance {
	if is {
		return must
	}
	return never
}

// A path is the course that an epoch took, as far as the history shows it.
type path struct {
	held, decided, expired, released bool
}

// course reads the path off the answers about e and reports those that its fate rules out. A step that
// may have been taken, and that no answer shows, is left out: it would only bound the times further.
func (c *checker) course(e *epoch) path {
	f := &e.fate
	busy, unknown, replay, expired := e.of(Busy), e.of(OutcomeUnknown), e.of(Replay), e.of(Expired)
	if busy.any() && e.act {
		c.report(BusyOutside, "an operator's act is never in flight:", busy.lastStart.by)
	}
	if unknown.any() && f.hold == never {
		c.report(FalseUnknown, "", e.owner, unknown.lastStart.by)
	}
	if f.decide == never && (replay.any() || expired.any()) {
		c.report(NeverCompleted, "", e.owner, replay.lastStart.by, expired.lastStart.by)
	}
	if expired.any() && c.h.Rules.Retention == 0 {
		c.report(EarlyExpiry, "answers never expire here:", expired.lastStart.by)
	}
	if e.act && f.release == must && e.of(Mismatch).any() {
		c.report(FalseMismatch, "the key was free:", e.owner, e.of(Mismatch).lastStart.by)
	}
	p := path{
		held:     f.hold == must || f.hold == may && unknown.any(),
		decided:  f.decide == must || f.decide == may && (replay.any() || expired.any()),
		released: f.release == must,
	}
	p.expired = p.decided && expired.any() && c.h.Rules.Retention > 0
	if p.held && p.decided && f.final {
		c.report(NeverCompleted, "it was held for good:", e.owner, unknown.lastStart.by, replay.lastStart.by, expired.lastStart.by)
	}
	c.compareLedger(e, p)
	return p
}

// compareLedger holds what was told about e against the effects. A 5xx says nothing about its effect, and
// an operator's word stands for one.
func (c *checker) compareLedger(e *epoch, p path) {
	switch {
	case e.effects > 0 && e.act:
		c.report(EffectWithoutCall, "an operator's act has none:", e.acted.firstEnd.by)
	case e.effects > 0 && p.released:
		c.report(ReleasedYetActed, "", e.owner, e.acted.firstEnd.by)
	case c.h.Rules.Ledger && e.effects == 0 && p.decided && e.kind == Completed && !e.act:
		c.report(AnswerWithoutEffect, fmt.Sprintf("epoch %d:", e.number), e.told)
	}
}
