// Package promobserver tells Prometheus what an Executor does.
//
//	observer, err := promobserver.New(registry)
//	...
//	executor, err := retrysafe.New(store, &retrysafe.Options{Observer: observer})
//
// Every counter stands at zero from the start, so that the first event already shows in a rate. Labels take
// the values that the help texts name and no others: no key, no scope, nothing that a caller chooses. To
// observe an event allocates nothing.
//
// Worth an alert: retrysafe_held above 0 and growth of retrysafe_settled_total{outcome="unknown"} (a person has to decide), of
// retrysafe_claims_lost_total (an operation ran and somebody else had decided over it) and of the errors; and a
// retrysafe_in_flight that does not come down.
package promobserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe"
)

// An Observer counts and times what Executors do; several may share it. Use New. Its fields are resolved once,
// so that no event looks a label up.
type Observer struct {
	claims      [retrysafe.Expired + 1]prometheus.Counter // by verdict, from Won
	claimErrors prometheus.Counter
	claimTime   prometheus.Observer

	operationTime [outcomes]prometheus.Observer

	settled    [outcomes][results]prometheus.Counter
	settleTime prometheus.Observer
	lost       prometheus.Counter
	unrecorded prometheus.Counter
	inFlight   prometheus.Gauge

	extendErrors prometheus.Counter
	extendTime   prometheus.Observer

	swept, sweepErrors        prometheus.Counter
	takenBack, takeBackErrors prometheus.Counter
	completed, freed          prometheus.Counter // by an operator
	held                      prometheus.Gauge

	answerSize        prometheus.Observer
	refused           map[string]prometheus.Counter // by code; written by New alone
	refusedOther      prometheus.Counter
	passed, suspected prometheus.Counter
}

var _ retrysafe.Observer = (*Observer)(nil)

// New returns an Observer whose metrics are registered with reg, all of them or none.
func New(reg prometheus.Registerer) (*Observer, error) {
	if reg == nil {
		return nil, errors.New("promobserver: new: a Registerer is required")
	}
	o := &Observer{}
	err := reg.Register(o.metrics())
	if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		return nil, fmt.Errorf("promobserver: new: %w: share one Observer, or give each a label of its own with prometheus.WrapRegistererWith", err)
	}
	if err != nil {
		return nil, fmt.Errorf("promobserver: new: %w", err)
	}
	return o, nil
}

// Observe counts and times one event. It never blocks.
func (o *Observer) Observe(_ context.Context, e retrysafe.Event) {
	switch e.Kind {
	case retrysafe.EventClaimed:
		o.observeClaim(e)
	case retrysafe.EventRan:
		o.operationTime[outcomeOf(e.State)].Observe(e.Took.Seconds())
	case retrysafe.EventSettled:
		o.observeSettled(e)
	case retrysafe.EventUnrecorded:
		o.unrecorded.Inc()
	case retrysafe.EventExtended:
		o.extendTime.Observe(e.Took.Seconds())
		countError(o.extendErrors, e.Err)
	case retrysafe.EventTakenBack:
		o.takenBack.Inc()
		countError(o.takeBackErrors, e.Err)
	case retrysafe.EventSwept:
		o.swept.Add(float64(e.Count)) // a pass that failed may have changed entries before
		countError(o.sweepErrors, e.Err)
	case retrysafe.EventResolved:
		o.observeResolved(e)
	case retrysafe.EventHeld:
		o.held.Set(float64(e.Count))
	case retrysafe.EventRefused:
		o.observeRefused(e)
	case retrysafe.EventPassed:
		o.passed.Inc()
	case retrysafe.EventSuspected:
		o.suspected.Inc()
	}
}

func (o *Observer) observeClaim(e retrysafe.Event) {
	if e.Took >= 0 { // -1: answered by what a waiter read
		o.claimTime.Observe(e.Took.Seconds())
	}
	if e.Err != nil || e.Verdict < retrysafe.Won || e.Verdict > retrysafe.Expired {
		o.claimErrors.Inc()
		return
	}
	o.claims[e.Verdict].Inc()
	if e.Verdict <= retrysafe.Recovering { // the key is owned: one EventSettled follows, unless a drain gives up
		o.inFlight.Inc()
	}
}

func (o *Observer) observeSettled(e retrysafe.Event) {
	o.settleTime.Observe(e.Took.Seconds())
	o.inFlight.Dec()
	r := resultOf(e.Err)
	o.settled[outcomeOf(e.State)][r].Inc()
	if r == recorded && (e.State == retrysafe.Completed || e.State == retrysafe.UnknownAnswered) {
		o.answerSize.Observe(float64(e.Size))
	}
	if r == lost {
		o.lost.Inc()
	}
}

func (o *Observer) observeRefused(e retrysafe.Event) {
	if c, ok := o.refused[e.Code]; ok {
		c.Inc()
		return
	}
	o.refusedOther.Inc()
}

func (o *Observer) observeResolved(e retrysafe.Event) {
	if e.State == retrysafe.Completed {
		o.completed.Inc()
		return
	}
	o.freed.Inc()
}

func countError(c prometheus.Counter, err error) {
	if err != nil {
		c.Inc()
	}
}
