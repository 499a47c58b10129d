package retrysafe_test

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"pgregory.net/rapid"
)

// What owners, operators and the sweeper do to the machine's keys.

// own has an owner extend, act or settle its claim, in time or late. It settles in one way only, however often it tries,
// but that it may know later what it did not know when it ended without an answer.
func (m *machine) own() {
	if len(m.owners) == 0 {
		return
	}
	o := m.owners[len(m.owners)-1-rapid.IntRange(0, min(len(m.owners)-1, 5)).Draw(m.T, "owner")]
	verb := rapid.SampledFrom([]string{"extend", "act", "complete", "fail", "hold", "release"}).Draw(m.T, "verb")
	settles := verb != "extend" && verb != "act"
	if settles && o.verb != "" && !(o.verb == "hold" && o.settled) {
		verb = o.verb
	}
	k := o.key
	before, now := m.raw(k)
	situation := k.model.situation(now)
	want := cellsByName[situation][verb]
	mine := k.model.owner == o.number
	repeated := settles && o.verb == verb // and its first try may stand already
	m.blip("swap", "delete")
	answer := fmt.Sprint("answer of ", o.number)
	err := m.write(o, verb, answer)
	landed, stamp := m.wrote(k, before)
	m.Logf("%s, %s: owner %d, %s: wrote %v, %v", k.Name, situation, o.number, verb, landed, err)
	if verb == "act" && !o.twoStep {
		if landed || err != nil {
			m.Fatalf("%s: act under a policy that is not two-step: wrote %v, %v", situation, landed, err)
		}
		return
	}
	if settles && verb != o.verb {
		o.verb, o.settled = verb, false
	}
	if landed {
		if !want.allowed || !mine {
			m.Fatalf("%s: %s by owner %d wrote, and the key is owner %d's", situation, verb, o.number, k.model.owner)
		}
		epoch := k.model.epoch
		k.model.became(want.to, false, stamp, answer, verb == "complete" || verb == "fail")
		k.model.wrote(verb, stamp)
		if k.model.state != "" {
			m.told(k, epoch, false)
		}
	}
	o.held = o.held || mine && k.model.state == "unknown"
	if errors.Is(err, errBlip) {
		o.settled = o.settled && !settles
		return
	}
	switch {
	case landed:
		m.expect(situation, verb, err, nil)
		m.seen.walked(situation, verb)
	case repeated && (err == nil || o.settled && errors.Is(err, retrysafe.ErrClaimLost)):
		// its earlier try stood, or it had been told so; or, of a release, nothing stood any more
	case mine && want.allowed && !o.settled:
		m.Fatalf("%s: %s by its owner did not write: %v", situation, verb, err)
	case !settles && (mine && k.model.state == "unknown" || o.held && !errors.Is(err, retrysafe.ErrClaimLost)):
		m.expect(situation, verb, err, retrysafe.ErrUnknownOutcome)
		m.seen.refused(situation, verb)
	case verb == "release" && k.model.state == "" && err == nil:
		m.seen.refused(situation, verb) // nothing stands: released it is
	default:
		m.expect(situation, verb, err, retrysafe.ErrClaimLost)
		m.seen.refused(situation, verb)
	}
	o.settled = o.settled || settles && err == nil
}

func (m *machine) write(o *owner, verb, answer string) error {
	outcome := map[string]retrysafe.Outcome{
		"complete": {State: retrysafe.Completed, Answer: []byte(answer)},
		"fail":     {State: retrysafe.UnknownAnswered, Answer: []byte(answer)},
		"hold":     {State: retrysafe.Unknown},
		"release":  {State: retrysafe.Free},
	}
	switch verb {
	case "extend":
		return m.claims.Extend(m.ctx, o.Claim)
	case "act":
		return m.claims.Act(m.ctx, o.Claim)
	}
	return m.claims.Settle(m.ctx, o.Claim, outcome[verb])
}

