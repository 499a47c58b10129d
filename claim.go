package retrysafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A Policy is stored with the claim: how long it is held, what becomes of it, how long it is remembered.
// Durations are whole microseconds.
type Policy struct {
	OnLeaseEnd LeaseEnd
	TwoStep    bool          // the operation calls [Act] before its first outside effect: a claim whose lease ended before that is free again
	Lease      time.Duration // from the claim, or its last extension
	Retention  time.Duration // of the answer, from the end of the operation
	Remember   time.Duration // of the key, from the end of retention; 0: not at all
}

// Check refuses a policy that makes no sense: a lease or a retention of nothing, a negative time.
func (p Policy) Check() error {
	if p.Lease < time.Microsecond || p.Retention < time.Microsecond || p.Remember < 0 || p.OnLeaseEnd > Recover {
		return fmt.Errorf("%w: policy %+v: want a Lease and a Retention of at least 1 us, a Remember of at least 0, and a known OnLeaseEnd", ErrInvalid, p)
	}
	return nil
}

// whole is p in whole microseconds, no time longer than the longest.
func (p Policy) whole() Policy {
	for _, d := range [...]*time.Duration{&p.Lease, &p.Retention, &p.Remember} {
		*d = min(*d, longest).Truncate(time.Microsecond)
	}
	return p
}

// memory is how long an entry that holds no answer, or may lose it, is kept. It is never 0, which means for ever.
func (p Policy) memory() time.Duration { return max(p.Retention+p.Remember, time.Microsecond) }

// A ClaimRequest asks to own a key.
type ClaimRequest struct {
	Key         Key
	Fingerprint Fingerprint
	Policy      Policy
	CanRecover  bool // this process knows how to ask what happened

	sealed Fingerprint // with the current key
}

// A Claim is the answer to a ClaimRequest, and the owner's handle for every later verb.
type Claim struct {
	Verdict Verdict
	Stands  State         // of Mismatch: what became of the other operation, a lease that ended counting as Unknown
	NotKept bool          // of Replay: done, but its answer could not be kept
	Failed  bool          // of Replay: the answer is a failure after which the outcome is unknown
	Answer  []byte        // of Replay
	Reason  string        // of OutcomeUnknown, for operators
	Left    time.Duration // of the lease (Busy) or of retention (Replay)
	Age     time.Duration // since the operation that stands began

	key     Key
	id      ID
	twoStep bool // its policy says so
	epoch   int64
	nonce   Rev
	heard   time.Time // of Recovering: the former owner, last, on this process's clock

	// turn is a lock with one slot, which gives way to a context: the heartbeat and the end of the operation
	// meet here. It guards the fields below.
	turn  chan struct{}
	entry Entry // what stood last, as far as this owner knows
	end   Rev   // names the settling write, however often it is sent: a landed one is recognised
}

// Owned tells whether the caller owns the key now and must end its claim.
func (c *Claim) Owned() bool { return c.Verdict.owns() }

func (v Verdict) owns() bool { return v == Won || v == TookOver || v == Recovering }

// Epoch is the fencing number of the claim that stands: strictly greater than that of any claim before it.
func (c *Claim) Epoch() int64 { return c.epoch }

// ID is the digest under which the claim stands.
func (c *Claim) ID() ID { return c.id }

// Format prints the verdict and the key's tag for every verb: neither key nor answer can reach a log.
func (c *Claim) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%v of %v", c.Verdict, c.key) }

// Claims is the verbs over a Store: claim, extend, settle (complete or release), resolve, forget, sweep and
// inspect. It is the state machine; [Executor] puts it around an operation.
type Claims struct {
	store   Store
	seal    *sealer
	answers answerKeys
	timeout time.Duration // of one store call
}

// maxRounds bounds how often a verb starts over because somebody else wrote between two of its calls.
const maxRounds = 64

