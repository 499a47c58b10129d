package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// An Executor runs operations at most once a key. Its methods may be called at once from many goroutines.
type Executor struct {
	store      Store
	o          Options
	policy     Policy
	answers    answerKeys
	claims     atomic.Pointer[Claims] // nil until the fingerprint keys are known
	opening    chan struct{}          // one slot, a lock that gives way to a context
	mu         sync.Mutex
	active     int           // operations and background work under way; guarded by mu
	draining   bool          // guarded by mu
	idle       chan struct{} // closed when draining and active is 0
	stopped    context.Context
	stop       context.CancelFunc // ends background work
	takingBack atomic.Int64       // take-backs under way
	waiters    waiters
	replays    counts
}

// New returns an Executor over s. It touches neither the store nor any goroutine.
func New(s Store, o *Options) (*Executor, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: new: a Store is required", ErrInvalid)
	}
	e := &Executor{store: s, idle: make(chan struct{}), opening: make(chan struct{}, 1)}
	if o != nil {
		e.o = *o
	}
	if err := e.o.fill(); err != nil {
		return nil, err
	}
	if _, err := newSealer(e.o.FingerprintKeys); err != nil {
		return nil, err
	}
	keys, err := newAnswerKeys(e.o.AnswerKeys, e.o.FingerprintKeys)
	if err != nil {
		return nil, err
	}
	e.answers = keys
	e.policy = Policy{OnLeaseEnd: e.o.OnLeaseEnd, Lease: e.o.Lease, Retention: e.o.Retention, Remember: e.o.Remember}
	e.stopped, e.stop = context.WithCancel(context.Background())
	e.waiters.init(s, &e.o)
	return e, nil
}

// Policy returns the policy of a claim that brings none of its own.
func (e *Executor) Policy() Policy { return e.policy }

// Check refuses, with ErrInvalid, the policy of requests that Execute would refuse each time.
func (e *Executor) Check(p *Policy, r RecoverFunc) error {
	_, err := e.policyOf(&Request{Policy: p, Recover: r})
	return err
}

// Open makes sure that the store answers and that the fingerprint keys are the store's. Every verb does so by
// itself; a server calls it at start, to fail there.
func (e *Executor) Open(ctx context.Context) error {
	_, err := e.open(ctx)
	return err
}

func (e *Executor) open(ctx context.Context) (*Claims, error) {
	if c := e.claims.Load(); c != nil {
		return c, nil
	}
	select {
	case e.opening <- struct{}{}:
		defer func() { <-e.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open: %w", errors.Join(ErrStore, ctx.Err()))
	}
	if c := e.claims.Load(); c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.StoreTimeout)
	defer cancel()
	seal, err := openSealer(ctx, e.store, e.o.FingerprintKeys)
	if err != nil {
		return nil, err
	}
	c := &Claims{store: e.store, seal: seal, answers: e.answers, timeout: e.o.StoreTimeout}
	e.claims.Store(c)
	return c, nil
}

// A Request asks for one operation under one key.
type Request struct {
	Key         Key
	Fingerprint Fingerprint
	Policy      *Policy       // nil: the Executor's
	Wait        time.Duration // for another attempt to end; 0: not at all
	Recover     RecoverFunc   // nil: the Executor's
	Detached    bool          // the operation's context does not end with the caller's
}

// A Result is what became of a Request. Verdict Won or TookOver: the operation ran here, and State and Answer
// are its own. Replay: they are those of the first. Mismatch: State is what became of the other operation. Every
// other verdict: there is no answer.
type Result struct {
	Verdict Verdict
	State   State
	Answer  []byte
	NotKept bool  // done, but Answer is not all there was
	Epoch   int64 // of the claim that stands
	ID      ID
	Left    time.Duration // Busy: of the lease; Replay: of the retention
	Age     time.Duration // Busy: since the operation that stands began
	Err     error         // of recording, after the operation ran here: ErrUnrecorded, ErrClaimLost or nil
}