func (m *machine) expect(situation, verb string, got, want error) {
	if want == nil && got != nil || !errors.Is(got, want) {
		m.Fatalf("%s: %s: %v, want %v", situation, verb, got, want)
	}
}

func (m *machine) operate() {
	k := m.key()
	verb := rapid.SampledFrom([]string{"happened", "did_not_happen", "forget"}).Draw(m.T, "verb")
	force := rapid.Bool().Draw(m.T, "force")
	answer := rapid.SampledFrom([]string{"", "said the bank"}).Draw(m.T, "answer")
	before, now := m.raw(k)
	situation := k.model.situation(now)
	want := cellsByName[situation][verb]
	m.blip("swap")
	rec, err := m.decide(k, verb, answer, force)
	landed, stamp := m.wrote(k, before)
	m.Logf("%s, %s: %s, force %v: wrote %v, %v", k.Name, situation, verb, force, landed, err)
	if landed {
		if !want.allowed || want.force && !force {
			m.Fatalf("%s: %s with force %v wrote", situation, verb, force)
		}
		k.model.became(want.to, true, stamp, answer, verb == "happened" && answer != "")
		k.model.acts++
		e, _ := m.raw(k)
		m.told(k, epochOf(e), true)
	}
	if errors.Is(err, errBlip) {
		m.expect(situation, verb, err, retrysafe.ErrStore)
		return
	}
	if want.allowed && (force || !want.force) {
		if err != nil || !landed || rec.State.String() != want.to {
			m.Fatalf("%s: %s: %v, now %v, want %s", situation, verb, err, rec.State, want.to)
		}
		m.seen.walked(situation, verb)
		return
	}
	m.seen.refused(situation, verb)
	var refused *retrysafe.RefusedError
	switch {
	case situation == "absent" || situation == "memory_over":
		m.expect(situation, verb, err, retrysafe.ErrNotFound)
	case !errors.As(err, &refused) || refused.Force != want.force || refused.Live != (situation == "live"):
		m.Fatalf("%s: %s: %v, want it refused, for want of force: %v", situation, verb, err, want.force)
	}
}

func (m *machine) decide(k *playedKey, verb, answer string, force bool) (retrysafe.Record, error) {
	if verb == "forget" {
		return m.exec.Forget(m.ctx, k.ID(), "ann", "asked the bank", force)
	}
	r := retrysafe.Resolution{Happened: verb == "happened", By: "ann", Why: "asked the bank", Force: force}
	if r.Happened && answer != "" {
		r.Answer = []byte(answer)
	}
	return m.exec.Resolve(m.ctx, k.ID(), r)
}

// sweep passes over all keys. An answer that is lost thrice ends the pass, what it wrote stands.
func (m *machine) sweep() {
	before := map[*playedKey]retrysafe.Entry{}
	for _, k := range m.keys {
		before[k], _ = m.raw(k)
	}
	_, now := m.raw(m.keys[0])
	m.blip("swap", "delete")
	n, err := m.exec.Sweep(m.ctx)
	m.Logf("sweep: %d, %v", n, err)
	if err != nil && !errors.Is(err, errBlip) {
		m.Fatalf("Sweep: %v", err)
	}
	for _, k := range m.keys {
		situation := k.model.situation(now)
		want := cellsByName[situation]["sweep"]
		wants := want.allowed && want.to != k.model.state // a tombstone is one already
		landed, stamp := m.wrote(k, before[k])
		switch {
		case landed && !wants, !landed && wants && err == nil:
			m.Fatalf("%s: the sweeper wrote %v, want %v", situation, landed, wants)
		case landed:
			k.model.became(want.to, want.fence, stamp, "", false)
			if want.fence && k.model.state != "" {
				e, _ := m.raw(k)
				m.told(k, epochOf(e), true)
			}
			n--
			m.seen.walked(situation, "sweep")
		case !want.allowed:
			m.seen.refused(situation, "sweep")
		}
	}
	if err == nil && n != 0 {
		m.Fatalf("Sweep counted %d more than it changed", n)
	}
}
