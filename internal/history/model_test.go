package history

import (
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The second opinion: the same state machine, one key at a time, run forward by porcupine over every
// order of the steps. It knows no bounds and no chains. A standing is one state it may be in.
type standing struct {
	now     int64 // the earliest time at which the steps so far can have been taken
	epoch   int64
	phase   State
	stored  State // the phase last written; retention and memory end unwritten
	final   bool  // held, and its owner is gone
	owner   party
	call    int   // of the owner, if it is known by index
	since   int64 // claimed, decided or expired at
	print   uint64
	answer  uint64
	known   bool   // answer is
	shown   bool   // print is, to callers
	claimed uint32 // bits of the epochs claimed so far
	done    uint32 // bits of the effects so far
	row     int
	nonce   uint64
}

type party uint8

const (
	fails      party = iota // its call failed: it may still do anything
	records                 // it says itself what it recorded
	unrecorded              // it told an answer and may still record it
	operator
)

// keyed is what does not change while one key is searched.
type keyed struct {
	h       History
	calls   []int
	effects []int
	rows    []Transition
	bit     map[int64]uint32
	owned   map[int64]bool
	nonces  map[uint64]bool // of failed calls
	shown   map[int64]bool  // epochs whose fingerprint somebody showed
	absurd  bool            // one epoch has two owners or two effects: no order can help
}

type deed uint8

const (
	whole   deed = iota // a call that is one step
	claims              // first step of a Fresh call
	settles             // second step of a Fresh call
	acts                // an effect
	reads               // the end: the trail is used up
)

type step struct {
	of   *keyed
	deed deed
	at   int // index of the call or effect
}

// opinion is the model. Its state is the set of all standings that may be.
func opinion() porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			byKey := make(map[*keyed][]porcupine.Operation)
			for _, o := range ops {
				k := o.Input.(step).of
				byKey[k] = append(byKey[k], o)
			}
			return slices.Collect(maps.Values(byKey))
		},
		Init: func() any { return []standing{{now: math.MinInt64, phase: Free, stored: Free}} },
		Step: func(state, input, output any) (bool, any) {
			in := input.(step)
			var next []standing
			for _, s := range state.([]standing) {
				next = append(next, in.of.step(s, in)...)
			}
			next = in.of.unseen(next)
			return len(next) > 0, next
		},
		Equal: func(a, b any) bool {
			x, y := a.([]standing), b.([]standing)
			return len(x) == len(y) && !slices.ContainsFunc(x, func(s standing) bool { return !slices.Contains(y, s) })
		},
		Hash: func(state any) (sum uint64) {
			for _, s := range state.([]standing) {
				sum += maphash.Comparable(seed, s)
			}
			return sum
		},
	}
}

// A conversion turns a history into porcupine's form.
type conversion struct {
	h    History
	keys map[string]*keyed
	ops  []porcupine.Operation
}

func operations(h History) []porcupine.Operation {
	v := &conversion{h: h, keys: make(map[string]*keyed)}
	for i := range h.Calls {
		v.call(i)
	}
	for i, e := range h.Effects {
		k := v.of(e.Key)
		k.absurd = k.absurd || k.count(e.Epoch) > 0
		k.effects = append(k.effects, i)
		k.see(e.Epoch)
		v.add(k, acts, i, e.At, e.At)
	}
	for _, t := range h.Trail {
		if k := v.of(t.Key); h.Rules.Audit {
			k.rows = append(k.rows, t)
			k.see(t.Epoch)
		}
	}
	for _, k := range v.keys {
		k.inherit()
		if h.Rules.Audit {
			v.add(k, reads, 0, math.MaxInt64-1, math.MaxInt64-1)
		}
	}
	return v.ops
}

func (v *conversion) of(key string) *keyed {
	if v.keys[key] == nil {
		v.keys[key] = &keyed{
			h: v.h, bit: make(map[int64]uint32), owned: make(map[int64]bool), nonces: make(map[uint64]bool), shown: make(map[int64]bool),
		}
	}
	return v.keys[key]
}

func (v *conversion) add(k *keyed, d deed, at int, from, to int64) {
	v.ops = append(v.ops, porcupine.Operation{Input: step{k, d, at}, Call: from, Return: to})
}

func (v *conversion) call(i int) {
	c := v.h.Calls[i]
	k := v.of(c.Key)
	k.calls = append(k.calls, i)
	k.learn(c)
	switch {
	case c.Class == Failed:
		v.add(k, whole, i, c.Start, math.MaxInt64)
	case c.Class == Fresh && c.Recorded == InFlight:
		v.add(k, claims, i, c.Start, c.End)
	case c.Class == Fresh:
		v.add(k, claims, i, c.Start, c.End)
		v.add(k, settles, i, c.Start, c.End)
	default:
		v.add(k, whole, i, c.Start, c.End)
	}
}

// inherit shows the fingerprint of an epoch through the act that replaced it and kept it.
func (k *keyed) inherit() {
	epochs := slices.Sorted(maps.Keys(k.bit))
	for i := len(epochs) - 1; i > 0; i-- {
		e, before := epochs[i], epochs[i-1]
		act := slices.ContainsFunc(k.calls, func(c int) bool {
			return k.h.Calls[c].Class == Resolved && k.h.Calls[c].Epoch == e
		})
		first := slices.IndexFunc(k.rows, func(t Transition) bool { return t.Epoch == e })
		unheard := first >= 0 && k.rows[first].To != InFlight && !k.owned[e]
		if (act || unheard) && k.shown[e] {
			k.shown[before] = true
		}
	}
}

func (k *keyed) see(epoch int64) {
	if _, ok := k.bit[epoch]; !ok && epoch > 0 {
		k.bit[epoch] = 1 << len(k.bit)
	}
}

func (k *keyed) learn(c Call) {
	k.see(c.Epoch)
	if c.Class != Mismatch && c.Class != Resolved {
		k.shown[c.Epoch] = true
	}
	k.see(c.Prior)
	if c.Class == Fresh || c.Class == Resolved || c.Class == Failed {
		k.absurd = k.absurd || c.Epoch > 0 && k.owned[c.Epoch]
		k.owned[c.Epoch] = true
	}
	if c.Class == Failed && c.Epoch == 0 && c.Nonce != 0 {
		k.nonces[c.Nonce] = true
	}
}
