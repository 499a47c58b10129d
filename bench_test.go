package retrysafe_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What the core costs beside its store: every verb alone, over the store in memory. The goal is less than 3 µs and 10
// allocations each.
//
//	go test -run '^$' -bench . -benchmem -count 10 . | tee new.txt && benchstat old.txt new.txt

// benchKeys bounds the entries of one store, and so what the garbage collector has to look at.
const benchKeys = 1 << 14

// A bench is an Executor on an empty store, and keys that it does not know yet.
type bench struct {
	*testing.B
	exec   *retrysafe.Executor
	claims *retrysafe.Claims
	o      *retrysafe.Options
	keys   []retrysafe.Key
	next   int
}

func newBench(b *testing.B) *bench { return newBenchOf(b, nil) }

func newBenchOf(b *testing.B, o *retrysafe.Options) *bench {
	bb := &bench{B: b, o: o}
	for i := range benchKeys {
		bb.keys = append(bb.keys, retrysafe.Key{Scope: "tenant-7", Name: "order-" + strconv.Itoa(i)})
	}
	bb.empty()
	return bb
}

// empty starts over with a store of its own.
func (b *bench) empty() {
	e, err := retrysafe.New(memstore.New(nil), b.o)
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	if b.claims, err = e.Verbs(b.Context()); err != nil {
		b.Fatalf("open: %v", err)
	}
	b.exec, b.next = e, 0
}

// key returns one that nobody claimed. When all are used it empties the store, and then calls ready, off the clock.
func (b *bench) key(ready func()) retrysafe.Key {
	if b.next == len(b.keys) {
		b.StopTimer()
		b.empty()
		if ready != nil {
			ready()
		}
		b.StartTimer()
	}
	b.next++
	return b.keys[b.next-1]
}

func (b *bench) claim(key retrysafe.Key, want retrysafe.Verdict) *retrysafe.Claim {
	c, err := b.claims.Claim(b.Context(), retrysafe.ClaimRequest{Key: key, Fingerprint: payload, Policy: hold})
	if err != nil || c.Verdict != want {
		b.Fatalf("Claim: %v, %v, want %v", c, err, want)
	}
	return c
}

func BenchmarkClaim(b *testing.B) {
	bb := newBench(b)
	b.ReportAllocs()
	for b.Loop() {
		bb.claim(bb.key(nil), retrysafe.Won)
	}
}

func BenchmarkComplete(b *testing.B) {
	bb := newBench(b)
	var owned []*retrysafe.Claim
	claim := func() {
		owned = owned[:0]
		for _, key := range bb.keys {
			owned = append(owned, bb.claim(key, retrysafe.Won))
		}
	}
	claim()
	b.ReportAllocs()
	for b.Loop() {
		bb.key(claim)
		if err := bb.claims.Settle(b.Context(), owned[bb.next-1], completed); err != nil {
			b.Fatalf("Settle: %v", err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	bb := newBench(b)
	if err := bb.claims.Settle(b.Context(), bb.claim(order, retrysafe.Won), completed); err != nil {
		b.Fatalf("Settle: %v", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		bb.claim(order, retrysafe.Replay)
	}
}

// BenchmarkDo is all of it: claim, heartbeat, operation, record.
func BenchmarkDo(b *testing.B) {
	bb := newBench(b)
	op := func(context.Context) ([]byte, error) { return completed.Answer, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bb.exec.Do(b.Context(), bb.key(nil), payload, op); err != nil {
			b.Fatalf("Do: %v", err)
		}
	}
}

// BenchmarkAct is the mark of a two-step policy: what it costs beside claim and completion.
func BenchmarkAct(b *testing.B) {
	bb := newBench(b)
	var owned []*retrysafe.Claim
	claim := func() {
		owned = owned[:0]
		for _, key := range bb.keys {
			c, err := bb.claims.Claim(b.Context(), retrysafe.ClaimRequest{Key: key, Fingerprint: payload, Policy: twoStep(hold)})
			if err != nil {
				b.Fatalf("Claim: %v", err)
			}
			owned = append(owned, c)
		}
	}
	claim()
	b.ReportAllocs()
	for b.Loop() {
		bb.key(claim)
		if err := bb.claims.Act(b.Context(), owned[bb.next-1]); err != nil {
			b.Fatalf("Act: %v", err)
		}
	}
}

// BenchmarkSealing is completion and replay of answers of some sizes, sealed and in clear.
func BenchmarkSealing(b *testing.B) {
	for _, size := range []int{200, 10 << 10, 1 << 20} {
		o := retrysafe.Outcome{State: retrysafe.Completed, Answer: make([]byte, size)}
		for _, sealed := range []bool{false, true} {
			var keys [][]byte
			if sealed {
				keys = [][]byte{secret("answers")}
			}
			b.Run(fmt.Sprintf("complete/bytes=%d/sealed=%v", size, sealed), func(b *testing.B) {
				bb := newBenchOf(b, &retrysafe.Options{AnswerKeys: keys})
				bb.keys = bb.keys[:min(benchKeys, max(1, 32<<20/size))] // so much the store keeps at most
				b.ReportAllocs()
				for b.Loop() {
					if err := bb.claims.Settle(b.Context(), bb.claim(bb.key(nil), retrysafe.Won), o); err != nil {
						b.Fatalf("Settle: %v", err)
					}
				}
			})
			b.Run(fmt.Sprintf("replay/bytes=%d/sealed=%v", size, sealed), func(b *testing.B) {
				bb := newBenchOf(b, &retrysafe.Options{AnswerKeys: keys})
				if err := bb.claims.Settle(b.Context(), bb.claim(order, retrysafe.Won), o); err != nil {
					b.Fatalf("Settle: %v", err)
				}
				b.ReportAllocs()
				for b.Loop() {
					bb.claim(order, retrysafe.Replay)
				}
			})
		}
	}
}
