package history

import (
	"cmp"
	"slices"
)

// An orphan is an epoch that some answer speaks of while no call says that it claimed it. One of the
// failed calls must have: with a fingerprint that fits, begun before the epoch had to stand, and each
// failed call claims one epoch at most. That is a matching in a bipartite graph.
type orphan struct {
	epoch  *epoch
	before *epoch  // set if it is not epoch that needs an owner, but an unseen one between the two
	pools  []*pool // whose fingerprint fits
	latest int64   // how late it may have been claimed
}

// A pool is the failed calls of one fingerprint, by start.
type pool struct {
	print uint64
	calls []claimant
	used  int // calls from here on are free
}

type claimant struct {
	start  int64
	orphan int // that it was given to
	asked  int // the round of the search that last asked for it
}

// A matching gives failed calls to orphans. Calls of one fingerprint are given out by their start, and
// that is optimal, for later orphans may take later calls. Only an orphan known from mismatches alone
// has a choice of fingerprints, so only then is another order searched for (augmenting paths).
type matching struct {
	orphans []orphan
	pools   []*pool
	byPrint map[uint64]*pool
	choice  bool
	round   int
}

// findOwners gives an owner to every orphan, and reports the first for which there is none. The start of
// the call so given lies before the latest time of the orphan's claim, and no other bound of the timeline
// depends on it, so the timeline stays as it is.
func (c *checker) findOwners() {
	var m matching
	for i := range c.epochs {
		e := &c.epochs[i]
		if e.ghost {
			m.orphans = append(m.orphans, orphan{epoch: e, before: &c.epochs[i-1]})
		}
		if e.owner == nobody && !e.act {
			m.orphans = append(m.orphans, orphan{epoch: e})
		}
	}
	if m.orphans == nil {
		return
	}
	latest := c.latest()
	m.fill(c)
	for i := range m.orphans {
		o := &m.orphans[i]
		o.latest, o.pools = latest[o.epoch.birth], m.fitting(c, o.print())
		if m.round++; !m.take(i) {
			c.reportOrphan(o)
			break
		}
	}
}

// fill sorts the failed calls into pools.
func (m *matching) fill(c *checker) {
	m.byPrint = make(map[uint64]*pool)
	slices.SortFunc(c.failed, func(a, b ref) int { return cmp.Compare(c.call(a).Start, c.call(b).Start) })
	for _, r := range c.failed {
		call := c.call(r)
		p := m.byPrint[call.Fingerprint]
		if p == nil {
			p = &pool{print: call.Fingerprint}
			m.byPrint[p.print], m.pools = p, append(m.pools, p)
		}
		p.calls = append(p.calls, claimant{start: call.Start})
	}
}

// print is the fingerprint that its owner must have sent.
func (o *orphan) print() *fingerprint {
	if o.before != nil {
		return &o.before.print
	}
	return &o.epoch.print
}

// fitting lists the pools of the fingerprints that p may be.
func (m *matching) fitting(c *checker, p *fingerprint) []*pool {
	if p.by != nobody {
		if p := m.byPrint[p.value]; p != nil {
			return []*pool{p}
		}
		return nil
	}
	m.choice = true
	not := make(map[uint64]bool)
	for _, r := range p.not {
		not[c.call(r).Fingerprint] = true
	}
	return slices.DeleteFunc(slices.Clone(m.pools), func(p *pool) bool { return not[p.print] })
}

// take finds a call for orphan i, a free one first.
func (m *matching) take(i int) bool {
	o := &m.orphans[i]
	for _, p := range o.pools {
		if p.used < len(p.calls) && p.calls[p.used].start <= o.latest {
			p.calls[p.used].orphan = i
			p.used++
			return true
		}
	}
	if !m.choice {
		return false
	}
	return slices.ContainsFunc(o.pools, func(p *pool) bool { return m.swap(i, p) })
}

// swap gives orphan i a call out of p whose orphan finds another one. Each call is asked for once a
// round, so a search passes every call once at most.
func (m *matching) swap(i int, p *pool) bool {
	for j := range p.used {
		k := &p.calls[j]
		if k.start > m.orphans[i].latest {
			return false
		}
		if k.asked == m.round {
			continue
		}
		if k.asked = m.round; m.take(k.orphan) {
			k.orphan = i
			return true
		}
	}
	return false
}

func (c *checker) reportOrphan(o *orphan) {
	const text = "no failed call is left that may have claimed the epoch:"
	e := o.epoch
	switch {
	case o.before != nil:
		c.report(MissedMismatch, "taken over:", o.before.print.by, e.print.by)
	case e.effects > 0:
		c.report(EffectWithoutCall, text, e.acted.firstEnd.by)
	default:
		c.report(NoOwner, text, e.speaker())
	}
}
