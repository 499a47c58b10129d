package history

import "slices"

// step takes one recorded step from s; nothing if it cannot be taken.
func (k *keyed) step(s standing, in step) []standing {
	switch {
	case k.absurd:
		return nil
	case in.deed == acts:
		return k.act(s, in.at)
	case in.deed == reads:
		return only(s, s.row == len(k.rows))
	}
	c := k.h.Calls[in.at]
	s.now = max(s.now, c.Start)
	if c.Class != Failed && s.now > c.End {
		return nil
	}
	switch {
	case in.deed == claims:
		return k.claim(s, c, in.at, c.Epoch)
	case in.deed == settles:
		return k.settle(s, c, in.at)
	case c.Class == Failed && c.Epoch > 0:
		return k.claim(s, c, in.at, c.Epoch)
	case c.Class == Failed:
		return k.fail(s, c, in.at)
	case c.Class == Resolved:
		return k.resolve(s, c)
	}
	return k.observe(s, c)
}

func only(s standing, ok bool) []standing {
	if !ok {
		return nil
	}
	return []standing{s}
}

// fail claims nothing, or any epoch that nobody owns.
func (k *keyed) fail(s standing, c Call, at int) []standing {
	all := []standing{s}
	for e := range k.bit {
		if !k.owned[e] {
			all = append(all, k.claim(s, c, at, e)...)
		}
	}
	return append(all, k.haunt(s, c, at)...)
}

// haunt takes over and releases under an epoch that nobody ever sees.
func (k *keyed) haunt(s standing, c Call, at int) []standing {
	ghost, r := s.epoch+1, k.h.Rules
	if r.Audit || r.Retention > 0 && r.Memory > 0 {
		return nil // every epoch is seen, or it would explain nothing
	}
	if _, seen := k.bit[ghost]; seen || s.phase != InFlight || s.print != c.Fingerprint {
		return nil
	}
	all := k.claim(s, c, at, ghost)
	for i := range all {
		all[i].phase, all[i].stored, all[i].print = Free, Free, 0
	}
	return all
}

func (k *keyed) claim(s standing, c Call, at int, epoch int64) []standing {
	r := k.h.Rules
	takes := s.phase == InFlight && r.Policy == Rerun
	if takes {
		s.now = max(s.now, s.since+int64(r.Lease))
	}
	if !takes && s.phase != Free || epoch <= s.epoch || c.Class == Fresh && s.now > c.End {
		return nil
	}
	shown := k.shown[epoch] || r.Audit && c.Nonce != 0
	follows := takes && s.shown && shown && !(r.Retention > 0 && r.Memory > 0)
	if follows && s.print != c.Fingerprint {
		return nil
	}
	s.shown = shown
	nonce := c.Nonce
	if r.Audit && s.row < len(k.rows) && nonce == 0 && !(c.Class == Failed && c.Epoch == 0 && k.nonces[k.rows[s.row].Nonce]) {
		nonce = k.rows[s.row].Nonce
	}
	s.nonce = nonce
	s, ok := k.write(s, epoch, InFlight)
	if !ok || r.Audit && nonce == 0 {
		return nil
	}
	s.epoch, s.phase, s.final, s.call, s.since = epoch, InFlight, false, at, s.now
	s.print, s.answer, s.known, s.claimed = c.Fingerprint, 0, false, s.claimed|k.bit[epoch]
	s.owner = records
	if c.Class == Failed {
		s.owner = fails
	} else if c.Recorded == InFlight {
		s.owner, s.answer, s.known = unrecorded, c.Answer, true
	}
	return []standing{s}
}

// write uses up the row of the trail that a step must have left.
func (k *keyed) write(s standing, epoch int64, to State) (standing, bool) {
	if !k.h.Rules.Audit {
		return s, true
	}
	if s.row == len(k.rows) {
		return s, false
	}
	t := k.rows[s.row]
	if t.Epoch != epoch || t.To != to || t.Nonce != s.nonce || !k.storedAs(s, t.From) {
		return s, false
	}
	s.row, s.stored = s.row+1, to
	return s, true
}

func (k *keyed) storedAs(s standing, from State) bool {
	r := k.h.Rules
	if s.stored == Completed || s.stored == UnknownAnswered {
		return from == s.stored || from == Tombstone && r.Retention > 0 || from == Free && r.Retention > 0 && r.Memory > 0
	}
	return from == s.stored
}

func (k *keyed) settle(s standing, c Call, at int) []standing {
	if s.epoch != c.Epoch || s.call != at || s.owner == operator {
		return nil
	}
	switch c.Recorded {
	case Unknown:
		if s.phase == Unknown {
			s.final = true
			return []standing{s}
		}
		return k.hold(s, true)
	case Free:
		return k.release(s)
	}
	s.answer, s.known = c.Answer, true
	return k.decide(s, c.Recorded)
}

func (k *keyed) hold(s standing, final bool) []standing {
	if s.phase != InFlight {
		return nil
	}
	s, ok := k.write(s, s.epoch, Unknown)
	s.phase, s.final = Unknown, final
	return only(s, ok)
}

func (k *keyed) release(s standing) []standing {
	open := s.phase == InFlight || s.phase == Unknown && !s.final
	if !open || k.count(s.epoch) > 0 {
		return nil
	}
	s, ok := k.write(s, s.epoch, Free)
	s.phase = Free
	return only(s, ok)
}

func (k *keyed) decide(s standing, to State) []standing {
	open := s.phase == InFlight || s.phase == Unknown && !s.final
	if !open || to == Completed && !k.effective(s) {
		return nil
	}
	s, ok := k.write(s, s.epoch, to)
	s.phase, s.since = to, s.now
	return only(s, ok)
}

