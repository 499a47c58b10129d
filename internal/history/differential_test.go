package history

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const histories = 60_000

// A tally is what one worker saw.
type tally struct {
	legal, illegal int
	kinds          map[Kind]int
}

// Both judges must agree on every history: half as a correct layer left them, half damaged. Every
// history has a seed of its own, so one that they disagree on can be run alone.
func TestCheckAgreesWithPorcupine(t *testing.T) {
	const seed = 20260401
	start, workers := time.Now(), runtime.GOMAXPROCS(0)
	tallies := make([]tally, workers)
	var wg sync.WaitGroup
	for n := range workers {
		tallies[n].kinds = make(map[Kind]int)
		wg.Go(func() {
			for i := n; i < histories && !t.Failed(); i += workers {
				compare(t, seed, uint64(i), &tallies[n])
			}
		})
	}
	wg.Wait()
	all := tally{kinds: make(map[Kind]int)}
	for _, one := range tallies {
		all.legal, all.illegal = all.legal+one.legal, all.illegal+one.illegal
		for k, n := range one.kinds {
			all.kinds[k] += n
		}
	}
	t.Logf("seed %d: %d legal, %d illegal in %v", seed, all.legal, all.illegal, time.Since(start).Round(time.Millisecond))
	for k, n := range all.kinds {
		t.Logf("%6d %s", n, k)
	}
	if t.Failed() {
		return
	}
	if all.legal < histories/5 || all.illegal < histories/5 {
		t.Errorf("%d legal and %d illegal of %d: the test is too quiet", all.legal, all.illegal, histories)
	}
	for _, k := range kinds() {
		if all.kinds[k] == 0 && k != BadRecord {
			t.Errorf("no history with %q occurred", k)
		}
	}
}

func kinds() []Kind {
	return []Kind{
		TwoEffects, TwoAnswers, TwoClaims, RanAgain, EpochOrder, Zombie, NoOwner, NeverCompleted, TooEarly, StaleBusy,
		BusyOutside, FalseUnknown, StaleReplay, EarlyLapse, EarlyExpiry, FalseMismatch, MissedMismatch, FalseResolve,
		EffectWithoutCall, AnswerWithoutEffect, ReleasedYetActed, BadTrail, BadRecord,
	}
}

func compare(t *testing.T, seed, i uint64, sum *tally) {
	r := rand.New(rand.NewPCG(seed, i))
	h := randomWorld(r)
	damaged := i%2 == 1
	if damaged {
		for range 1 + r.IntN(3) {
			damage(r, &h)
		}
	}
	found := Check(h)
	result := porcupine.CheckOperationsTimeout(opinion(), operations(h), 2*time.Minute)
	if result == porcupine.Unknown {
		t.Errorf("history %d: porcupine gave up\n%v", i, h)
		return
	}
	legal := result == porcupine.Ok
	if legal != (len(found) == 0) || !damaged && !legal {
		t.Errorf("history %d (damaged %t): porcupine says legal %t, Check says %v\n%v", i, damaged, legal, found, h)
	}
	if legal {
		sum.legal++
		return
	}
	sum.illegal++
	for _, v := range found {
		sum.kinds[v.Kind]++
	}
}

// damage changes one thing in h, so that every call still makes sense by itself.
func damage(r *rand.Rand, h *History) {
	if len(h.Calls) == 0 {
		return
	}
	switch n := r.IntN(20); {
	case n < 11:
		damageCall(r, h, r.IntN(len(h.Calls)))
	case n < 14:
		damageEffects(r, h)
	case n < 16 || !h.Rules.Audit:
		damageRules(r, h)
	default:
		damageTrail(r, h)
	}
}

