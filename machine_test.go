package retrysafe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
	"pgregory.net/rapid"
)

// The machine plays random actors against the core and the model: claimers with payloads and policies of their own,
// owners in time and late, an operator with and without force, a sweeper, a clock that likes boundaries, a store that
// loses answers. After each act both must say the same.

// TestModel fails when one of them differs, and when an edge of the matrix was not walked, or not tried in vain.
func TestModel(t *testing.T) {
	seen := coverage{}
	for round := 0; round < 20 && (round == 0 || len(seen.missing()) > 0); round++ {
		rapid.Check(t, func(rt *rapid.T) {
			rapid.SyncTest(rt, func(rt *rapid.T) { play(rt, seen) })
		})
	}
	for _, what := range seen.missing() {
		t.Error(what)
	}
}

// A machine is one run.
type machine struct {
	*rapid.T
	seen   coverage
	ctx    context.Context
	exec   *retrysafe.Executor
	claims *retrysafe.Claims
	store  *hooked
	sealed bool // answers are
	keys   []*playedKey
	owners []*owner
	ghosts []*ghost
}

// A playedKey is a key, its model, and the greatest epoch that anybody was told.
type playedKey struct {
	retrysafe.Key
	model keyModel
	epoch int64
	count int // replays not yet flushed
}

// An owner is who won a claim, for ever, however late.
type owner struct {
	*retrysafe.Claim
	key     *playedKey
	number  int
	acts    int
	twoStep bool
	verb    string // what it settled with, or tried to; it never tries another
	settled bool   // and was told so
	held    bool   // it knows that it was declared over, and may say so later without a look
}

// A ghost is a claim that was never answered and is still to be taken back.
type ghost struct {
	key    *playedKey
	number int
	before keyModel
	err    error
}

func play(t *rapid.T, seen coverage) {
	m := &machine{T: t, seen: seen, ctx: t.Context(), store: &hooked{Store: memstore.New(nil)}}
	o := &retrysafe.Options{}
	if m.sealed = rapid.Bool().Draw(t, "sealed"); m.sealed {
		o.AnswerKeys = [][]byte{secret("answers")}
	}
	e, err := retrysafe.New(m.store, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	m.exec = e
	if m.claims, err = e.Verbs(m.ctx); err != nil {
		t.Fatalf("open: %v", err)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "keys") {
		m.keys = append(m.keys, &playedKey{Key: retrysafe.Key{Scope: "t", Name: fmt.Sprint("k", i)}})
	}
	acts := map[string]func(){"claim": m.claim, "own": m.own, "operate": m.operate, "sweep": m.sweep, "step": m.step, "take back": m.takeBack, "flush": m.flush}
	likely := strings.Split("claim,claim,own,own,own,operate,operate,sweep,step,step,step,take back,flush", ",")
	for range rapid.IntRange(40, 120).Draw(t, "acts") {
		acts[rapid.SampledFrom(likely).Draw(t, "act")]()
		m.store.hook(nil)
		advance(50 * time.Microsecond) // beyond the stamps of this act, so that the next sees whole boundaries
		m.inspect()
	}
}

// The policies are short, so that the clock meets their ends, and differ in which end comes first.
func (m *machine) policy() retrysafe.Policy {
	return retrysafe.Policy{
		OnLeaseEnd: rapid.SampledFrom([]retrysafe.LeaseEnd{retrysafe.Hold, retrysafe.Rerun, retrysafe.Recover}).Draw(m.T, "end"),
		TwoStep:    rapid.Bool().Draw(m.T, "two-step"),
		Lease:      rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(m.T, "lease"),
		Retention:  rapid.SampledFrom([]time.Duration{10 * time.Second, time.Hour}).Draw(m.T, "retention"),
		Remember:   rapid.SampledFrom([]time.Duration{0, time.Minute, 10 * time.Hour}).Draw(m.T, "remember"),
	}
}

func (m *machine) key() *playedKey { return rapid.SampledFrom(m.keys).Draw(m.T, "key") }

// blip has the store lose what it is asked to lose, of each entry: nothing, one or two answers, or every answer to some
// kind of write, whether the write took place or not. It returns true where a caller must notice.
func (m *machine) blip(verbs ...string) (noticed bool) {
	kind := rapid.SampledFrom([]string{"none", "none", "one", "two", "all", "down"}).Draw(m.T, "blip")
	times := map[string]int{"one": 1, "two": 2, "all": 3, "down": 3}[kind]
	if times == 0 {
		return false
	}
	around := answerLost
	if kind == "down" {
		around = down
	}
	var mu sync.Mutex
	lost := map[retrysafe.ID]int{}
	loses := func(id retrysafe.ID) bool {
		mu.Lock()
		defer mu.Unlock()
		lost[id]++
		return lost[id] <= times
	}
	m.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
		if slices.Contains(verbs, c.verb) && loses(c.id) {
			return around(c, do)
		}
		return do()
	})
	return times == 3
}

