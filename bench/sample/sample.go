// Package sample sums up what was measured several times.
package sample

import (
	"fmt"
	"slices"
)

// A Sample is one figure, round by round.
type Sample []float64

// Median returns the value in the middle, 0 of nothing.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Spread returns the least and the greatest value, 0 of nothing.
func (s Sample) Spread() (least, greatest float64) {
	if len(s) == 0 {
		return 0, 0
	}
	return slices.Min(s), slices.Max(s)
}

// Over divides s by the base of the same round: what the machine does in a round touches both.
func (s Sample) Over(base Sample) Sample {
	out := make(Sample, 0, len(s))
	for i := range min(len(s), len(base)) {
		out = append(out, s[i]/base[i])
	}
	return out
}

// Text is the median with the spread behind it, each printed with the format of one number.
func (s Sample) Text(format string) string {
	least, greatest := s.Spread()
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s.Median(), least, greatest)
}
