package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEveryBucketEndsWhereTheNextBegins(t *testing.T) {
	for i := range buckets {
		last := upperEdge(i)
		if got := bucket(last); got != i {
			t.Fatalf("bucket(upperEdge(%d)) = %d", i, got)
		}
		if i < buckets-1 && bucket(last+1) != i+1 {
			t.Fatalf("bucket(%d) = %d; want %d", last+1, bucket(last+1), i+1)
		}
	}
}

func TestDurationsOutOfRangeAreCountedAtTheEdge(t *testing.T) {
	if got := bucket(-1); got != 0 {
		t.Errorf("bucket(-1) = %d; want 0", got)
	}
	if got := bucket(100 * time.Hour); got != buckets-1 {
		t.Errorf("bucket(100h) = %d; want %d", got, buckets-1)
	}
	var h histogram
	h.add(100 * time.Hour)
	if h.max != 100*time.Hour {
		t.Errorf("max = %v; want 100h", h.max)
	}
}

// Quantiles must lie above the exact ones by no more than a bucket's width.
func TestQuantilesAreExactToABucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var halves [2]histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(300*time.Microsecond))
		halves[i%2].add(d)
		all = append(all, d)
	}
	h := &halves[0]
	h.merge(&halves[1])
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.9999} {
		exact := all[int(q*float64(len(all))+0.5)-1]
		got := h.quantile(q)
		if got < exact || got > exact+exact/64+1 {
			t.Errorf("quantile(%v) = %v; exact is %v", q, got, exact)
		}
	}
	if h.total != 20_000 || h.max != all[len(all)-1] || h.quantile(1) != h.max {
		t.Errorf("total %d, max %v, quantile(1) %v; want 20000 and twice %v", h.total, h.max, h.quantile(1), all[len(all)-1])
	}
}

func TestEmptyHistogramHasNoQuantile(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v; want 0", got)
	}
}

func TestQuantileNeverPassesTheMaximum(t *testing.T) {
	var h histogram
	h.add(1_000_003)
	if got := h.quantile(0.99); got != 1_000_003 {
		t.Errorf("quantile(0.99) of one value = %d; want the value", got)
	}
}
