package storetest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// benchEntries is how many entries a benchmark works on before it goes on to a store of its own again.
const benchEntries = 1 << 17

// Bench measures creates, swaps and gets of entries of usual size, by one caller and by 64 at once. It opens a
// store for each benchmark, and one more for every 131,072 creates.
func Bench(b *testing.B, open func(b *testing.B) retrysafe.Store) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("create/%d", callers), func(b *testing.B) { benchCreate(b, open, callers) })
		b.Run(fmt.Sprintf("swap/%d", callers), func(b *testing.B) { benchSwap(b, open(b), callers) })
		b.Run(fmt.Sprintf("get/%d", callers), func(b *testing.B) { benchGet(b, open(b), callers) })
	}
}

func benchCreate(b *testing.B, open func(b *testing.B) retrysafe.Store, callers int) {
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= benchEntries {
		b.StopTimer()
		s, entries := open(b), newEntries()
		b.StartTimer()
		spread(b, callers, min(left, benchEntries), func(_, i int) error {
			rep, err := s.Create(ctx, entries.at(i))
			return benched(rep.OK, err)
		})
	}
}

// benchSwap gives every caller entries of its own, as owners have.
func benchSwap(b *testing.B, s retrysafe.Store, callers int) {
	ctx := b.Context()
	entries := newEntries()
	standing := make([]retrysafe.Entry, callers)
	for i := range standing {
		standing[i] = entries.created(ctx, b, s, i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	spread(b, callers, b.N, func(caller, i int) error {
		e := &standing[caller]
		old := e.Rev
		binary.LittleEndian.PutUint64(e.Rev[8:], uint64(i)+1<<32)
		rep, err := s.Swap(ctx, old, *e)
		return benched(rep.OK, err)
	})
}

func benchGet(b *testing.B, s retrysafe.Store, callers int) {
	const n = 1024
	ctx := b.Context()
	entries := newEntries()
	ids := make([]retrysafe.ID, n)
	for i := range ids {
		ids[i] = entries.created(ctx, b, s, i).ID
	}
	b.ReportAllocs()
	b.ResetTimer()
	spread(b, callers, b.N, func(_, i int) error {
		got, _, err := s.Get(ctx, ids[i%n])
		return benched(len(got) == 1, err)
	})
}

func benched(ok bool, err error) error {
	if err == nil && !ok {
		return fmt.Errorf("the store did not do as asked")
	}
	return err
}

// spread calls f with 0 to n-1, by so many callers at once.
func spread(b *testing.B, callers, n int, f func(caller, i int) error) {
	var next atomic.Int64
	var failures collected
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				failures.add(f(caller, i))
			}
		})
	}
	wg.Wait()
	if failures.n > 0 {
		b.Fatalf("%d of %d calls failed; first %v", failures.n, n, failures.first)
	}
}

// newEntries returns entries that nobody else has. Making one costs no allocation.
func newEntries() benchSet {
	s := benchSet{retrysafe.Entry{Rev: retrysafe.NewRev(), State: retrysafe.InFlight, Scope: "tenant-7", Display: "order-1001", Due: 30 * time.Second}}
	s.first.Body = randomBytes(128)
	rand.Read(s.first.ID[:])
	return s
}

type benchSet struct{ first retrysafe.Entry }

// at is the entry number i. Its ID is spread as digests are.
func (s benchSet) at(i int) retrysafe.Entry {
	e := s.first
	for at := range 4 {
		part := e.ID[8*at : 8*at+8]
		const odd = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: multiples of it lie far apart
		binary.LittleEndian.PutUint64(part, binary.LittleEndian.Uint64(part)^uint64(i+1)*odd)
	}
	binary.LittleEndian.PutUint64(e.Rev[:], uint64(i))
	return e
}

func (s benchSet) created(ctx context.Context, b *testing.B, store retrysafe.Store, i int) retrysafe.Entry {
	rep, err := store.Create(ctx, s.at(i))
	if err := benched(rep.OK, err); err != nil {
		b.Fatalf("create: %v", err)
	}
	return rep.Entry
}
