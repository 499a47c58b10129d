package retrysafe

import (
	"context"
	"fmt"
	"time"
)

// This file is what an owner does to its own claim: extend it, settle it, or take back one that was never
// answered.

// An Outcome is how an operation ended. The zero Outcome is "nobody knows": held, without an answer.
type Outcome struct {
	State   State  // Completed, UnknownAnswered, Free (nothing happened: release) or else Unknown
	Answer  []byte // of Completed and UnknownAnswered; nil and empty are kept apart
	NotKept bool   // Answer is not all there was: replays are told so
	Reason  string // for operators, at most 256 bytes of it; no payload
}

// plain is o with the state that it stands for.
func (o Outcome) plain() Outcome {
	if o.State != Completed && o.State != UnknownAnswered && o.State != Free {
		o.State = Unknown
	}
	return o
}

func (o Outcome) verb() verb {
	switch o.State {
	case Completed:
		return complete
	case UnknownAnswered:
		return fail
	case Free:
		return release
	}
	return hold
}

// carried makes explicit what a first write left to its stamp, since the next write gets another stamp.
func carried(e Entry, rec record) (Entry, record) {
	if rec.started == 0 {
		rec.started = e.Stamp.UnixMicro()
	}
	e.Epoch, e.Rev, e.Orphan = e.epoch(), NewRev(), false
	return e, rec
}

// ended is the entry after its owner's operation ended with o.
func (c *Claims) ended(e Entry, rec record, o Outcome) Entry {
	e, rec = carried(e, rec)
	e.State, e.Due, e.TTL = o.State, rec.policy.Retention, rec.policy.memory()
	rec.answer, rec.notKept, rec.reason = o.Answer, o.NotKept, displayed(o.Reason)
	switch o.verb() {
	case hold:
		e.State, e.Due, e.TTL = Unknown, 0, 0
		rec.answer, rec.notKept = nil, false
	case release:
		e.Due, rec.heard, rec.answer, rec.notKept = e.TTL, 0, nil, false
	default:
		rec.heard = 0
	}
	c.answers.seal(&e, &rec)
	e.put(rec)
	return e
}

// declaredOver is the entry after its lease ended: nobody knows.
func (c *Claims) declaredOver(e Entry, rec record) Entry {
	rec.heard = rec.heardIn(&e)
	return c.ended(e, rec, Outcome{State: Unknown, Reason: "lease over"})
}

// Extend starts the lease anew, also after it ended if nobody wrote meanwhile. ErrUnknownOutcome: it was
// declared over and is held; the owner may still settle. ErrClaimLost: it may not.
func (c *Claims) Extend(ctx context.Context, cl *Claim) error {
	return c.own(ctx, cl, extend, extended)
}

func extended(e Entry, rec record) Entry {
	e, rec = carried(e, rec)
	e.State, e.Due, e.TTL = InFlight, rec.policy.Lease, 0
	e.put(rec)
	return e
}

// Act marks an owned claim of a two-step policy, before its operation acts: from now on nobody takes it for one
// under which nothing happened. The lease starts anew. It does nothing under another policy. Errors are those of
// Extend, and after any of them the operation must not act: the mark may stand or not.
func (c *Claims) Act(ctx context.Context, cl *Claim) error {
	if cl.Owned() && !cl.twoStep {
		return nil
	}
	return c.own(ctx, cl, act, func(e Entry, rec record) Entry {
		rec.acted = true
		return extended(e, rec)
	})
}

// Settle ends an owned claim: it completes or releases it, as o says. A late owner whose claim was declared
// over, but not resolved, may still settle. ErrClaimLost: somebody else decided; nothing was written.
func (c *Claims) Settle(ctx context.Context, cl *Claim, o Outcome) error {
	return c.own(ctx, cl, o.verb(), func(e Entry, rec record) Entry {
		e = c.ended(e, rec, o)
		if cl.end == (Rev{}) {
			cl.end = e.Rev
		}
		e.Rev = cl.end
		return e
	})
}

