package history

import (
	"math/rand/v2"
	"time"
)

// A world is a small correct layer in simulated time: callers whose steps interleave at random, who
// die, time out, are late and come back; leases, retention and memory that end; operators. What it
// records is legal by construction.
type world struct {
	*rand.Rand
	h     History
	now   int64
	queue []event
	keys  map[string]*place
	lease int64 // the true times, never shorter than the rules say
	keep  int64
	know  int64
	names bool // callers know their nonces
	two   bool // in two steps: who acts says so before
	epoch int64
}

type event struct {
	at int64
	do func()
}

// A place is what the store has of one key.
type place struct {
	stored State
	epoch  int64
	print  uint64
	nonce  uint64
	answer uint64
	since  int64 // of the claim, an extension, or the answer
	acted  bool  // may have, under this claim or one that it took over
}

// randomWorld draws rules and a load, and lets it run until nothing is left to do.
func randomWorld(r *rand.Rand) History {
	w := &world{Rand: r, keys: make(map[string]*place), names: r.IntN(2) == 0}
	w.lease, w.keep, w.know = w.pick(0, 6, 15), w.pick(0, 1, 12), w.pick(0, 1, 12)
	if w.keep > 0 && w.know > 0 {
		w.lease = min(w.lease, w.keep+w.know)
	}
	w.h.Rules = Rules{
		Policy: Policy(w.IntN(2)), Lease: time.Duration(w.lease), Retention: time.Duration(w.keep), Memory: time.Duration(w.know),
		Ledger: w.IntN(3) > 0, Audit: w.IntN(3) == 0,
	}
	w.two = !w.h.Rules.Audit && w.one(2) // to the judges such a claim was released by an owner nobody heard of; a trail says who did
	w.lease += int64(w.IntN(5))
	w.load()
	for len(w.queue) > 0 {
		next := 0
		for i, e := range w.queue {
			if e.at < w.queue[next].at {
				next = i
			}
		}
		e := w.queue[next]
		w.queue = append(w.queue[:next], w.queue[next+1:]...)
		w.now = e.at
		e.do()
	}
	return w.h
}

func (w *world) pick(of ...int64) int64 { return of[w.IntN(len(of))] }
func (w *world) one(in int) bool        { return w.IntN(in) == 0 }
func (w *world) after(spread int, do func()) {
	w.queue = append(w.queue, event{w.now + int64(w.IntN(spread+1)), do})
}

// load plans at most 10 calls a key.
func (w *world) load() {
	for _, key := range []string{"a", "b"}[:1+w.IntN(5)/4] {
		w.keys[key] = &place{stored: Free}
		spread := 10 + w.IntN(60)
		for range 3 + w.IntN(8) {
			if w.one(10) {
				w.after(spread, func() { w.operate(key) })
				continue
			}
			w.after(spread, func() { w.call(key) })
		}
		w.after(spread, func() { w.sweep(key) })
	}
}

func (w *world) sweep(key string) {
	p := w.keys[key]
	lapsed := p.stored == InFlight && w.now >= p.since+w.lease
	switch {
	case lapsed && w.two && !p.acted:
		w.put(key, p.epoch, w.Uint64()|1, Free)
		return
	case lapsed && w.h.Rules.Policy == Hold:
		w.put(key, p.epoch, p.nonce, Unknown)
		return
	}
	s := w.state(p)
	if (s == Tombstone || s == Free) && answered(p.stored) && w.one(2) {
		w.h.Trail = append(w.h.Trail, Transition{key, p.epoch, p.nonce, p.stored, Tombstone})
	}
}

// state is where the key stands now, retention and memory counted.
func (w *world) state(p *place) State {
	if !answered(p.stored) || w.h.Rules.Retention == 0 || w.now < p.since+w.keep {
		return p.stored
	}
	if w.h.Rules.Memory == 0 || w.now < p.since+w.keep+w.know {
		return Tombstone
	}
	return Free
}

func (w *world) put(key string, epoch int64, nonce uint64, to State) {
	p := w.keys[key]
	from := p.stored
	if answered(from) && w.one(2) {
		from = w.state(p)
	}
	w.h.Trail = append(w.h.Trail, Transition{key, epoch, nonce, from, to})
	p.stored, p.epoch, p.nonce = to, epoch, nonce
	if to != Unknown {
		p.since = w.now
	}
}

func (w *world) newEpoch(p *place) int64 {
	w.epoch = max(w.epoch, p.epoch) + 1 + int64(w.IntN(3))
	return w.epoch
}

// call is one caller: it starts, is judged, may run, and returns, each after a while.
func (w *world) call(key string) {
	c := Call{Key: key, Fingerprint: 1, Start: w.now}
	if w.one(8) {
		c.Fingerprint = 2
	}
	i := len(w.h.Calls)
	w.h.Calls = append(w.h.Calls, c)
	switch {
	case w.one(25): // never arrives
		return
	case w.one(30):
		w.after(5, func() { w.finish(i, Call{Class: Refused}) })
	default:
		w.after(8, func() { w.judge(i) })
	}
}

// finish lets the caller return with what c says, unless its answer is lost.
func (w *world) finish(i int, c Call) {
	begun := &w.h.Calls[i]
	if c.Class != Failed && w.one(12) {
		c = Call{Nonce: c.Nonce}
	}
	c.Key, c.Fingerprint, c.Start, c.End = begun.Key, begun.Fingerprint, begun.Start, w.now
	*begun = c
}