// Do runs op at most once under key and returns its answer, or the answer of the attempt that ran it. An error
// of op means that its outcome is unknown and is held, unless it wraps [ErrDidNothing]: then the key is
// released. A panic is an unknown outcome too. op's ctx ends when the claim is lost.
//
// Errors: [ErrInFlight], [ErrMismatch], [ErrUnknownOutcome], [ErrExpired], [ErrAnswerNotKept], [ErrFailed];
// [ErrStore], [ErrUnreadable], [ErrDraining] where nothing ran; [ErrUnrecorded] or [ErrClaimLost] beside a
// valid Result where op ran and its answer could not be recorded; op's own error.
func (e *Executor) Do(ctx context.Context, key Key, fp Fingerprint, op func(ctx context.Context) ([]byte, error)) (Result, error) {
	var failure error
	r, err := e.Execute(ctx, Request{Key: key, Fingerprint: fp, Wait: e.o.Wait}, func(ctx context.Context) Outcome {
		answer, err := op(ctx)
		failure = err
		switch {
		case err == nil:
			return Outcome{State: Completed, Answer: answer}
		case didNothing(err):
			return Outcome{State: Free}
		}
		return Outcome{Reason: "the operation returned an error"}
	})
	if err = errors.Join(inner(failure), err); err != nil {
		return r, err
	}
	return r, r.err()
}

// err is what stands in the answer's place.
func (r Result) err() error {
	switch r.Verdict {
	case Busy:
		return ErrInFlight
	case Mismatch:
		return ErrMismatch
	case OutcomeUnknown:
		return ErrUnknownOutcome
	case Expired:
		return ErrExpired
	case Replay:
		if r.State == UnknownAnswered {
			return ErrFailed
		}
		if r.NotKept {
			return ErrAnswerNotKept
		}
	}
	return r.Err
}

// Execute is Do for callers that tell apart how an operation ends. op runs in the calling goroutine, under a
// claim that is kept alive. An error means that nothing ran.
func (e *Executor) Execute(ctx context.Context, req Request, op func(ctx context.Context) Outcome) (Result, error) {
	if req.Key.Name == "" {
		return Result{}, fmt.Errorf("%w: the key has no name", ErrInvalid)
	}
	policy, err := e.policyOf(&req)
	if err != nil {
		return Result{}, err
	}
	if !e.enter(ctx) {
		return Result{}, ErrDraining
	}
	defer e.leave()
	claims, err := e.open(ctx)
	if err != nil {
		return Result{}, err
	}
	c, err := e.claim(ctx, claims, &req, policy)
	for err == nil && c.Verdict == Recovering { // again if a second owner died behind the first answer
		c, err = e.recover(ctx, claims, c, &req, policy)
	}
	if err != nil {
		return Result{}, err
	}
	if !c.Owned() {
		return e.found(c), nil
	}
	return e.run(ctx, claims, c, req.Detached, op), nil
}

// policyOf returns the policy of a request, and fills in its recovery function.
func (e *Executor) policyOf(req *Request) (Policy, error) {
	if req.Recover == nil {
		req.Recover = e.o.Recover
	}
	if req.Policy == nil {
		return e.policy, nil
	}
	p := req.Policy.whole()
	if err := p.Check(); err != nil {
		return p, err
	}
	if p.OnLeaseEnd == Recover && req.Recover == nil {
		return p, fmt.Errorf("%w: policy says recover: want a Recover function", ErrInvalid)
	}
	return p, nil
}

// found is the Result of a claim that another attempt's entry answered.
func (e *Executor) found(c *Claim) Result {
	r := Result{Verdict: c.Verdict, Epoch: c.epoch, ID: c.id, Left: c.Left, Age: c.Age}
	if c.Verdict != Replay {
		r.State = c.Stands
		return r
	}
	e.replays.add(c.id)
	r.State, r.Answer, r.NotKept = Completed, c.Answer, c.NotKept
	if c.Failed {
		r.State = UnknownAnswered
	}
	return r
}

// claim claims, and waits for another attempt to end as long as req says. Waiting only reads.
func (e *Executor) claim(ctx context.Context, claims *Claims, req *Request, policy Policy) (*Claim, error) {
	r := ClaimRequest{Key: req.Key, Fingerprint: req.Fingerprint, Policy: policy, CanRecover: req.Recover != nil}
	var patience time.Time
	if req.Wait > 0 {
		patience = time.Now().Add(req.Wait)
	}
	c, err := e.claimOnce(ctx, claims, r)
	for err == nil && c.Verdict == Busy && time.Until(patience) > 0 {
		stands, ok := e.waiters.wait(ctx, c, time.Until(patience))
		if !ok {
			break
		}
		if c, err = claims.met(r, stands); c == nil && err == nil {
			c, err = e.claimOnce(ctx, claims, r)
		} else {
			e.observeClaim(ctx, c, -1, err)
		}
	}
	return c, err
}

