package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrysafe/retrysafe"
)

// A clock gives stamps that never repeat and never run backwards, not over a restart either: each commit records
// how far it has come. While the process runs it does not follow a wall clock that is set.
type clock struct {
	origin int64        // Unix microseconds at start: the wall clock, or where it was recorded to be if that is later
	since  time.Time    // of the start, for its monotonic reading
	last   atomic.Int64 // stamp given last, in Unix microseconds
}

// start starts the clock behind recorded, in Unix microseconds.
func (c *clock) start(wall time.Time, recorded int64) {
	c.since = time.Now()
	c.origin = max(wall.UnixMicro(), recorded+1)
	c.last.Store(recorded)
}

// micros is the clock in Unix microseconds.
func (c *clock) micros() int64 { return c.origin + time.Since(c.since).Microseconds() }

// now is the clock, never behind the last stamp.
func (c *clock) now() time.Time { return time.UnixMicro(max(c.micros(), c.last.Load())) }

// stamp returns a time that no other stamp has.
func (c *clock) stamp() time.Time {
	for {
		last := c.last.Load()
		next := max(c.micros(), last+1)
		if c.last.CompareAndSwap(last, next) {
			return time.UnixMicro(next)
		}
	}
}

// record returns how far the clock has come.
func (c *clock) record() []byte { return binary.BigEndian.AppendUint64(nil, uint64(c.last.Load())) }

func readClock(db *pebble.DB) (int64, error) {
	b, closer, err := db.Get(clockKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: the clock of the folder is damaged", retrysafe.ErrUnreadable)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