// raw is what stands, and the store's clock.
func (m *machine) raw(k *playedKey) (retrysafe.Entry, time.Time) {
	entries, now, err := m.store.Store.Get(m.ctx, k.ID())
	if err != nil {
		m.Fatalf("Get: %v", err)
	}
	if len(entries) == 0 {
		return retrysafe.Entry{}, now
	}
	return entries[0], now
}

// wrote tells whether what stands changed, and when.
func (m *machine) wrote(k *playedKey, before retrysafe.Entry) (bool, time.Time) {
	after, now := m.raw(k)
	if after.Rev == before.Rev {
		if !after.Stamp.Equal(before.Stamp) {
			m.Fatalf("%s: two writes have one Rev, and a store may take the second for the first", k.Name)
		}
		return false, now
	}
	if after.Rev != (retrysafe.Rev{}) {
		now = after.Stamp
	}
	return true, now
}

// told notes an epoch that somebody was told: new ones exceed all before, others are the one that stands.
func (m *machine) told(k *playedKey, epoch int64, fresh bool) {
	if fresh && epoch <= k.epoch {
		m.Fatalf("%s: new epoch %d after %d", k.Name, epoch, k.epoch)
	}
	if !fresh && epoch != k.model.epoch {
		m.Fatalf("%s: epoch %d, want %d", k.Name, epoch, k.model.epoch)
	}
	k.epoch, k.model.epoch = max(k.epoch, epoch), epoch
}

func (m *machine) step() {
	steps := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 11 * time.Hour}
	now := time.Now()
	for _, k := range m.keys {
		for _, at := range k.model.boundaries() {
			for _, off := range []time.Duration{-time.Microsecond, 0, 0, time.Microsecond} {
				if d := at.Add(off).Sub(now); d > 0 {
					steps = append(steps, d)
				}
			}
		}
	}
	d := rapid.SampledFrom(steps).Draw(m.T, "step")
	m.Logf("%v pass", d)
	advance(d)
}

func (m *machine) claim() {
	k, p, number := m.key(), m.policy(), len(m.owners)+len(m.ghosts)+1
	fp := rapid.SampledFrom([]retrysafe.Fingerprint{payload, payload, payload, other}).Draw(m.T, "payload")
	canRecover := rapid.IntRange(0, 3).Draw(m.T, "can recover") > 0
	before, now := m.raw(k)
	stood, situation := k.model, k.model.situation(now)
	want := cellsByName[situation]["claim"]
	if want.verdict == "recovering" && !canRecover {
		want = cell{verdict: "outcome_unknown"}
	}
	if k.model.compared(now) && k.model.fp != fp {
		want = cell{verdict: "mismatch"}
	}
	m.blip(rapid.SampledFrom([]string{"create", "swap"}).Draw(m.T, "of"))
	c, err := m.claims.Claim(m.ctx, retrysafe.ClaimRequest{Key: k.Key, Fingerprint: fp, Policy: p, CanRecover: canRecover})
	landed, stamp := m.wrote(k, before)
	m.Logf("%s, %s: claim %d, want %s: wrote %v, %v, %v", k.Name, situation, number, want.verdict, landed, c, err)
	switch {
	case landed && !want.write:
		m.Fatalf("%s: a claim answered %s wrote", situation, want.verdict)
	case landed && want.to == "in_flight":
		k.model.claimed(number, want.verdict, p, fp, stamp)
	case landed:
		k.model.became(want.to, false, stamp, "", false)
	}
	if err != nil {
		m.lost(k, number, stood, landed && want.to == "in_flight", err)
		return
	}
	m.seen.walked(situation, "claim")
	if c.Verdict.String() != want.verdict || landed != want.write {
		m.Fatalf("%s: claim says %v and wrote %v, want %+v", situation, c.Verdict, landed, want)
	}
	if want.verdict != "mismatch" {
		m.told(k, c.Epoch(), want.fence)
	}
	if off := retrysafe.HeardIn(c).Sub(stood.heard); c.Verdict == retrysafe.Recovering && off.Abs() > time.Millisecond {
		m.Fatalf("%s: the owner before is said to be heard of at %v, want %v", k.Name, retrysafe.HeardIn(c), stood.heard)
	}
	switch {
	case c.Owned():
		m.owners = append(m.owners, &owner{Claim: c, key: k, number: number, acts: k.model.acts, twoStep: p.TwoStep})
	case c.Verdict == retrysafe.Replay:
		m.replayed(k, c, now)
	}
}

