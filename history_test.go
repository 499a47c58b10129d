package retrysafe_test

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/history"
)

// TestHistory lets many callers loose on few keys, over a store that loses answers and refuses calls, with
// owners that die and operators that decide, records what each was told, and has the whole history judged.
func TestHistory(t *testing.T) {
	for name, policy := range map[string]retrysafe.Policy{"hold": hold, "rerun": rerun, "hold, two-step": twoStep(hold), "rerun, two-step": twoStep(rerun)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy)
			var wg sync.WaitGroup
			for caller := range 48 {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(7, uint64(caller)))
					for range 250 {
						w.step(random)
					}
				})
			}
			wg.Wait()
			w.judge(t)
		})
	}
}

// A world is a lab whose callers are recorded.
type world struct {
	*lab
	policy retrysafe.Policy
	seen   *history.Recorder
	seed   maphash.Seed
}

func newWorld(t *testing.T, p retrysafe.Policy) *world {
	l := newLab(t, &retrysafe.Options{RecordWait: 100 * time.Millisecond})
	p.Lease = time.Hour
	l.store.hook(func(_ call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
		switch rand.IntN(50) {
		case 0:
			return retrysafe.Reply{}, errors.New("store: connection refused")
		case 1:
			do()
			return retrysafe.Reply{}, errors.New("store: connection reset")
		}
		return do()
	})
	return &world{l, p, history.NewRecorder(), maphash.MakeSeed()}
}

func (w *world) hash(b []byte) uint64 { return maphash.Bytes(w.seed, b) | 1 }

// step is one caller's next deed.
func (w *world) step(random *rand.Rand) {
	name := fmt.Sprint(random.IntN(400))
	switch random.IntN(40) {
	case 0, 1:
		w.die(name)
	case 2, 3:
		w.decide(name)
	default:
		w.call(name, random)
	}
}

func keyNamed(name string) retrysafe.Key { return retrysafe.Key{Scope: "tenant-7", Name: name} }

// call sends a request and notes what it was told.
func (w *world) call(name string, random *rand.Rand) {
	fp := uint64(1)
	if random.IntN(20) == 0 {
		fp = 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dice, hangUp := random.IntN(10), random.IntN(10) == 0
	pending := w.seen.Begin(name, fp)
	r, err := w.Execute(ctx, retrysafe.Request{Key: keyNamed(name), Fingerprint: retrysafe.Fingerprint{byte(fp)}, Policy: &w.policy}, func(ctx context.Context) retrysafe.Outcome {
		if hangUp {
			cancel()
		}
		if retrysafe.Act(ctx) != nil {
			return retrysafe.Outcome{State: retrysafe.Free}
		}
		return w.operate(name, retrysafe.EpochOf(ctx), dice)
	})
	w.seen.End(pending, w.told(r, err))
}

// operate takes effect, or does not, and says how it ended.
func (w *world) operate(name string, epoch int64, dice int) retrysafe.Outcome {
	if dice == 0 {
		return retrysafe.Outcome{State: retrysafe.Free}
	}
	w.seen.Effect(name, epoch)
	switch dice {
	case 1:
		return retrysafe.Outcome{}
	case 2:
		return retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: fmt.Append(nil, "failed ", epoch)}
	}
	return retrysafe.Outcome{State: retrysafe.Completed, Answer: fmt.Append(nil, "done ", epoch)}
}

// recorded translates the states that both sides know.
var recorded = map[retrysafe.State]history.State{retrysafe.Free: history.Free, retrysafe.Completed: history.Completed,
	retrysafe.Unknown: history.Unknown, retrysafe.UnknownAnswered: history.UnknownAnswered}

