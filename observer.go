package retrysafe

import (
	"context"
	"time"
)

// An Observer is told what an Executor does, in the goroutine that does it: it must be quick and safe for
// use by many goroutines. No event carries a key or a payload.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events, and which fields each fills beside Kind, ID and Took.
const (
	EventClaimed    EventKind = iota + 1 // a claim was answered: Verdict, or Err; Took is -1 where a waiter had read the answer
	EventRan                             // an operation returned: State is its outcome
	EventSettled                         // its outcome was recorded, or never can be: State, Size of the answer, Err
	EventUnrecorded                      // it was not recorded in time, and recording goes on: State
	EventExtended                        // a lease was extended, or not: Err
	EventTakenBack                       // a claim that was never answered stands no more; or it was not looked after: Err
	EventSwept                           // the sweeper ended a pass: Count entries changed, Err
	EventResolved                        // an operator decided: State is what stands now
	EventHeld                            // the sweeper counted the outcomes that are held as unknown: Count, at most HeldCounted
	EventRefused                         // a door refused a request before any claim: Code
	EventPassed                          // a door let a request without a key pass unguarded
	EventSuspected                       // a door saw an operation that another key had asked for just before: ID
)

// HeldCounted is up to how many held outcomes are counted.
const HeldCounted = 1000

var eventNames = [...]string{"none", "claimed", "ran", "settled", "unrecorded", "extended", "taken_back", "swept", "resolved", "held", "refused", "passed", "suspected"}

// String returns the kind's name, as metrics carry it.
func (k EventKind) String() string { return eventNames[min(int(k), len(eventNames)-1)] }

// An Event is one thing that happened.
type Event struct {
	Kind    EventKind
	ID      ID
	Verdict Verdict
	State   State
	Count   int
	Size    int    // bytes
	Code    string // of the problem that the caller was told
	Took    time.Duration
	Err     error
}

// Tell tells the Executor's Observer what a door in front of it did.
func (e *Executor) Tell(ctx context.Context, ev Event) { e.observe(ctx, ev) }

// observe tells the observer. A caller who hangs up takes no event along: there are observers that tell nothing
// under a ctx that has ended.
func (e *Executor) observe(ctx context.Context, ev Event) {
	if e.o.Observer == nil {
		return
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	e.o.Observer.Observe(ctx, ev)
}

// began is the time if it is to be observed how long something takes, else zero: to ask for it costs.
func (e *Executor) began() (t time.Time) {
	if e.o.Observer != nil {
		t = time.Now()
	}
	return t
}

// took is how long something took that is to be observed.
func (e *Executor) took(began time.Time) time.Duration {
	if e.o.Observer == nil {
		return 0
	}
	return time.Since(began)
}

func (e *Executor) observeClaim(ctx context.Context, c *Claim, took time.Duration, err error) {
	if e.o.Observer == nil {
		return
	}
	ev := Event{Kind: EventClaimed, Took: took, Err: err}
	if c != nil {
		ev.ID, ev.Verdict = c.id, c.Verdict
	}
	e.o.Observer.Observe(ctx, ev)
}
