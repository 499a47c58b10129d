package retrysafe

import (
	"context"
	"time"
)

// A Store is a compare-and-swap of one entry, with a clock. It knows entries and revisions, no states and no
// leases: those are decided once, in the core. store/storetest is these promises as a suite.
//
// Every call is one atomic step and durable when it returns. No reader sees a write before it is durable.
// A write may be sent again as it is after its answer was lost: the store recognises it by its Rev. An error
// leaves open whether the write took place, unless it wraps [ErrNotWritten].
//
// The store sets Stamp on every write from a clock of its own that all its users share, in whole
// microseconds; it never runs backwards for one ID, and a Create is stamped later than a Delete of the same
// ID before it. Body, Scope and Display come back byte for byte, empty and nil Body alike as len 0. The
// memory of a Body that was given stays the caller's, and of one that was returned becomes the caller's.
type Store interface {
	// Create writes e unless an entry stands under its ID. OK: it was written, now or by an earlier sending.
	Create(ctx context.Context, e Entry) (Reply, error)
	// Swap writes e over the entry of the same ID if that entry's Rev is old. OK: it was written, now or by an earlier sending.
	Swap(ctx context.Context, old Rev, e Entry) (Reply, error)
	// Delete removes the entry if its Rev is old. OK: nothing stands under the ID any more.
	Delete(ctx context.Context, id ID, old Rev) (Reply, error)
	// Get returns the entries that stand under ids, in any order, leaving out absent ones, and the store's clock.
	Get(ctx context.Context, ids ...ID) ([]Entry, time.Time, error)
}

// A Reply says what stands after a call, whether the write took place, and the store's clock at that moment.
type Reply struct {
	Entry Entry // what stands under the ID; the zero Entry if nothing does
	Found bool  // something stands
	OK    bool  // the write took place
	Now   time.Time
}

// A Waiter is a Store that can tell when an entry changes. Without it the core polls: one Get for all waiters.
type Waiter interface {
	// Wait returns nil when the Rev under id is not old, or when it may have changed; else ctx's error.
	Wait(ctx context.Context, id ID, old Rev) error
}

// An Inspector is a Store that can list, for operators and for the sweeper.
type Inspector interface {
	List(ctx context.Context, q Query) (Page, error)
}

// A Query selects entries. Its zero value selects all.
type Query struct {
	States []State // any of these; none means every one
	Scope  string  // equal; "" is not asked
	Prefix string  // of Display
	Due    bool    // only entries whose Due has passed
	Cursor string  // Page.Next of the page before; "" starts
	Limit  int     // at most so many; 0 means 100
}

// A Page is a part of the answer to a Query. It may hold fewer than Limit entries (a store stops early when
// bodies grow large): only an empty Next says that nothing follows. An entry that neither comes nor goes
// while the pages are read is listed exactly once.
type Page struct {
	Entries []Entry
	Next    string
	Now     time.Time
}
