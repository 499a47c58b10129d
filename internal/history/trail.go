package history

import "fmt"

// written is what the trail has of one epoch.
type written struct {
	begun   bool
	held    bool
	settled State // Completed, UnknownAnswered or Free once it was settled
	nonce   uint64
}

// readTrail follows the rows of one key through the transition table and notes in each epoch what was
// written. A call that failed is then known to have claimed and settled, or not to have.
func (c *checker) readTrail() {
	if !c.h.Rules.Audit {
		return
	}
	claimants := c.failedByNonce()
	state, before := Free, int32(-1)
	for i := range c.epochs {
		e := &c.epochs[i]
		for _, m := range e.mentions {
			if m.how != byRow {
				continue
			}
			// The rows come sorted by epoch here. One that was written before its forerunner is out of order.
			if m.at < before {
				c.reportRow(m.at, "was written before a row of an older epoch")
			}
			before = m.at
			state = c.readRow(i, m.at, state)
		}
		c.claimByNonce(e, claimants)
	}
}

// failedByNonce takes the calls whose nonce is known out of those that may own any epoch: the trail says
// which one, or that there is none.
func (c *checker) failedByNonce() map[uint64]ref {
	claimants := make(map[uint64]ref)
	rest := c.failed[:0]
	for _, r := range c.failed {
		if nonce := c.call(r).Nonce; nonce != 0 {
			claimants[nonce] = r
		} else {
			rest = append(rest, r)
		}
	}
	c.failed = rest
	return claimants
}

func (c *checker) claimByNonce(e *epoch, claimants map[uint64]ref) {
	if r, ok := claimants[e.written.nonce]; ok && e.owner == nobody && !e.act {
		e.owner = r
		delete(claimants, e.written.nonce)
	}
	if o := c.call(e.owner); o != nil && !e.act && o.Nonce != 0 && o.Nonce != e.written.nonce {
		c.report(BadTrail, fmt.Sprintf("epoch %d was claimed under another nonce than its caller's:", e.number), e.owner)
	}
}

// readRow applies one row to the state before it and returns the state after it.
func (c *checker) readRow(i int, at int32, state State) State {
	e, t := &c.epochs[i], &c.h.Trail[at]
	w := &e.written
	if !c.h.Rules.standsAs(state, t.From) {
		c.reportRow(at, "does not follow "+state.String())
	}
	switch {
	case !w.begun:
		*w = written{begun: true, nonce: t.Nonce}
		c.readFirst(i, at)
	case t.Nonce != w.nonce:
		c.reportRow(at, "is not by the owner of the epoch")
	case ages(t):
		return state // whether it was time is judged by the answers
	case t.From == InFlight && t.To == InFlight: // extended
	case t.From == InFlight && t.To == Unknown:
		w.held = true
	case (t.From == InFlight || t.From == Unknown) && (t.To == Free || answered(t.To)):
		w.settled = t.To
	default:
		c.reportRow(at, "is no step within an epoch")
	}
	return t.To
}

// standsAs says whether a key left in state may be met as from: retention and memory end unwritten.
func (r Rules) standsAs(state, from State) bool {
	if !answered(state) || state == from {
		return state == from
	}
	return from == Tombstone && r.Retention > 0 || from == Free && r.forgets()
}

// forgets says whether a key with an answer may ever be claimed again.
func (r Rules) forgets() bool { return r.Retention > 0 && r.Memory > 0 }

// ages tells the writes of the sweeper.
func ages(t *Transition) bool {
	return answered(t.From) && t.To == Tombstone || t.From == Tombstone && t.To == Free
}

func answered(s State) bool { return s == Completed || s == UnknownAnswered }

// readFirst judges the row that began an epoch: a claim, or the act of an operator.
func (c *checker) readFirst(i int, at int32) {
	e, t := &c.epochs[i], &c.h.Trail[at]
	switch {
	case t.To == InFlight && !e.act:
		if t.Nonce == 0 {
			c.reportRow(at, "claims without a nonce")
		}
		if t.From != Free && !(t.From == InFlight && c.h.Rules.Policy == Rerun) && !c.h.Rules.forgotten(t.From) {
			c.reportRow(at, "claims a key that was not free")
		}
	case (t.To == Completed || t.To == Free) && i > 0 && (e.act || e.owner == nobody):
		e.act, e.written.settled = true, t.To
		c.compareAct(e, at)
	default:
		c.reportRow(at, "is no way to begin this epoch")
	}
}

// forgotten says whether an entry in state s may be past its memory.
func (r Rules) forgotten(s State) bool { return (answered(s) || s == Tombstone) && r.forgets() }

func (c *checker) compareAct(e *epoch, at int32) {
	call, t := c.call(e.owner), &c.h.Trail[at]
	if call == nil {
		return
	}
	if call.Recorded != t.To {
		c.reportRow(at, "is not what the operator was told")
	}
	if !call.Forced && t.From != Unknown && t.From != UnknownAnswered {
		c.reportRow(at, "resolves without force what was not unknown")
	}
}

// fate is the fate of e as its owner and the trail have it.
func (c *checker) fate(e *epoch) fate {
	f := c.h.Rules.fateOf(c.call(e.owner))
	w := &e.written
	switch {
	case !c.h.Rules.Audit:
		return f
	case !w.begun:
		c.report(BadTrail, fmt.Sprintf("epoch %d was never written:", e.number), e.owner)
		return f
	case w.held && f.final && w.settled != 0:
		c.report(BadTrail, fmt.Sprintf("epoch %d was settled after its owner had left it unknown:", e.number), e.owner)
	}
	if answered(w.settled) && e.kind == 0 {
		e.kind = w.settled
	}
	if answered(w.settled) && e.kind != w.settled {
		c.report(BadTrail, fmt.Sprintf("epoch %d was recorded as %v:", e.number, w.settled), e.told)
	}
	if e.act {
		return fate{decide: mustIf(w.settled == Completed), release: mustIf(w.settled == Free)}
	}
	f.hold = c.confirm(e, f.hold, w.held, Unknown)
	f.decide = c.confirm(e, f.decide, answered(w.settled), Completed)
	f.release = c.confirm(e, f.release, w.settled == Free, Free)
	return f
}

// confirm makes a chance definite, for the trail is complete.
func (c *checker) confirm(e *epoch, f chance, wrote bool, s State) chance {
	if wrote && f == never || !wrote && f == must {
		c.report(BadTrail, fmt.Sprintf("epoch %d, told otherwise, %v written: %t;", e.number, s, wrote), e.owner)
		return f
	}
	return mustIf(wrote)
}

func (c *checker) reportRow(at int32, text string) {
	t := &c.h.Trail[at]
	c.report(BadTrail, fmt.Sprintf("row #%d (epoch %d, %v to %v) %s", at, t.Epoch, t.From, t.To, text))
}
