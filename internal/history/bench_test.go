package history

import (
	"fmt"
	"testing"
)

const million = 1_000_000

// A thousand keys are hot in turn: ten calls each, overlapping, as a load test leaves them.
func BenchmarkCheckManyKeys(b *testing.B) {
	h := History{Rules: Rules{Ledger: true}}
	for k := range million / 10 {
		key, at := fmt.Sprintf("tenant-%d/order-%d", k%97, k), int64(k)*100
		h.Calls = append(h.Calls, Call{Key: key, Fingerprint: 1, Start: at, End: at + 90, Class: Fresh, Recorded: Completed, Epoch: at + 1, Answer: 7})
		h.Effects = append(h.Effects, Effect{key, at + 1, at + 40})
		for i := range int64(9) {
			c := Call{Key: key, Fingerprint: 1, Start: at + 10*i, End: at + 10*i + 30, Class: Busy, Epoch: at + 1}
			if i > 4 {
				c.Class, c.Recorded, c.Answer = Replay, Completed, 7
			}
			h.Calls = append(h.Calls, c)
		}
	}
	benchmark(b, h)
}

// One key is claimed and released 100,000 times while callers bounce off it.
func BenchmarkCheckOneKey(b *testing.B) {
	h := History{Rules: Rules{Ledger: true}}
	for k := range int64(million / 10) {
		at := k * 100
		h.Calls = append(h.Calls, Call{Key: "hot", Fingerprint: 1, Start: at - 80, End: at + 90, Class: Fresh, Recorded: Free, Epoch: at + 1})
		for i := range int64(9) {
			h.Calls = append(h.Calls, Call{Key: "hot", Fingerprint: 1, Start: at - 50 + 10*i, End: at + 10*i + 30, Class: Busy, Epoch: at + 1})
		}
	}
	benchmark(b, h)
}

// One key, as before, but every tenth call failed and may own any of the epochs.
func BenchmarkCheckOneKeyFailing(b *testing.B) {
	h := History{}
	for k := range int64(million / 10) {
		at := k * 100
		h.Calls = append(h.Calls, Call{Key: "hot", Fingerprint: 1, Start: at - 80})
		for i := range int64(9) {
			h.Calls = append(h.Calls, Call{Key: "hot", Fingerprint: 1, Start: at - 50 + 10*i, End: at + 10*i + 30, Class: Busy, Epoch: at + 1})
		}
	}
	benchmark(b, h)
}

func benchmark(b *testing.B, h History) {
	for b.Loop() {
		if found := Check(h); len(found) > 0 {
			b.Fatal(found[0])
		}
	}
	b.ReportMetric(float64(len(h.Calls))*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder()
	b.SetParallelism(32) // 64 goroutines on two cores
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.End(r.Begin("key", 1), Call{Class: Busy, Epoch: 1})
		}
	})
}