func (w *world) judge(i int) {
	key := w.h.Calls[i].Key
	p, c := w.keys[key], Call{}
	state := w.state(p)
	lapsed := state == InFlight && w.now >= p.since+w.lease
	takes := lapsed && w.h.Rules.Policy == Rerun
	c.Epoch = p.epoch
	switch {
	case state == Free || lapsed && w.two && !p.acted:
		p.acted = false
		w.run(i)
		return
	case takes && p.print == w.h.Calls[i].Fingerprint:
		p.acted = true
		w.run(i)
		return
	case p.print != w.h.Calls[i].Fingerprint:
		c.Class = Mismatch
	case lapsed:
		w.put(key, p.epoch, p.nonce, Unknown)
		c.Class = OutcomeUnknown
	case state == InFlight:
		c.Class = Busy
	case state == Unknown:
		c.Class = OutcomeUnknown
	case state == Tombstone:
		c.Class = Expired
	default:
		c.Class, c.Recorded, c.Answer = Replay, state, p.answer
	}
	w.after(6, func() { w.finish(i, c) })
}

// A run is one claim on its way.
type run struct {
	call    int
	key     string
	epoch   int64
	nonce   uint64
	outcome State
	answer  uint64
	deaf    bool // its caller is gone
	early   bool // its caller is told before the answer is recorded
}

func (w *world) run(i int) {
	key := w.h.Calls[i].Key
	p := w.keys[key]
	p.print = w.h.Calls[i].Fingerprint
	outcomes := []State{Completed, Completed, Completed, Completed, UnknownAnswered, Unknown, Free, InFlight}
	r := &run{
		call: i, key: key, epoch: w.newEpoch(p), nonce: w.Uint64() | 1,
		outcome: outcomes[w.IntN(len(outcomes))], answer: 1 + w.Uint64N(1e6), deaf: w.one(6), early: w.one(8),
	}
	w.put(key, r.epoch, r.nonce, InFlight)
	if r.deaf {
		w.lose(r)
		if w.one(2) {
			return // the process is gone, too
		}
	}
	if w.one(4) {
		w.after(15, func() { w.extend(r) })
	}
	if r.outcome == Free {
		w.after(12, func() { w.settle(r) })
		return
	}
	w.after(12, func() { w.takeEffect(r) })
}

// lose leaves the call as one that failed.
func (w *world) lose(r *run) {
	c := Call{}
	if w.one(3) {
		c.Epoch = r.epoch
	}
	if w.names {
		c.Nonce = r.nonce
	}
	w.finish(r.call, c)
}

func (w *world) extend(r *run) {
	if p := w.keys[r.key]; p.stored == InFlight && p.nonce == r.nonce {
		w.put(r.key, r.epoch, r.nonce, InFlight)
	}
}

func (w *world) takeEffect(r *run) {
	if w.two && !w.mark(r) {
		return
	}
	act := func() { w.h.Effects = append(w.h.Effects, Effect{r.key, r.epoch, w.now}) }
	switch {
	case r.outcome == Completed || w.one(2):
		act()
	case w.one(4): // what an upstream has been sent may act later
		w.after(30, act)
	}
	switch {
	case r.outcome == InFlight, r.early && answered(r.outcome):
		w.after(3, func() { w.tell(r, InFlight) })
	}
	if r.outcome != InFlight {
		w.after(12, func() { w.settle(r) })
	}
}

// mark has r say that it acts, if its claim still stands; else its caller knows nothing, and nothing happens.
func (w *world) mark(r *run) bool {
	p := w.keys[r.key]
	if p.nonce == r.nonce && p.stored == InFlight {
		p.acted = true
		return true
	}
	if !r.deaf {
		w.lose(r)
		r.deaf = true
	}
	return false
}

// settle records the outcome, if the claim still stands.
func (w *world) settle(r *run) {
	p := w.keys[r.key]
	stands := p.nonce == r.nonce && p.epoch == r.epoch
	switch {
	case stands && p.stored == Unknown && r.outcome == Unknown:
	case stands && (p.stored == InFlight || p.stored == Unknown):
		w.put(r.key, r.epoch, r.nonce, r.outcome)
		p.answer = r.answer
	case answered(r.outcome): // fenced, yet the caller has its answer
		w.tell(r, InFlight)
		return
	default:
		if !r.deaf {
			w.lose(r)
			r.deaf = true
		}
		return
	}
	w.tell(r, r.outcome)
}

func (w *world) tell(r *run, recorded State) {
	if r.deaf {
		return
	}
	r.deaf = true
	c := Call{Class: Fresh, Epoch: r.epoch, Recorded: recorded, Answer: r.answer}
	if recorded == Unknown || recorded == Free {
		c.Answer = 0
	}
	if w.names {
		c.Nonce = r.nonce
	}
	w.after(6, func() { w.finish(r.call, c) })
}

// operate is an operator who settles the key by hand.
func (w *world) operate(key string) {
	c := Call{Key: key, Class: Resolved, Start: w.now, Recorded: Completed, Forced: w.one(3), Answer: 1 + w.Uint64N(1e6)}
	if w.one(2) {
		c.Recorded, c.Answer = Free, 0
	}
	w.after(5, func() {
		p := w.keys[key]
		s := w.state(p)
		if p.epoch == 0 || s == Free || !c.Forced && s != Unknown && s != UnknownAnswered {
			return
		}
		if w.h.Rules.Audit && w.one(4) { // an operator of whom only the trail knows
			w.put(key, w.newEpoch(p), w.Uint64()|1, c.Recorded)
			p.answer = c.Answer
			return
		}
		c.Prior, c.Epoch = p.epoch, w.newEpoch(p)
		w.put(key, c.Epoch, w.Uint64()|1, c.Recorded)
		p.answer = c.Answer
		w.after(5, func() { c.End = w.now; w.h.Calls = append(w.h.Calls, c) })
	})
}