func damageCall(r *rand.Rand, h *History, i int) {
	c := &h.Calls[i]
	other := h.Calls[r.IntN(len(h.Calls))]
	switch r.IntN(9) {
	case 0:
		c.Fingerprint = 3 - min(c.Fingerprint, 2)
	case 1:
		c.Answer++
	case 2, 3:
		shift := r.Int64N(40) - 20
		c.Start, c.End = c.Start+shift, c.End+shift
	case 4:
		c.Start, c.End = other.Start, max(other.End, other.Start)
	case 5:
		h.Calls = slices.Delete(h.Calls, i, i+1)
	case 6:
		twin := *c
		twin.Nonce = 0
		shift := r.Int64N(40) - 10
		twin.Start, twin.End = twin.Start+shift, twin.End+shift
		h.Calls = append(h.Calls, twin)
	case 7:
		changed := *c
		changed.Epoch, changed.Nonce = other.Epoch, 0
		keepIfSound(c, changed)
	default:
		keepIfSound(c, reclassed(r, *c, other.Epoch))
	}
}

// reclassed is c with another class or another word about the record.
func reclassed(r *rand.Rand, c Call, epoch int64) Call {
	classes := []Class{Failed, Fresh, Busy, OutcomeUnknown, Replay, Expired, Mismatch}
	states := []State{Free, InFlight, Completed, UnknownAnswered, Unknown}
	if c.Epoch == 0 {
		c.Epoch = epoch
	}
	if c.Class == Resolved {
		c.Forced, c.Recorded = r.IntN(2) == 0, []State{Completed, Free}[r.IntN(2)]
		return c
	}
	if c.Class != Fresh || r.IntN(2) == 0 {
		c.Class = classes[r.IntN(len(classes))]
	}
	c.Recorded = 0
	switch c.Class {
	case Fresh:
		c.Recorded = states[r.IntN(len(states))]
	case Replay:
		c.Recorded = states[2+r.IntN(2)]
	case Failed:
		c.Epoch *= r.Int64N(2)
	}
	return c
}

func keepIfSound(c *Call, changed Call) {
	if changed.fault() == "" {
		*c = changed
	}
}

func damageEffects(r *rand.Rand, h *History) {
	if len(h.Effects) == 0 {
		return
	}
	i := r.IntN(len(h.Effects))
	e := &h.Effects[i]
	switch r.IntN(4) {
	case 0:
		h.Effects = slices.Delete(h.Effects, i, i+1)
	case 1:
		h.Effects = append(h.Effects, Effect{e.Key, e.Epoch, e.At + r.Int64N(20)})
	case 2:
		e.At += r.Int64N(60) - 30
	default:
		if c := h.Calls[r.IntN(len(h.Calls))]; c.Epoch > 0 {
			e.Key, e.Epoch = c.Key, c.Epoch
		}
	}
}

func damageRules(r *rand.Rand, h *History) {
	rules := &h.Rules
	switch r.IntN(5) {
	case 0:
		rules.Policy = 1 - rules.Policy
	case 1:
		rules.Retention = time.Duration(r.IntN(40))
	case 2:
		rules.Memory = time.Duration(r.IntN(40))
	case 3:
		rules.Lease += time.Duration(r.IntN(30))
	default:
		rules.Ledger = true
	}
	if rules.Retention > 0 && rules.Memory > 0 {
		rules.Lease = min(rules.Lease, rules.Retention+rules.Memory)
	}
}

func damageTrail(r *rand.Rand, h *History) {
	if len(h.Trail) == 0 {
		return
	}
	i, j := r.IntN(len(h.Trail)), r.IntN(len(h.Trail))
	t := &h.Trail[i]
	switch r.IntN(6) {
	case 0:
		h.Trail = slices.Delete(h.Trail, i, i+1)
	case 1:
		h.Trail = slices.Insert(h.Trail, j, *t)
	case 2:
		h.Trail[i], h.Trail[j] = h.Trail[j], h.Trail[i]
	case 3:
		t.To = State(1 + r.IntN(6))
	case 4:
		t.From = State(1 + r.IntN(6))
	default:
		t.Epoch, t.Nonce = h.Trail[j].Epoch, h.Trail[j].Nonce
	}
}
