package history

import (
	"cmp"
	"slices"
)

// Check returns what cannot have happened in h, key by key in the order in which the keys first
// appear: at most 16 violations a key, and before them at most 16 calls whose record makes no sense, which
// are left out of the rest. It returns nothing exactly when some order of the model's steps explains every
// call, effect and row.
func Check(h History) []Violation {
	c := &checker{h: h}
	if why := h.Rules.fault(); why != "" {
		c.report(BadRecord, why)
		return c.found
	}
	for _, mentions := range c.byKey() {
		c.judge(mentions)
	}
	return c.found
}

type checker struct {
	h     History
	found []Violation

	// Of the key being judged; the slices are used again for the next key.
	key    string
	count  int // violations of this key, those left out included
	failed []ref
	epochs []epoch
	nodes  []node
}

// A mention is one place where the history speaks of an epoch.
type mention struct {
	epoch int64
	how   how
	at    int32 // index into Calls, Effects or Trail
}

type how uint8

const (
	byCall  how = iota
	byPrior     // a Resolved call, of the epoch that it replaced
	byEffect
	byRow
)

// byKey lists the mentions of each key, sorted by epoch. Calls that say nothing of an epoch have 0.
func (c *checker) byKey() [][]mention {
	ids := make(map[string]int)
	var lists [][]mention
	add := func(key string, m mention) {
		id, ok := ids[key]
		if !ok {
			id = len(lists)
			ids[key], lists = id, append(lists, nil)
		}
		lists[id] = append(lists[id], m)
	}
	for i := range c.h.Calls {
		c.mentionsOf(int32(i), add)
	}
	for i, e := range c.h.Effects {
		add(e.Key, mention{e.Epoch, byEffect, int32(i)})
	}
	for i, t := range c.h.Trail {
		if c.h.Rules.Audit {
			add(t.Key, mention{t.Epoch, byRow, int32(i)})
		}
	}
	for _, l := range lists {
		slices.SortFunc(l, compareMentions)
	}
	return lists
}

func (c *checker) mentionsOf(i int32, add func(string, mention)) {
	call := &c.h.Calls[i]
	if why := call.fault(); why != "" {
		c.key = call.Key
		c.report(BadRecord, why+":", ref(i))
		return
	}
	if call.Class == Refused || call.Class == Busy && call.Epoch == 0 {
		return
	}
	add(call.Key, mention{call.Epoch, byCall, i})
	if call.Class == Resolved {
		add(call.Key, mention{call.Prior, byPrior, i})
	}
}

func compareMentions(a, b mention) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.how, b.how), cmp.Compare(a.at, b.at))
}

// fault says what is wrong with the rules; "" if nothing is.
func (r Rules) fault() string {
	if r.Policy > Rerun || r.Lease < 0 || r.Retention < 0 || r.Memory < 0 {
		return "rules: no such policy, or a negative time"
	}
	// A takeover always comes sooner than the end of memory, so Check need not try both.
	return when(r.forgets() && r.Lease-r.Retention > r.Memory, "rules: the lease is longer than retention and memory together")
}

// fault says what is wrong with the record of a call; "" if nothing is.
func (c *Call) fault() string {
	switch c.Class {
	case Failed:
		return when(c.Epoch < 0 || c.Recorded != 0, "negative epoch, or says that it recorded")
	case Refused:
		return when(c.Epoch != 0, "a refused call speaks of no epoch")
	case Busy:
		return when(c.End < c.Start || c.Epoch < 0, "ends before it starts, or negative epoch")
	case Fresh:
		if c.Recorded < Free || c.Recorded > Unknown {
			return "a fresh call says what it recorded"
		}
	case Replay:
		if c.Recorded != Completed && c.Recorded != UnknownAnswered {
			return "a replay says what was recorded"
		}
	case Resolved:
		if c.Recorded != Completed && c.Recorded != Free || c.Prior <= 0 || c.Prior >= c.Epoch {
			return "an operator resolves an older epoch to completed or free"
		}
	case OutcomeUnknown, Expired, Mismatch:
	default:
		return "no such class"
	}
	return when(c.End < c.Start || c.Epoch <= 0, "ends before it starts, or names no epoch")
}

func when(bad bool, why string) string {
	if bad {
		return why
	}
	return ""
}

// judge checks one key: first what can be said of each epoch alone, then the order and the times of all.
func (c *checker) judge(mentions []mention) {
	c.key, c.count = c.keyOf(mentions[0]), 0
	c.gather(mentions)
	c.readTrail()
	c.compareFingerprints()
	c.layTimeline()
	c.findOwners()
	c.walkTimeline()
}

func (c *checker) keyOf(m mention) string {
	switch m.how {
	case byEffect:
		return c.h.Effects[m.at].Key
	case byRow:
		return c.h.Trail[m.at].Key
	}
	return c.h.Calls[m.at].Key
}
