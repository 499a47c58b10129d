package pebblestore

import (
	"encoding/binary"
	"testing"

	"github.com/retrysafe/retrysafe"
)

func recentRow(n, body int) *row {
	r := &row{Entry: retrysafe.Entry{Rev: retrysafe.NewRev(), Body: make([]byte, body)}}
	binary.BigEndian.PutUint64(r.ID[:], uint64(n))
	return r
}

// However many rows are written, those that are kept stay within their bytes, and the latest are among them.
func TestRecentIsBounded(t *testing.T) {
	c := newRecent(100_000)
	for n := range 10_000 {
		r := recentRow(n, n%700)
		c.put(r)
		if got := c.get(r.ID); got != r {
			t.Fatalf("row %d: got %v right after it was put", n, got)
		}
		size := 0
		for _, generation := range []map[retrysafe.ID]*row{c.young, c.old} {
			for _, r := range generation {
				size += r.memory()
			}
		}
		if size > 100_000 {
			t.Fatalf("after %d rows: %d bytes are kept, want at most 100,000", n+1, size)
		}
	}
}

// What is asked for stays while others come and go; what nobody asks for goes.
func TestRecentKeepsWhatIsAskedFor(t *testing.T) {
	c := newRecent(40_000)
	asked, other := recentRow(1, 0), recentRow(2, 0)
	c.put(asked)
	c.put(other)
	for n := range 1000 {
		c.put(recentRow(10+n, 0))
		if c.get(asked.ID) != asked {
			t.Fatalf("the row that is asked for went after %d others", n+1)
		}
	}
	if c.get(other.ID) != nil {
		t.Error("the row that nobody asked for is still there")
	}
}

// A row is replaced and dropped in both generations, and one that is too large drops what it replaces.
func TestRecentReplaces(t *testing.T) {
	for _, aged := range []bool{false, true} {
		c := newRecent(40_000)
		first := recentRow(1, 0)
		put := func() {
			c.put(first)
			for n := 0; aged && c.young[first.ID] != nil; n++ {
				c.put(recentRow(10+n, 0))
			}
		}
		put()
		second := recentRow(1, 0)
		c.put(second)
		if got := c.get(first.ID); got != second {
			t.Errorf("aged %v: got %v after another was put, want that", aged, got)
		}
		put()
		c.put(recentRow(1, maxRecent))
		if got := c.get(first.ID); got != nil {
			t.Errorf("aged %v: got %v after one too large was put, want none", aged, got)
		}
		put()
		c.drop(first.ID)
		if got := c.get(first.ID); got != nil {
			t.Errorf("aged %v: got %v after it was dropped, want none", aged, got)
		}
	}
}
