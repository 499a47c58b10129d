package history

import (
	"fmt"
	"math"
	"time"
)

// The timeline of a key is one chain of moments: each epoch is claimed, perhaps held, decided, expired
// or released, and then the next is claimed. A moment cannot lie before the start of the call that made
// it, nor after the end of a call that already saw it; an answer out of a state keeps the following
// moment at or behind the answer's start. So every moment has a lower and an upper bound, neighbours have
// a least distance, and the earliest times, found front to back, fit if any times do.

// A node is one moment.
type node struct {
	lo, hi bound
	gap    time.Duration // least distance from the node before
	early  Kind          // what it means that the distance was not kept
}

func anytime() node { return node{lo: bound{math.MinInt64, nobody}, hi: bound{math.MaxInt64, nobody}} }

func (c *checker) layTimeline() {
	birth := anytime()
	for i := range c.epochs {
		e := &c.epochs[i]
		e.fate = c.fate(e)
		p := c.course(e)
		next := c.ending(i, &p)
		c.lay(e, p, birth)
		last(e, p, &next)
		birth = next
	}
}

// ending says what must hold between epoch i and the claim or act that ended it, and extends the
// path of i where only an unseen step explains that it ended.
func (c *checker) ending(i int, p *path) node {
	if i+1 == len(c.epochs) {
		return anytime()
	}
	if c.epochs[i+1].act {
		return c.endingByAct(i, *p)
	}
	return c.endingByClaim(i, p)
}

// endingByAct demands no distance, but that the act met what it says it met. That an act was allowed at
// all where nobody was told of a step before it, such as a 5xx that only the store knows, is for the trail.
func (c *checker) endingByAct(i int, p path) node {
	e, act := &c.epochs[i], &c.epochs[i+1]
	call := c.call(act.owner)
	switch {
	case call == nil: // known from the trail alone, which has judged it
	case call.Prior != e.number:
		c.report(EpochOrder, "an act replaced an epoch that did not stand:", act.owner)
	case call.Forced:
	case p.expired, p.released, p.decided && e.kind == Completed:
		c.report(FalseResolve, "", e.owner, e.told, act.owner)
	}
	return anytime()
}

// endingByClaim takes the first of the ways by which epoch i can have made room for a claim. Each way
// demands less of the times than the ways after it, so the first is enough.
func (c *checker) endingByClaim(i int, p *path) node {
	e, r, next := &c.epochs[i], c.h.Rules, anytime()
	stuck := p.held && e.fate.final
	switch {
	case p.released:
	case !p.decided && !stuck && e.fate.release == may && e.effects == 0:
		// An owner of whom nothing was heard released it. It cannot have if it took effect.
	case !p.decided && !p.held && !e.act && r.Policy == Rerun:
		next.gap, next.early = r.Lease, EarlyLapse
		c.compareTakeover(e, &c.epochs[i+1])
	case r.forgets() && (p.decided || !stuck && e.fate.decide == may):
		// Its answer, seen or not, went the way of retention and memory.
		p.decided, p.expired = true, true
		next.gap, next.early = r.Memory, RanAgain
	default:
		c.reportRanAgain(e, &c.epochs[i+1])
	}
	return next
}

// compareTakeover looks for a takeover by another fingerprint than that of the claim it took over. Only an
// epoch that nobody saw can explain it: a call that failed took over first, and released. Where keys are
// forgotten it need not have been a takeover at all.
func (c *checker) compareTakeover(e, next *epoch) {
	differ := e.print.by != nobody && next.print.by != nobody && e.print.value != next.print.value
	if !differ || c.h.Rules.forgets() {
		return
	}
	if c.h.Rules.Audit || next.number == e.number+1 {
		c.report(MissedMismatch, "taken over:", e.print.by, next.print.by)
		return
	}
	next.ghost = true
}

// reportRanAgain names the gravest thing that a second claim did.
func (c *checker) reportRanAgain(e, next *epoch) {
	kind, witnesses := RanAgain, []ref{e.speaker(), next.speaker()}
	a, b := c.call(e.owner), c.call(next.owner)
	switch {
	case e.effects > 0 && next.effects > 0:
		kind, witnesses = TwoEffects, append(witnesses, e.acted.firstEnd.by, next.acted.firstEnd.by)
	case c.h.Rules.Policy == Rerun && a != nil && b != nil && a.Class == Fresh && a.End >= b.Start:
		kind = Zombie
	}
	if e.told != e.owner {
		witnesses = append(witnesses, e.told)
	}
	c.report(kind, fmt.Sprintf("epoch %d after epoch %d:", next.number, e.number), witnesses...)
}