// Claim claims r.Key, or says what stands in the way. A fresh claim, a replay and a refusal are one store
// call, a takeover is two. An error of the store leaves open whether the claim stands: take it back.
func (c *Claims) Claim(ctx context.Context, r ClaimRequest) (*Claim, error) {
	id, nonce := r.Key.ID(), NewRev()
	r.sealed = c.seal.current().seal(r.Fingerprint)
	sent, before := c.claimed(id, &r, nonce, Won, nil, &record{}, time.Time{}), Reply{}
	rep, err := c.again(ctx, func(ctx context.Context) (Reply, error) { return c.store.Create(ctx, sent) })
	st := step{verdict: Won}
	for round := 0; err == nil && !rep.OK; round++ {
		if st, err = c.judge(id, &rep, &r, nonce, st.verdict); err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if !st.write {
			break
		}
		if round == maxRounds {
			return nil, fmt.Errorf("claim: %w: the entry kept changing", ErrStore)
		}
		sent, sent.Rev = st.next, NewRev()
		over := rep
		if !st.own { // else what it replaced is still what it replaced first
			before = rep
		}
		rep, err = c.again(ctx, func(ctx context.Context) (Reply, error) { return c.write(ctx, &over, sent) })
	}
	if err != nil {
		return nil, lost(nonce, sent, before, err)
	}
	if rep.OK {
		if err = st.wrote(nonce, &rep, sent); err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
	}
	cl := newClaim(r.Key, st.verdict, &rep, &st.rec)
	cl.twoStep = r.Policy.TwoStep
	return cl, nil
}

// met is what r meets in an entry that was read already: nil if a claim would have to write.
func (c *Claims) met(r ClaimRequest, rep *Reply) (*Claim, error) {
	if rep == nil || !rep.Found {
		return nil, nil
	}
	r.sealed = c.seal.current().seal(r.Fingerprint)
	st, err := c.judge(rep.Entry.ID, rep, &r, Rev{}, 0)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	if st.write {
		return nil, nil
	}
	return newClaim(r.Key, st.verdict, rep, &st.rec), nil
}

// write puts e in place of what stood, if anything did.
func (c *Claims) write(ctx context.Context, over *Reply, e Entry) (Reply, error) {
	if !over.Found {
		return c.store.Create(ctx, e)
	}
	return c.store.Swap(ctx, over.Entry.Rev, e)
}

// newClaim is the claim that found or wrote rep's entry, whose record is rec.
func newClaim(key Key, v Verdict, rep *Reply, rec *record) *Claim {
	e := &rep.Entry
	began := e.Stamp
	if rec.started != 0 {
		began = time.UnixMicro(rec.started)
	}
	c := &Claim{Verdict: v, NotKept: rec.notKept, Failed: e.State == UnknownAnswered, Reason: rec.reason,
		Left: e.Due - rep.Now.Sub(e.Stamp), Age: rep.Now.Sub(began), key: key, id: e.ID, epoch: e.epoch(), nonce: rec.nonce, entry: *e}
	if v == Mismatch {
		c.Stands = stands(e.State, c.Left)
	}
	if v == Replay { // of all others it is nobody's business, and may be sealed
		c.Answer = rec.answer
	}
	if v.owns() {
		c.turn = make(chan struct{}, 1)
	}
	if v == Recovering {
		c.heard = time.Now().Add(time.UnixMicro(rec.heard).Sub(rep.Now))
	}
	return c
}

// stands is what a state says to who asks with another operation.
func stands(s State, left time.Duration) State {
	switch {
	case s == InFlight && left <= 0:
		return Unknown
	case s == Tombstone:
		return Completed
	}
	return s
}

// A step is what a claim does to what stands.
type step struct {
	verdict Verdict
	write   bool
	own     bool // what stands is this very claim, its answer lost and its lease declared over meanwhile
	next    Entry
	rec     record // of what stands, where it is not written over
}

// wrote takes in that sent was written. What was just sent is known; it is not read again but by who recovers.
func (st *step) wrote(nonce Rev, rep *Reply, sent Entry) (err error) {
	if !st.verdict.owns() || st.verdict == Recovering || rep.Entry.Rev != sent.Rev {
		st.rec, err = rep.Entry.record()
		return err
	}
	st.rec = record{nonce: nonce}
	sent.Stamp = rep.Entry.Stamp
	rep.Entry = sent
	return nil
}

