package pebblestore

import (
	"sync"

	"github.com/retrysafe/retrysafe"
)

// A recent holds rows that were written or read lately: an owner comes back soon to record, and whoever retries, to
// be answered. Each row in it is what stands durably, since it is looked at and changed only by who holds the lock of
// its ID. It has two generations: when the young one is full the old one is dropped, and what was asked for since is
// young again.
type recent struct {
	mu         sync.Mutex // guards what follows
	young, old map[retrysafe.ID]*row
	size       int // of the young, in bytes
	max        int // of a generation
}

// Rows above maxRecent would leave no room for others. rowSize is what one costs beside its texts and body.
const (
	maxRecent = 64 << 10
	rowSize   = 400
)

func newRecent(bytes int64) *recent {
	return &recent{young: map[retrysafe.ID]*row{}, max: int(bytes / 2)}
}

// get returns the row under id, which is not to be changed, or nil.
func (c *recent) get(id retrysafe.ID) *row {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.young[id]; r != nil {
		return r
	}
	r := c.old[id]
	if r != nil {
		c.keep(r)
	}
	return r
}

// put takes r, whose memory is its own, in place of what was there.
func (c *recent) put(r *row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(r.ID)
	if r.memory() <= maxRecent {
		c.keep(r)
	}
}

// drop forgets the row under id.
func (c *recent) drop(id retrysafe.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id)
}

func (c *recent) forget(id retrysafe.ID) {
	if r := c.young[id]; r != nil {
		c.size -= r.memory()
		delete(c.young, id)
	}
	delete(c.old, id)
}

func (c *recent) keep(r *row) {
	if c.size += r.memory(); c.size > c.max {
		c.old, c.young, c.size = c.young, map[retrysafe.ID]*row{}, r.memory()
	}
	c.young[r.ID] = r
}

// memory estimates what the row costs in bytes.
func (r *row) memory() int { return rowSize + len(r.Scope) + len(r.Display) + len(r.Body) }
