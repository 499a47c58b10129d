package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
	"pgregory.net/rapid"
)

// A machine that counts effects: processes claim one key under a two-step policy that holds, act, take effect, end, sleep
// and die at every point between, over a store that loses answers. It knows no states, only what was promised.

// A tenant is one process on its way: it claimed, and did this so far.
type tenant struct {
	*retrysafe.Claim
	asked   bool // it called Act and was not refused for certain: the mark may stand
	allowed bool // Act returned nil
	acted   bool // it took effect
}

type twoStepMachine struct {
	*machine
	tenants []*tenant
	effects int
	marks   int  // of processes that died under a mark, perhaps, and did not take it back
	done    bool // some outcome was recorded
}

// TestTwoStepModel: a key never takes effect twice, and is never held by a process that died before it acted.
func TestTwoStepModel(t *testing.T) {
	ends := map[string]int{"won, 0 effects": 0, "outcome_unknown, 0 effects": 0, "outcome_unknown, 1 effects": 0, "replay, 1 effects": 0}
	missing := func() (all []string) {
		for end, n := range ends {
			if n == 0 {
				all = append(all, end)
			}
		}
		return all
	}
	for round := 0; round < 20 && (round == 0 || len(missing()) > 0); round++ {
		rapid.Check(t, func(rt *rapid.T) {
			rapid.SyncTest(rt, func(rt *rapid.T) { ends[playTwoSteps(rt)]++ })
		})
	}
	for _, end := range missing() {
		t.Errorf("no run ended with %s", end)
	}
}

func playTwoSteps(t *rapid.T) string {
	m := &twoStepMachine{machine: &machine{T: t, ctx: t.Context(), store: &hooked{Store: memstore.New(nil)}}}
	e, err := retrysafe.New(m.store, nil)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if m.claims, err = e.Verbs(m.ctx); err != nil {
		t.Fatalf("open: %v", err)
	}
	m.exec = e
	acts := []func(){m.arrive, m.mark, m.mark, m.takeEffect, m.end, m.extend, m.die, m.pass, m.pass, m.clean}
	for range rapid.IntRange(3, 25).Draw(t, "acts") {
		acts[rapid.IntRange(0, len(acts)-1).Draw(t, "act")]()
		m.store.hook(nil)
	}
	for len(m.tenants) > 0 {
		m.die()
	}
	advance(2 * hold.Lease)
	return m.final()
}

// final is the retry after everybody died.
func (m *twoStepMachine) final() string {
	r, err := m.exec.Execute(m.ctx, retrysafe.Request{Key: order, Fingerprint: payload}, func(context.Context) retrysafe.Outcome { return completed })
	switch ran := r.Verdict == retrysafe.Won; {
	case err != nil:
		m.Fatalf("Execute: %v", err)
	case ran && m.effects > 0:
		m.Fatalf("it runs after %d effects", m.effects)
	case !ran && m.marks == 0 && !m.done:
		m.Fatalf("it is answered %v, though nobody acted and nothing was recorded", r.Verdict)
	}
	return fmt.Sprintf("%v, %d effects", r.Verdict, m.effects)
}

func (m *twoStepMachine) arrive() {
	m.blip("create", "swap")
	c, err := m.claims.Claim(m.ctx, retrysafe.ClaimRequest{Key: order, Fingerprint: payload, Policy: twoStep(hold)})
	m.Logf("arrive: %v, %v", c, err)
	if err == nil && c.Owned() {
		m.tenants = append(m.tenants, &tenant{Claim: c})
	}
}

// one draws a process that fits, or returns nil.
func (m *twoStepMachine) one(fits func(*tenant) bool) *tenant {
	var all []*tenant
	for _, p := range m.tenants {
		if fits(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(m.T, "process")
}

func (m *twoStepMachine) mark() {
	p := m.one(func(p *tenant) bool { return !p.acted })
	if p == nil {
		return
	}
	m.blip("swap")
	err := m.claims.Act(m.ctx, p.Claim)
	m.Logf("act of %d: %v", p.Epoch(), err)
	p.allowed = err == nil
	p.asked = p.asked || err == nil || errors.Is(err, errBlip)
}

func (m *twoStepMachine) takeEffect() {
	p := m.one(func(p *tenant) bool { return p.allowed && !p.acted })
	if p == nil {
		return
	}
	m.Logf("effect of %d", p.Epoch())
	p.acted = true
	if m.effects++; m.effects > 1 {
		m.Fatalf("%d effects", m.effects)
	}
}

// end has a process say how it ended: it knows.
func (m *twoStepMachine) end() {
	p := m.one(func(*tenant) bool { return true })
	if p == nil {
		return
	}
	out := retrysafe.Outcome{State: retrysafe.Free}
	if p.acted {
		out = completed
	}
	err := m.claims.Settle(m.ctx, p.Claim, out)
	m.Logf("end of %d, %v: %v", p.Epoch(), out.State, err)
	m.done = m.done || err == nil && p.acted
	p.asked = p.asked && p.acted
	m.leave(p)
}

func (m *twoStepMachine) extend() {
	if p := m.one(func(*tenant) bool { return true }); p != nil {
		m.blip("swap")
		m.Logf("extension of %d: %v", p.Epoch(), m.claims.Extend(m.ctx, p.Claim))
	}
}

func (m *twoStepMachine) die() {
	if p := m.one(func(*tenant) bool { return true }); p != nil {
		m.Logf("death of %d", p.Epoch())
		m.leave(p)
	}
}

func (m *twoStepMachine) leave(gone *tenant) {
	if gone.asked {
		m.marks++
	}
	var rest []*tenant
	for _, p := range m.tenants {
		if p != gone {
			rest = append(rest, p)
		}
	}
	m.tenants = rest
}

func (m *twoStepMachine) pass() {
	advance(rapid.SampledFrom([]time.Duration{hold.Lease / 3, hold.Lease, 2 * hold.Lease}).Draw(m.T, "time"))
}

func (m *twoStepMachine) clean() {
	if _, err := m.exec.Sweep(m.ctx); err != nil {
		m.Fatalf("Sweep: %v", err)
	}
}