// judge asks the table what stands in the way of r. It writes nothing. nonce is that of the
// claim being made, and meant what it was to be answered when it was sent last.
func (c *Claims) judge(id ID, rep *Reply, r *ClaimRequest, nonce Rev, meant Verdict) (step, error) {
	if !rep.Found {
		return step{verdict: Won, write: true, next: c.claimed(id, r, nonce, Won, nil, &record{}, rep.Now)}, nil
	}
	e := &rep.Entry
	rec, err := e.record()
	if err != nil {
		return step{}, err
	}
	if rec.nonce == nonce && (e.State == InFlight || e.State == Unknown) {
		return step{verdict: meant, write: true, own: true, next: c.claimed(id, r, nonce, meant, e, &rec, rep.Now)}, nil
	}
	s := meet(e, &rec, rep.Now)
	if s.compared() {
		same, err := c.seal.same(e.Fingerprint, rec.keyID, r)
		if err != nil || !same {
			return step{verdict: Mismatch, rec: rec}, err
		}
	}
	ed := decide(s, claim)
	switch {
	case ed.verdict == Recovering && !r.CanRecover:
		return step{verdict: OutcomeUnknown, rec: rec}, nil
	case ed.verdict == Replay:
		err := c.answers.open(e, &rec)
		return step{verdict: Replay, rec: rec}, err
	case !ed.write:
		return step{verdict: ed.verdict, rec: rec}, nil
	case ed.to == Unknown:
		return step{verdict: ed.verdict, write: true, next: c.declaredOver(*e, rec)}, nil
	}
	return step{verdict: ed.verdict, write: true, next: c.claimed(id, r, nonce, ed.verdict, e, &rec, rep.Now)}, nil
}

// claimed is the entry of a new claim that is answered v. With nothing before it, epoch and start are the stamp that the store gives
// it. The nonce names the claim's first write too; another one needs a Rev of its own.
func (c *Claims) claimed(id ID, r *ClaimRequest, nonce Rev, v Verdict, before *Entry, old *record, now time.Time) Entry {
	key := c.seal.current()
	e := Entry{ID: id, Rev: nonce, State: InFlight, Fingerprint: r.sealed, Scope: displayed(r.Key.Scope), Display: r.Key.display(), Due: r.Policy.Lease}
	rec := record{policy: r.Policy, keyID: key.id, nonce: nonce, attempts: old.attempts + 1, history: old.history,
		acted: v != Won} // whoever owned the key before may have: a claim that takes over is born marked
	if before != nil {
		e.Epoch = nextEpoch(before.epoch(), now)
	}
	if v == Recovering { // however often it is asked what became of an operation, that is when its own owner was heard of
		rec.heard = old.heardIn(before)
	}
	e.put(rec)
	return e
}

// again repeats a call whose outcome is not known; writes carry a Rev of their own, so this is safe.
func (c *Claims) again(ctx context.Context, call func(context.Context) (Reply, error)) (rep Reply, err error) {
	return again(ctx, func(ctx context.Context) (Reply, error) {
		bound := within(ctx, c.timeout)
		defer bound.release()
		return call(bound)
	})
}

// again ends at once on an error that says that nothing was written, but returns such an error only if that
// is true of every try.
func again(ctx context.Context, call func(context.Context) (Reply, error)) (rep Reply, err error) {
	var open error
	for range 3 {
		rep, err = call(ctx)
		switch {
		case err == nil:
			return rep, nil
		case errors.Is(err, ErrNotWritten):
			return rep, cmp.Or(open, err)
		case ctx.Err() != nil:
			return rep, err
		}
		open = err
	}
	return rep, open
}

func (c *Claims) get(ctx context.Context, ids ...ID) ([]Entry, time.Time, error) {
	bound := within(ctx, c.timeout)
	defer bound.release()
	return c.store.Get(bound, ids...)
}
