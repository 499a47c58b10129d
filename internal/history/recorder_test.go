package history

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A layer of one lock: the simplest that is correct.
type layer struct {
	sync.Mutex
	recorder *Recorder
	epoch    int64
	entries  map[string]Call
}

func (l *layer) do(key string) {
	p := l.recorder.Begin(key, 1)
	l.Lock()
	c, ok := l.entries[key]
	if ok && c.Class == Fresh {
		c.Class = Replay
	}
	if !ok {
		l.epoch++
		c = Call{Class: Fresh, Recorded: Completed, Epoch: l.epoch, Answer: uint64(l.epoch), Nonce: uint64(l.epoch)}
		l.recorder.Wrote(Transition{key, c.Epoch, c.Nonce, Free, InFlight})
		l.recorder.Effect(key, c.Epoch)
		l.recorder.Wrote(Transition{key, c.Epoch, c.Nonce, InFlight, Completed})
		l.entries[key] = c
	}
	l.Unlock()
	l.recorder.End(p, c)
}

func TestManyCallersAtOnce(t *testing.T) {
	l := &layer{recorder: NewRecorder(), entries: make(map[string]Call)}
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			for i := range 500 {
				l.do(fmt.Sprint((n + i) % 50))
			}
		})
	}
	wg.Wait()
	h := l.recorder.History(Rules{Ledger: true, Audit: true})
	if len(h.Calls) != 64*500 || len(h.Effects) != 50 || len(h.Trail) != 100 {
		t.Fatalf("%d calls, %d effects, %d rows", len(h.Calls), len(h.Effects), len(h.Trail))
	}
	if !slices.IsSortedFunc(h.Calls, func(a, b Call) int { return int(a.Start - b.Start) }) {
		t.Error("calls are not in the order of their start")
	}
	if found := Check(h); len(found) > 0 {
		t.Errorf("Check found %v", found)
	}
	h.Effects = h.Effects[1:]
	if found := Check(h); len(found) != 1 || found[0].Kind != AnswerWithoutEffect {
		t.Errorf("an effect was lost, Check found %v", found)
	}
}

func TestTimesAreTakenOutsideTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		<-time.After(3)
		dead := r.Begin("k", 1)
		p := r.Begin("k", 2)
		<-time.After(4)
		r.End(p, Call{Key: "other", Fingerprint: 9, Start: 99, Class: Busy, Epoch: 5})
		want := []Call{{Key: "k", Fingerprint: 1, Start: 3}, {Key: "k", Fingerprint: 2, Start: 3, End: 7, Class: Busy, Epoch: 5}}
		got := r.History(Rules{}).Calls
		slices.SortFunc(got, func(a, b Call) int { return int(a.Fingerprint) - int(b.Fingerprint) })
		if !slices.Equal(got, want) {
			t.Errorf("a call that never returned and one that did: got %v, want %v", got, want)
		}
		r.End(dead, Call{Class: Refused})
		if after := r.History(Rules{}).Calls; slices.Equal(after, got) {
			t.Error("the dead call came back, but its record did not change")
		}
	})
}

func TestAHistoryPrintsALineForEachEntry(t *testing.T) {
	h := History{
		Calls:   []Call{{Key: "k", Class: Resolved, Fingerprint: 10, Start: 1, End: 2, Recorded: Completed, Epoch: 6, Prior: 5, Answer: 11}},
		Effects: []Effect{{"k", 5, 1}},
		Trail:   []Transition{{"k", 6, 12, Unknown, State(9)}},
	}
	const want = `rules {Policy:0 Lease:0s Retention:0s Memory:0s Ledger:false Audit:false}
#0 "k" resolved(epoch 6, completed, answer b, replaced 5, forced false) fingerprint a [1 2] nonce 0
effect #0 "k" epoch 5 at 1
row #0 "k" epoch 6 nonce c: unknown -> state 9
`
	if got := h.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func ExampleRecorder() {
	r := NewRecorder()
	p := r.Begin("tenant/order-1", 0xa) // then call the layer, whose operation calls r.Effect
	r.Effect("tenant/order-1", 5)
	r.End(p, Call{Class: Fresh, Recorded: Completed, Epoch: 5, Answer: 0xf})
	fmt.Println(len(Check(r.History(Rules{Ledger: true}))), "violations")
	// Output: 0 violations
}

func ExampleCheck() {
	h := History{Calls: []Call{
		{Key: "tenant/order-1", Fingerprint: 0xa, Start: 0, End: 10, Class: Fresh, Recorded: Completed, Epoch: 5, Answer: 0xf},
		{Key: "tenant/order-1", Fingerprint: 0xa, Start: 12, End: 14, Class: Busy, Epoch: 5},
	}}
	for _, v := range Check(h) {
		fmt.Println(v)
	}
	// Output:
	// key "tenant/order-1": busy after the answer was told: the first began after the second had ended: #1 busy(epoch 5) fingerprint a [12 14]; #0 fresh(epoch 5, completed, answer f) fingerprint a [0 10]
}

// Whatever is recorded, Check returns, and what it says can be printed.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("\x01\x03\x05\x07\x02\x08\x01\x00"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, rules uint8) {
		h := History{Rules: Rules{Policy: Policy(rules & 1), Audit: rules&2 > 0, Ledger: rules&4 > 0, Retention: time.Duration(rules >> 3), Memory: 3}}
		for len(b) >= 8 {
			h.add(b)
			b = b[8:]
		}
		for _, v := range Check(h) {
			if v.Kind == "" || v.Text == "" {
				t.Errorf("a violation without words: %#v\n%v", v, h)
			}
		}
	})
}

func (h *History) add(b []byte) {
	key, epoch := string(b[1:2]), int64(int8(b[2]))
	switch b[0] % 4 {
	case 0:
		h.Effects = append(h.Effects, Effect{key, epoch, int64(b[3])})
	case 1:
		h.Trail = append(h.Trail, Transition{key, epoch, uint64(b[3]), State(b[4]), State(b[5])})
	default:
		h.Calls = append(h.Calls, Call{
			Key: key, Epoch: epoch, Class: Class(b[3]), Recorded: State(b[4]), Start: int64(b[5]), End: int64(int8(b[6])),
			Fingerprint: uint64(b[7] & 3), Answer: uint64(b[7] & 12), Prior: int64(b[7] >> 4), Forced: b[0] > 128, Nonce: uint64(b[0] & 64),
		})
	}
}
