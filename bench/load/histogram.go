package load

import (
	"math/bits"
	"time"
)

const (
	subBits = 6  // 64 buckets for each power of two: 1.6 % wide at most
	topBits = 40 // 18 minutes of nanoseconds; what is longer counts as that
	buckets = (topBits - subBits + 1) << subBits
)

// A histogram counts durations in buckets whose width grows with them, so that
// adding neither allocates nor loses the tail.
type histogram struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile returns the upper edge of the bucket that holds the q-th part of what
// was added, or the maximum where that is less; 0 if nothing was added.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(h.total)+0.5))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(upperEdge(i), h.max)
		}
	}
	return h.max
}

// bucket returns the index of d: the power of two above it and the subBits after
// its highest bit.
func bucket(d time.Duration) int {
	v := min(uint64(max(d, 0)), 1<<topBits-1)
	shift := max(0, bits.Len64(v)-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// upperEdge returns the longest duration of bucket i.
func upperEdge(i int) time.Duration {
	shift := max(0, i>>subBits-1)
	return time.Duration((i-shift<<subBits+1)<<shift - 1)
}
