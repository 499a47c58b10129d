package idemhttp

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// This file looks for clients who make a new key for each attempt: the same request of the same caller, under another
// key within seconds. It may be two orders that are equal, so that nothing is refused: it is counted, and told.

// suspicions is what ran lately, by a hash of scope and fingerprint, in a table of fixed size: the newest wins its slot.
type suspicions struct {
	within time.Duration
	seed   maphash.Seed
	mu     sync.Mutex
	slots  [4096]ran
	told   time.Time // in the log, last
}

// ran is one operation that began. It holds no key and no payload.
type ran struct {
	sum uint64
	id  retrysafe.ID
	at  time.Time
}

type asked struct {
	scope string
	fp    retrysafe.Fingerprint
}

func newSuspicions(within time.Duration) *suspicions {
	return &suspicions{within: within, seed: maphash.MakeSeed()}
}

// look takes note of an operation that begins. It returns the ID of another that asked for the same under another key a
// short while ago, and whether the log should say so: once a second is enough.
func (s *suspicions) look(scope string, fp retrysafe.Fingerprint, id retrysafe.ID) (other retrysafe.ID, found, tell bool) {
	sum, now := maphash.Comparable(s.seed, asked{scope, fp}), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.slots[sum%uint64(len(s.slots))]
	before := *slot
	*slot = ran{sum, id, now}
	if before.sum != sum || before.id == id || now.Sub(before.at) > s.within {
		return other, false, false
	}
	if tell = now.Sub(s.told) >= time.Second; tell {
		s.told = now
	}
	return before.id, true, tell
}

// suspect looks at an operation that begins. Without a body there is too little to compare.
func (c *call) suspect(ctx context.Context) {
	m := c.middleware
	id, ok := retrysafe.IDOf(ctx)
	if m.suspicions == nil || !ok || len(c.sent) == 0 {
		return
	}
	other, found, tell := m.suspicions.look(c.key.Scope, c.fp, id)
	if !found {
		return
	}
	m.executor.Tell(ctx, retrysafe.Event{Kind: retrysafe.EventSuspected, ID: id})
	if tell {
		m.o.Logger.Warn("the same request came under another key just before: does the client make a new key for each attempt?", "id", id.String(), "before", other.String())
	}
}