// effective says whether every effect of the standing epoch has been, and one if it needs one.
func (k *keyed) effective(s standing) bool {
	n := 0
	for i, e := range k.effects {
		if k.h.Effects[e].Epoch != s.epoch {
			continue
		}
		if n++; s.done&(1<<i) == 0 {
			return false
		}
	}
	return n > 0 || !k.h.Rules.Ledger
}

func (k *keyed) count(epoch int64) (n int) {
	for _, e := range k.effects {
		if k.h.Effects[e].Epoch == epoch {
			n++
		}
	}
	return n
}

func (k *keyed) act(s standing, at int) []standing {
	e := k.h.Effects[at]
	s.now = max(s.now, e.At)
	if s.now > e.At || s.claimed&k.bit[e.Epoch] == 0 {
		return nil
	}
	for i, x := range k.effects {
		if x == at {
			s.done |= 1 << i
		}
	}
	return []standing{s}
}

func (k *keyed) resolve(s standing, c Call) []standing {
	unknown := s.phase == Unknown || s.phase == UnknownAnswered
	if s.epoch == 0 || s.epoch != c.Prior || !unknown && !c.Forced {
		return nil
	}
	if k.h.Rules.Audit && s.row < len(k.rows) {
		s.nonce = k.rows[s.row].Nonce
		if f := k.rows[s.row].From; !c.Forced && f != Unknown && f != UnknownAnswered {
			return nil
		}
	}
	s, ok := k.write(s, c.Epoch, c.Recorded)
	s.answer, s.known = c.Answer, true
	return only(operated(s, c.Epoch, c.Recorded), ok)
}

func operated(s standing, epoch int64, to State) standing {
	s.epoch, s.phase, s.owner, s.final, s.since = epoch, to, operator, false, s.now
	return s
}

func (k *keyed) observe(s standing, c Call) []standing {
	if c.Class == Refused || c.Class == Busy && c.Epoch == 0 {
		return []standing{s}
	}
	if s.epoch != c.Epoch || s.phase == Free || (s.print == c.Fingerprint) == (c.Class == Mismatch) {
		return nil
	}
	switch c.Class {
	case Busy:
		return only(s, s.phase == InFlight)
	case OutcomeUnknown:
		return only(s, s.phase == Unknown)
	case Expired:
		return only(s, s.phase == Tombstone)
	case Replay:
		if s.phase != c.Recorded || s.known && s.answer != c.Answer {
			return nil
		}
		s.answer, s.known = c.Answer, true
	}
	return []standing{s}
}

// unseen adds every standing that steps nobody recorded can lead to, and leaves out what another one
// reaches as early.
func (k *keyed) unseen(all []standing) []standing {
	for i := 0; i < len(all); i++ {
		all[i] = all[i].plain()
		if !slices.Contains(all[:i], all[i]) {
			all = append(all, k.spontaneous(all[i])...)
		}
	}
	var best []standing
	for i, s := range all {
		worse := func(o standing) bool { return o.earlier(s) && o != s }
		if !slices.Contains(all[:i], s) && !slices.ContainsFunc(all, worse) {
			best = append(best, s)
		}
	}
	return best
}

// plain drops what no later step looks at.
func (s standing) plain() standing {
	switch {
	case s.phase == Free:
		s.since, s.call, s.owner, s.final, s.answer, s.known, s.shown = 0, -1, operator, false, 0, false, false
	case s.phase == Unknown:
		s.since = 0
	}
	if s.owner == fails {
		s.call = -1
	}
	return s
}

// earlier says whether s is o, but no later.
func (s standing) earlier(o standing) bool {
	if s.now > o.now || s.since > o.since {
		return false
	}
	s.now, s.since = o.now, o.since
	return s == o
}

func (k *keyed) spontaneous(s standing) (all []standing) {
	r := k.h.Rules
	all = append(all, k.unheard(s)...)
	switch s.phase {
	case InFlight:
		if r.Policy == Hold {
			lapsed := s
			lapsed.now = max(s.now, s.since+int64(r.Lease))
			all = append(all, k.hold(lapsed, false)...)
		}
		if s.owner == fails {
			all = append(all, k.hold(s, r.Policy == Rerun)...)
		}
	case Completed, UnknownAnswered:
		if r.Retention > 0 {
			s.now = max(s.now, s.since+int64(r.Retention))
			s.phase, s.since = Tombstone, s.now
			all = append(all, s)
		}
		return all
	case Tombstone:
		if r.Memory > 0 {
			s.now = max(s.now, s.since+int64(r.Memory))
			s.phase = Free
			all = append(all, s)
		}
		return all
	}
	if s.owner == fails || s.owner == unrecorded {
		all = append(all, k.decide(s, Completed)...)
		all = append(all, k.decide(s, UnknownAnswered)...)
	}
	if s.owner == fails {
		all = append(all, k.release(s)...)
	}
	return all
}

// unheard follows the rows that no recorded call needs to explain.
func (k *keyed) unheard(s standing) []standing {
	if !k.h.Rules.Audit || s.row == len(k.rows) || s.epoch == 0 {
		return nil
	}
	t := k.rows[s.row]
	if !k.storedAs(s, t.From) {
		return nil
	}
	same := t.Epoch == s.epoch && t.Nonce == s.nonce
	old := t.From == Completed || t.From == UnknownAnswered
	switch {
	case same && t.From == InFlight && t.To == InFlight,
		same && (old && t.To == Tombstone || t.From == Tombstone && t.To == Free):
		s.row++
		return []standing{s}
	case t.Epoch > s.epoch && !k.owned[t.Epoch] && (t.To == Completed || t.To == Free):
		s.row, s.stored, s.nonce, s.answer, s.known = s.row+1, t.To, t.Nonce, 0, false
		return []standing{operated(s, t.Epoch, t.To)}
	}
	return nil
}
