package history

import (
	"cmp"
	"math"
	"slices"
)

// An epoch is all that a history says about one epoch of one key. Epochs of a key follow each other:
// one ends before the next is claimed. That order is what makes the check linear.
type epoch struct {
	number   int64
	mentions []mention
	owner    ref         // the call that claimed it or, an act, made it; nobody as long as none says so
	act      bool        // made by an operator, never in flight
	seen     [5]span     // the answers about it, by class from Busy to Mismatch
	acted    span        // its effects
	effects  int         // how many
	told     ref         // the first call that was told its answer
	kind     State       // Completed or UnknownAnswered once somebody was told which
	identity int         // index of the epoch whose fingerprint it carries: an act keeps that of what it replaced
	print    fingerprint // if identity is its own
	written  written     // what the trail has of it
	fate     fate        // what can become of it
	birth    int         // index of its first node
	ghost    bool        // an epoch that nobody saw must stand before it
}

// A span bounds a set of intervals: each contains a moment at which the same state stood.
type span struct{ firstEnd, lastStart bound }

// A bound is a time and the witness that it comes from.
type bound struct {
	at int64
	by ref
}

func (b *bound) raise(o bound) {
	if o.at > b.at {
		*b = o
	}
}

func (b *bound) lower(o bound) {
	if o.at < b.at {
		*b = o
	}
}

func noSpan() span { return span{bound{math.MaxInt64, nobody}, bound{math.MinInt64, nobody}} }

func (s *span) add(start, end int64, by ref) {
	s.firstEnd.lower(bound{end, by})
	s.lastStart.raise(bound{start, by})
}

func (s *span) any() bool { return s.firstEnd.by != nobody }

// of returns the answers of one class about e.
func (e *epoch) of(k Class) *span { return &e.seen[k-Busy] }

// speaker is a witness of e, its owner first; nobody if only an act or the trail knows of e.
func (e *epoch) speaker() ref {
	by := cmp.Or(e.owner+1, e.acted.firstEnd.by+1) // a ref of 0 is a witness
	for _, s := range e.seen {
		by = cmp.Or(by, s.firstEnd.by+1)
	}
	return by - 1
}

// A fingerprint is the one that an epoch is bound to, as far as it is known.
type fingerprint struct {
	value uint64
	by    ref   // who showed it
	not   []ref // mismatches: it is none of theirs
}

// gather sorts the mentions of one key into epochs.
func (c *checker) gather(mentions []mention) {
	distinct := 0
	for i := range mentions {
		if i == 0 || mentions[i].epoch != mentions[i-1].epoch {
			distinct++
		}
	}
	c.failed, c.epochs, c.nodes = c.failed[:0], slices.Grow(c.epochs[:0], distinct), c.nodes[:0]
	for len(mentions) > 0 {
		n := 1
		for n < len(mentions) && mentions[n].epoch == mentions[0].epoch {
			n++
		}
		if mentions[0].epoch > 0 {
			c.epochs = append(c.epochs, c.meet(mentions[:n]))
		} else {
			c.gatherFailed(mentions[:n])
		}
		mentions = mentions[n:]
	}
}

// gatherFailed collects the calls that may have claimed an epoch nobody names.
func (c *checker) gatherFailed(mentions []mention) {
	for _, m := range mentions {
		switch m.how {
		case byCall:
			c.failed = append(c.failed, ref(m.at))
		case byEffect:
			c.report(BadRecord, "effect without an epoch:", c.effect(m.at))
		case byRow:
			c.report(BadRecord, "row of the trail without an epoch")
		}
	}
}

