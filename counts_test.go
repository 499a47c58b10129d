package retrysafe

import (
	"encoding/binary"
	"testing"
)

// TestCountsAreBounded is SO-13: between two flushes so many keys are counted and no more. The others are not counted,
// and nothing of what was counted is lost.
func TestCountsAreBounded(t *testing.T) {
	var c counts
	id := func(i int) (id ID) {
		binary.BigEndian.PutUint64(id[:], uint64(i))
		return id
	}
	for i := range maxCounted + 1000 {
		c.add(id(i))
	}
	c.add(id(0))
	if got := c.of(id(0)); got != 2 {
		t.Errorf("a key that was counted before the bound has %d, want 2", got)
	}
	if got := c.of(id(maxCounted)); got != 0 {
		t.Errorf("a key beyond the bound has %d, want 0", got)
	}
	if got := len(c.take()); got != maxCounted {
		t.Errorf("%d keys counted, want %d", got, maxCounted)
	}
	c.add(id(maxCounted))
	if got := c.of(id(maxCounted)); got != 1 {
		t.Errorf("after the flush it has %d, want 1", got)
	}
}