// own writes what next makes of the owner's entry, as long as the entry is still the owner's by its nonce and
// the table has an edge. What stands may be newer than the owner knows: an extension whose answer was lost,
// or the end of the lease declared by a claim or the sweeper.
func (c *Claims) own(ctx context.Context, cl *Claim, v verb, next func(Entry, record) Entry) error {
	if !cl.Owned() {
		return ErrClaimLost
	}
	if err := cl.lock(ctx); err != nil {
		return err
	}
	defer func() { <-cl.turn }()
	if err := cl.may(v); err != nil {
		return err
	}
	for range maxRounds {
		rec, err := cl.entry.record()
		if err != nil {
			return err
		}
		if cl.Verdict != Recovering { // whatever an owner writes is a sign of its life; who recovers speaks of another's
			rec.heard = 0
		}
		e := next(cl.entry, rec)
		rep, err := c.replace(ctx, cl.entry, e, v == release && len(rec.history) == 0)
		if err != nil {
			return err
		}
		if rep.OK {
			cl.entry, cl.end = rep.Entry, Rev{}
			return nil
		}
		if settled, err := cl.standing(rep, v); settled || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the entry kept changing", ErrStore)
}

// may tells whether the owner may do v, as far as it knows its entry: a beat that comes behind the record must
// not bring the claim back to life.
func (c *Claim) may(v verb) error {
	switch state := c.entry.State; {
	case state == InFlight, state == Unknown && v != extend && v != act:
		return nil
	case state == Unknown:
		return ErrUnknownOutcome
	}
	return ErrClaimLost
}

func (c *Claim) lock(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}: // free, as nearly always: ctx need not make a timer
		return nil
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replace swaps e in for before, or deletes before. An operator's act must not vanish: an entry with a
// history is kept, Free, where another is deleted.
func (c *Claims) replace(ctx context.Context, before, e Entry, drop bool) (Reply, error) {
	return c.again(ctx, func(ctx context.Context) (Reply, error) {
		if drop {
			return c.store.Delete(ctx, before.ID, before.Rev)
		}
		return c.store.Swap(ctx, before.Rev, e)
	})
}

// standing adopts what stands if it is still this owner's and v is allowed on it. settled: this owner's own
// settling write stands already, its answer was lost, and something that changes no outcome came after it.
func (c *Claim) standing(rep Reply, v verb) (settled bool, err error) {
	if !rep.Found {
		return false, ErrClaimLost
	}
	rec, err := rep.Entry.record()
	if err != nil {
		return false, err
	}
	if rec.nonce != c.nonce || rep.Entry.epoch() != c.epoch {
		return false, ErrClaimLost
	}
	s := meet(&rep.Entry, &rec, rep.Now)
	switch {
	case decide(s, v) != nil:
		c.entry = rep.Entry
		return false, nil
	case s == held, s == heldRecover:
		return false, ErrUnknownOutcome // declared over; the owner may still settle
	case v == complete, v == fail:
		return true, nil // nobody else settles under this nonce
	}
	return false, ErrClaimLost
}

// A lostClaim is a claim of which it is not known whether it stands.
type lostClaim struct {
	nonce  Rev
	sent   Entry  // what was to be written
	before *Entry // what it was to replace; nil for a fresh claim
	err    error
}

func (l *lostClaim) Error() string { return fmt.Sprintf("claim: %v: %v", ErrStore, l.err) }
func (l *lostClaim) Unwrap() []error {
	return []error{ErrStore, l.err}
}

func lost(nonce Rev, sent Entry, before Reply, err error) *lostClaim {
	l := &lostClaim{nonce: nonce, sent: sent, err: err}
	if before.Found {
		l.before = &before.Entry
	}
	return l
}

// takeBack undoes a claim whose answer never came, so that a blip of the store leaves no unknown outcome for
// something that never ran. It goes by the nonce: a fresh claim is deleted, a lost takeover swapped back.
// certain is false while the write may still be on its way.
func (c *Claims) takeBack(ctx context.Context, l *lostClaim) (certain bool, err error) {
	entries, now, err := c.get(ctx, l.sent.ID)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	e := entries[0]
	rec, err := e.record()
	if err != nil || rec.nonce != l.nonce || e.State != InFlight && e.State != Unknown {
		return l.before == nil || e.Rev != l.before.Rev, nil
	}
	if l.before == nil { // a second sending of the same create may land behind this
		_, err := c.replace(ctx, e, Entry{}, true)
		return false, err
	}
	old, err := l.before.record()
	if err != nil {
		return false, err
	}
	rep, err := c.replace(ctx, e, rebased(*l.before, old, now), false)
	return rep.OK, err
}

// rebased is e to be written again at now with nothing changed: what was left of its times is left of them still.
func rebased(e Entry, rec record, now time.Time) Entry {
	rec.heard = rec.heardIn(&e)
	age := now.Sub(e.Stamp)
	if e.Orphan {
		age = max(age, e.Due)
	}
	e, rec = carried(e, rec)
	e.Due = max(e.Due-age, 0)
	if e.TTL > 0 {
		e.TTL = max(e.TTL-age, time.Microsecond)
	}
	e.put(rec)
	return e
}