func (c *checker) meet(mentions []mention) epoch {
	e := epoch{number: mentions[0].epoch, mentions: mentions, owner: nobody, told: nobody, acted: noSpan()}
	e.print.by = nobody
	for i := range e.seen {
		e.seen[i] = noSpan()
	}
	for _, m := range mentions {
		switch m.how {
		case byCall:
			c.hear(&e, ref(m.at))
		case byEffect:
			at := c.h.Effects[m.at].At
			e.acted.add(at, at, c.effect(m.at))
			e.effects++
		}
	}
	if e.effects > 1 {
		c.report(TwoEffects, "in one epoch:", e.acted.firstEnd.by, e.acted.lastStart.by)
	}
	c.compareAnswers(&e)
	return e
}

// hear takes in what one call says about e. A second owner is reported and left out: the epoch goes on as
// the first one's.
func (c *checker) hear(e *epoch, r ref) {
	call := c.call(r)
	switch call.Class {
	case Fresh, Resolved, Failed:
		if e.owner != nobody {
			c.report(TwoClaims, "", e.owner, r)
			return
		}
		e.owner, e.act = r, call.Class == Resolved
	default:
		e.of(call.Class).add(call.Start, call.End, r)
	}
}

// compareAnswers finds the answer of e and whoever was told another one.
func (c *checker) compareAnswers(e *epoch) {
	if o := c.call(e.owner); o != nil && o.Class != Failed && o.answered() {
		e.told = e.owner
		if o.Recorded != InFlight {
			e.kind = o.Recorded
		}
	}
	if !e.of(Replay).any() {
		return
	}
	for _, m := range e.mentions {
		if m.how != byCall || c.h.Calls[m.at].Class != Replay {
			continue
		}
		c.compareAnswer(e, ref(m.at))
	}
}

func (c *checker) compareAnswer(e *epoch, r ref) {
	call := c.call(r)
	if e.told == nobody {
		e.told = r
	}
	if e.kind == 0 {
		e.kind = call.Recorded
	}
	if first := c.call(e.told); first.Answer != call.Answer || e.kind != call.Recorded {
		c.report(TwoAnswers, "", e.told, r)
	}
}

// answered says that the caller of a Fresh or Resolved call holds an answer.
func (c *Call) answered() bool {
	return c.Recorded == Completed || c.Recorded == UnknownAnswered || c.Recorded == InFlight
}

// compareFingerprints checks that whoever was answered sent the fingerprint that the epoch is bound
// to, and that a mismatch sent another. What an epoch without a known owner may be bound to is left
// in its print.
func (c *checker) compareFingerprints() {
	for i := range c.epochs {
		c.bind(i)
	}
	for i := range c.epochs {
		e := &c.epochs[i]
		p := &c.epochs[e.identity].print
		for _, m := range e.mentions {
			if m.how == byCall && c.h.Calls[m.at].Class == Mismatch {
				c.compareMismatch(p, ref(m.at))
			}
		}
	}
}

// bind finds the fingerprint of epoch i from its owner, else from the first caller who was answered.
func (c *checker) bind(i int) {
	e := &c.epochs[i]
	e.identity = i
	if e.act {
		if i > 0 {
			e.identity = c.epochs[i-1].identity
		}
	} else if o := c.call(e.owner); o != nil {
		e.print.value, e.print.by = o.Fingerprint, e.owner
	}
	p := &c.epochs[e.identity].print
	for _, m := range e.mentions {
		if m.how == byCall {
			c.compareFingerprint(p, ref(m.at))
		}
	}
}

func (c *checker) compareFingerprint(p *fingerprint, r ref) {
	call := c.call(r)
	switch call.Class {
	case Failed, Fresh, Resolved, Mismatch:
		return
	}
	if p.by == nobody {
		p.value, p.by = call.Fingerprint, r
	}
	if p.value != call.Fingerprint {
		c.report(MissedMismatch, "", p.by, r)
	}
}

func (c *checker) compareMismatch(p *fingerprint, r ref) {
	if p.by == nobody {
		p.not = append(p.not, r)
		return
	}
	if p.value == c.call(r).Fingerprint {
		c.report(FalseMismatch, "", p.by, r)
	}
}

func (c *checker) effect(at int32) ref { return ref(int(at) + len(c.h.Calls)) }