// lay puts the moments of e on the chain. birth comes with what the epoch before demands.
func (c *checker) lay(e *epoch, p path, birth node) {
	e.birth = len(c.nodes)
	owner := c.call(e.owner)
	definite := owner != nil && owner.Class != Failed
	ended := bound{math.MaxInt64, nobody}
	if owner != nil {
		birth.lo.raise(bound{owner.Start, e.owner})
	}
	if definite {
		ended = bound{owner.End, e.owner}
		birth.hi.lower(ended)
	}
	birth.hi.lower(e.of(Busy).firstEnd)
	birth.hi.lower(e.of(Mismatch).firstEnd)
	birth.hi.lower(e.acted.firstEnd)
	if e.act {
		birth.hi.lower(e.of(Replay).firstEnd)
	}
	c.nodes = append(c.nodes, birth)
	if p.held {
		c.nodes = append(c.nodes, c.holding(e, ended))
	}
	if p.decided && !e.act {
		c.nodes = append(c.nodes, decision(e, p, owner, ended))
	}
	if p.expired {
		x := node{lo: e.of(Replay).lastStart, hi: e.of(Expired).firstEnd, gap: c.h.Rules.Retention, early: EarlyExpiry}
		c.nodes = append(c.nodes, x)
	}
	if p.released && !e.act {
		z := anytime()
		last(e, p, &z)
		if owner != nil && owner.Recorded == Free {
			z.hi.lower(ended)
		}
		c.nodes = append(c.nodes, z)
	}
}

// holding is the moment at which the outcome becomes unknown.
func (c *checker) holding(e *epoch, ended bound) node {
	h := node{lo: e.of(Busy).lastStart, hi: e.of(OutcomeUnknown).firstEnd}
	if e.fate.lapse {
		h.gap, h.early = c.h.Rules.Lease, EarlyLapse
	} else if o := c.call(e.owner); o != nil && o.Recorded == Unknown {
		h.hi.lower(ended)
	}
	return h
}

// decision is the moment at which the answer is recorded. A completed answer comes after its effect; what
// answered 5xx may take effect later.
func decision(e *epoch, p path, owner *Call, ended bound) node {
	d := node{lo: e.of(Busy).lastStart, hi: e.of(Replay).firstEnd}
	if p.held {
		d.lo.raise(e.of(OutcomeUnknown).lastStart)
	}
	if e.kind == Completed {
		d.lo.raise(e.acted.lastStart)
	}
	if owner != nil && answered(owner.Recorded) {
		d.hi.lower(ended)
	}
	return d
}

// last keeps the end of e behind the start of the answers out of its last state. A mismatch is told
// in every state.
func last(e *epoch, p path, end *node) {
	end.lo.raise(e.of(Mismatch).lastStart)
	switch {
	case p.expired:
		end.lo.raise(e.of(Expired).lastStart)
	case p.decided:
		end.lo.raise(e.of(Replay).lastStart)
	case p.held:
		end.lo.raise(e.of(OutcomeUnknown).lastStart)
	default:
		end.lo.raise(e.of(Busy).lastStart)
	}
}

// walkTimeline finds the earliest time of every moment and reports each that is too late. It then goes
// on from the latest time allowed, so that one fault is told once.
func (c *checker) walkTimeline() {
	said := bound{math.MinInt64, nobody} // the witness that decides the earliest time
	earliest, early := said.at, Kind("") // early is set while distances are added to it
	for _, n := range c.nodes {
		if n.gap > 0 && earliest > math.MinInt64 {
			earliest, early = plus(earliest, n.gap), n.early
		}
		if n.lo.at >= earliest {
			said, earliest, early = n.lo, n.lo.at, ""
		}
		if earliest <= n.hi.at {
			continue
		}
		c.reportLate(said, n.hi, early)
		said, earliest, early = n.hi, n.hi.at, ""
	}
}

func (c *checker) reportLate(earliest, latest bound, early Kind) {
	kind, text := early, "too soon after each other:"
	if earliest.at > latest.at {
		kind, text = c.late(earliest.by, latest.by), "the first began after the second had ended:"
	}
	c.report(kind, text, earliest.by, latest.by)
}

// latest sets, back to front, how late every moment may be.
func (c *checker) latest() []int64 {
	times := make([]int64, len(c.nodes))
	next := int64(math.MaxInt64)
	for i := len(c.nodes) - 1; i >= 0; i-- {
		times[i] = min(next, c.nodes[i].hi.at)
		next = times[i]
		if next < math.MaxInt64 {
			next = -plus(-max(next, -math.MaxInt64), c.nodes[i].gap)
		}
	}
	return times
}

// plus is at + gap, or the end of time.
func plus(at int64, gap time.Duration) int64 {
	if at > math.MaxInt64-int64(gap) {
		return math.MaxInt64
	}
	return at + int64(gap)
}