func (e *Executor) claimOnce(ctx context.Context, claims *Claims, r ClaimRequest) (*Claim, error) {
	began := e.began()
	c, err := claims.Claim(ctx, r)
	if ctx.Err() == nil || err == nil { // a caller who hung up is no failure
		e.observeClaim(ctx, c, e.took(began), err)
	}
	if lost, ok := errors.AsType[*lostClaim](err); ok && !errors.Is(err, ErrNotWritten) {
		e.takeBack(claims, lost)
	}
	return c, err
}

// run runs op under the claim and records how it ended, whatever way it ends. Detached, op goes on when ctx ends.
func (e *Executor) run(ctx context.Context, claims *Claims, c *Claim, detached bool, op func(context.Context) Outcome) Result {
	began := time.Now()
	running := &operation{bounded: bounded{parent: ctx, deaf: detached}, executor: e, claims: claims, claim: c}
	running.keep(began.Add(e.o.MaxRun))
	returned := false
	defer func() {
		running.end(nil)
		e.mu.Lock()
		running.returned = true
		e.mu.Unlock()
		if !returned { // a panic, or runtime.Goexit: it goes on when this is recorded
			e.observe(ctx, Event{Kind: EventRan, ID: c.id, State: Unknown, Took: e.took(began)})
			running.settle(ctx, Outcome{Reason: "the operation did not return"})
		}
	}()
	out := op(running).plain()
	returned = true
	e.observe(ctx, Event{Kind: EventRan, ID: c.id, State: out.State, Took: e.took(began)})
	out, err := running.settle(ctx, out)
	return Result{Verdict: c.Verdict, State: out.State, Answer: out.Answer, NotKept: out.NotKept, Epoch: c.epoch, ID: c.id, Err: err}
}

// Met returns what Execute would meet, without claiming anything. ok is false where it would run the operation.
// It is for an operation that ran and lost its claim: what was decided meanwhile is what every other caller is
// told.
func (e *Executor) Met(ctx context.Context, req Request) (r Result, ok bool, err error) {
	claims, err := e.open(ctx)
	if err != nil {
		return Result{}, false, err
	}
	entries, now, err := claims.get(ctx, req.Key.ID())
	if err != nil || len(entries) == 0 {
		return Result{}, false, err
	}
	stands, err := claims.met(ClaimRequest{Key: req.Key, Fingerprint: req.Fingerprint}, &Reply{Entry: entries[0], Found: true, Now: now})
	if stands == nil || err != nil {
		return Result{}, false, err
	}
	return e.found(stands), true, nil
}

// recover asks what became of an operation whose owner is gone. A certain "it did not happen" frees the key
// and claims it for the caller.
func (e *Executor) recover(ctx context.Context, claims *Claims, c *Claim, req *Request, policy Policy) (*Claim, error) {
	r := e.run(ctx, claims, c, req.Detached, func(ctx context.Context) Outcome {
		out, err := req.Recover(ctx, req.Key)
		if err != nil {
			e.o.Logger.Error("recovery failed", "id", c.id.String(), "type", fmt.Sprintf("%T", err)) // its text may hold the key
			return Outcome{Reason: "recovery failed"}
		}
		return out
	})
	switch {
	case r.Err != nil:
		return nil, fmt.Errorf("recover: %w", errors.Join(ErrStore, r.Err))
	case r.State == Free:
		return e.claim(ctx, claims, req, policy)
	case r.State != Completed && r.State != UnknownAnswered:
		return &Claim{Verdict: OutcomeUnknown, key: c.key, id: c.id, epoch: c.epoch}, nil
	}
	return &Claim{Verdict: Replay, Answer: r.Answer, NotKept: r.NotKept, Failed: r.State == UnknownAnswered, key: c.key, id: c.id, epoch: c.epoch}, nil
}