// lost is a claim that was not answered; it need not have been written.
func (m *machine) lost(k *playedKey, number int, before keyModel, landed bool, err error) {
	if !errors.Is(err, retrysafe.ErrStore) || !errors.Is(err, errBlip) {
		m.Fatalf("claim: %v", err)
	}
	if landed {
		e, _ := m.raw(k)
		k.model.epoch = epochOf(e)
	}
	m.ghosts = append(m.ghosts, &ghost{k, number, before, err})
}

func (m *machine) replayed(k *playedKey, c *retrysafe.Claim, now time.Time) {
	got := fmt.Sprint(c.Answer != nil, string(c.Answer), c.NotKept, c.Failed, c.Left)
	want := fmt.Sprint(k.model.kept, k.model.answer, !k.model.kept, k.model.state == "unknown_answered", k.model.due-now.Sub(k.model.stamp))
	if got != want {
		m.Fatalf("replay of %s, want %s", got, want)
	}
	m.exec.CountReplay(k.ID())
	k.count++
}

// takeBack undoes a claim that was never answered: it stands no more, and what stood before does.
func (m *machine) takeBack() {
	if len(m.ghosts) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.ghosts)-1).Draw(m.T, "ghost")
	g := m.ghosts[i]
	before, _ := m.raw(g.key)
	_, err := m.claims.TakeBack(m.ctx, g.err)
	landed, stamp := m.wrote(g.key, before)
	m.Logf("%s: take back %d: wrote %v, %v", g.key.Name, g.number, landed, err)
	stands := g.key.model.owner == g.number && (g.key.model.state == "in_flight" || g.key.model.state == "unknown")
	if err != nil || landed != stands {
		m.Fatalf("take back: %v, wrote %v, want %v", err, landed, stands)
	}
	if stands {
		g.key.model = g.before
		g.key.model.rewritten(stamp)
		if g.before.state == "" {
			g.key.model = keyModel{}
		}
	}
}

// flush writes the counts of replays, where there is still something to count.
func (m *machine) flush() {
	before := map[*playedKey]retrysafe.Entry{}
	for _, k := range m.keys {
		before[k], _ = m.raw(k)
	}
	_, now := m.raw(m.keys[0])
	m.exec.FlushReplays(m.ctx)
	for _, k := range m.keys {
		s := k.model.situation(now)
		landed, stamp := m.wrote(k, before[k])
		if want := k.count > 0 && (s == "completed" || s == "failed"); landed != want {
			m.Fatalf("%s: the count of %d replays was written: %v, want %v", s, k.count, landed, want)
		} else if want {
			k.model.rewritten(stamp)
			k.model.replays += k.count
		}
		k.count = 0
	}
}

// inspect compares all that operators see, and what the store keeps, with the model.
func (m *machine) inspect() {
	synctest.Wait()
	for _, k := range m.keys {
		e, now := m.raw(k)
		got, err := m.exec.Inspect(m.ctx, k.ID())
		s := k.model.situation(now)
		if clear := k.model.answer != "" && bytes.Contains(e.Body, []byte(k.model.answer)); k.model.kept && clear == m.sealed {
			m.Fatalf("%s: the answer stands in clear: %v", s, clear)
		}
		if gone := s == "absent" || s == "memory_over"; gone != errors.Is(err, retrysafe.ErrNotFound) || !gone && err != nil {
			m.Fatalf("%s: Inspect: %v", s, err)
		} else if gone {
			continue
		}
		shown := map[string]string{"lapsed_hold": "unknown", "lapsed_recover": "unknown", "retention_over": "expired"}[s]
		if shown == "" {
			shown = k.model.state
		}
		type seen struct {
			Shown, State, Answer    string
			Acted                   bool
			Epoch                   int64
			Attempts, Replays, Acts int
			Due, TTL                time.Duration
			Stamp                   time.Time
		}
		answer := k.model.answer
		if s == "retention_over" {
			answer = ""
		}
		want := seen{shown, k.model.state, answer, k.model.policy.TwoStep && k.model.acted, k.model.epoch, k.model.attempts, k.model.replays + k.count, k.model.acts, k.model.due, k.model.ttl, k.model.stamp}
		is := seen{got.State.String(), e.State.String(), string(got.Answer), got.Acted, got.Epoch, got.Attempts, got.Replays, len(got.History), e.Due, e.TTL, e.Stamp}
		if diff := cmp.Diff(want, is); diff != "" {
			m.Fatalf("%s: what stands differs from the model (-want +got):\n%s", s, diff)
		}
	}
}