// told is what a caller knows after its call.
func (w *world) told(r retrysafe.Result, err error) history.Call {
	c := history.Call{Epoch: r.Epoch, Recorded: recorded[r.State]}
	if r.Answer != nil {
		c.Answer = w.hash(r.Answer)
	}
	switch {
	case err != nil:
		return history.Call{} // an error of the store: nothing said
	case r.Err != nil && r.Answer == nil:
		return history.Call{Epoch: r.Epoch} // it ended without an answer, which may be recorded any time
	case r.Err != nil:
		c.Class, c.Recorded = history.Fresh, history.InFlight
	case r.Verdict == retrysafe.Won || r.Verdict == retrysafe.TookOver:
		c.Class = history.Fresh
	case r.Verdict == retrysafe.Replay:
		c.Class = history.Replay
	case r.Verdict == retrysafe.Busy:
		c.Class = history.Busy
	case r.Verdict == retrysafe.Mismatch:
		c.Class = history.Mismatch
	case r.Verdict == retrysafe.OutcomeUnknown:
		c.Class = history.OutcomeUnknown
	}
	return c
}

// die claims with a short lease, perhaps acts and takes effect, and is never heard of again.
func (w *world) die(name string) {
	pending := w.seen.Begin(name, 1)
	p := w.policy
	p.Lease = time.Millisecond
	c, err := w.claims.Claim(context.Background(), retrysafe.ClaimRequest{Key: keyNamed(name), Fingerprint: retrysafe.Fingerprint{1}, Policy: p})
	if err != nil {
		return // not taken back either: its caller is dead
	}
	if !c.Owned() {
		r := retrysafe.Result{Verdict: c.Verdict, Epoch: c.Epoch(), Answer: c.Answer, State: retrysafe.Completed}
		if c.Failed {
			r.State = retrysafe.UnknownAnswered
		}
		w.seen.End(pending, w.told(r, nil))
		return
	}
	if rand.IntN(2) == 0 && w.claims.Act(context.Background(), c) == nil && rand.IntN(4) > 0 {
		w.seen.Effect(name, c.Epoch())
	}
	w.seen.End(pending, history.Call{Epoch: c.Epoch()})
}

// decide is an operator who knows that the operation happened, or did not.
func (w *world) decide(name string) {
	before, err := w.Inspect(context.Background(), keyNamed(name).ID())
	if err != nil || before.State != retrysafe.Unknown {
		return
	}
	pending := w.seen.Begin(name, 1)
	answer, by := []byte("decided"), crand.Text()
	after, err := w.Resolve(context.Background(), keyNamed(name).ID(), retrysafe.Resolution{Happened: true, Answer: answer, By: by, Why: "asked"})
	if _, refused := errors.AsType[*retrysafe.RefusedError](err); refused {
		w.seen.End(pending, history.Call{Class: history.Refused})
		return
	}
	if err != nil { // its answers were lost: the history of the entry tells whether it was written
		after, err = w.Inspect(context.Background(), keyNamed(name).ID())
		if err != nil || !slices.ContainsFunc(after.History, func(d retrysafe.Decision) bool { return d.By == by }) {
			return
		}
	}
	prior := before.Epoch
	w.seen.End(pending, history.Call{Class: history.Resolved, Recorded: history.Completed, Epoch: after.Epoch, Prior: prior, Answer: w.hash(answer)})
}

// judge drains, and fails on any violation, and on a run too quiet to say anything.
func (w *world) judge(t *testing.T) {
	w.store.hook(nil)
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules := history.Rules{Policy: history.Policy(w.policy.OnLeaseEnd), Retention: w.policy.Retention, Memory: w.policy.Remember}
	h := w.seen.History(rules)
	count := map[history.Class]int{}
	for _, c := range h.Calls {
		count[c.Class]++
	}
	t.Logf("%d calls: %v, %d effects", len(h.Calls), count, len(h.Effects))
	wanted := []history.Class{history.Fresh, history.Replay, history.Mismatch, history.Failed}
	if w.policy.OnLeaseEnd == retrysafe.Hold {
		wanted = append(wanted, history.OutcomeUnknown, history.Resolved)
	}
	for _, class := range wanted {
		if count[class] < 10 {
			t.Errorf("only %d calls were told %v: the run says nothing", count[class], class)
		}
	}
	for _, v := range history.Check(h) {
		t.Error(v)
	}
}
