package promobserver

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe"
)

// An outcome is how an operation ended, as the outcome label tells it.
type outcome int

const (
	completed outcome = iota
	unknownAnswered
	unknown
	released
	outcomes
)

func (o outcome) String() string {
	return [...]string{"completed", "unknown_answered", "unknown", "released"}[o]
}

// outcomeOf reads a state as the core does: what is none of three is unknown.
func outcomeOf(s retrysafe.State) outcome {
	switch s {
	case retrysafe.Completed:
		return completed
	case retrysafe.UnknownAnswered:
		return unknownAnswered
	case retrysafe.Free:
		return released
	}
	return unknown
}

// A result is what became of recording an outcome, as the result label tells it.
type result int

const (
	recorded result = iota
	lost
	failed
	results
)

func (r result) String() string { return [...]string{"recorded", "lost", "failed"}[r] }

func resultOf(err error) result {
	switch {
	case err == nil:
		return recorded
	case errors.Is(err, retrysafe.ErrClaimLost):
		return lost
	}
	return failed
}

// Buckets in seconds. A store in memory answers in microseconds, one across a network in milliseconds; the
// last bounds are the core's time-outs. Operations may call other services.
var (
	storeBuckets     = []float64{0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	sizeBuckets      = []float64{0, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
	operationBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
)

// metrics makes all metrics of o.
func (o *Observer) metrics() prometheus.Collector {
	f := &family{}
	o.makeClaims(f)
	o.makeOperations(f)
	o.makeKeepers(f)
	o.makeDoors(f)
	return f
}

func (o *Observer) makeClaims(f *family) {
	claims := f.counters("retrysafe_claims_total", "Claims that the store answered, by verdict. won, took_over and recovering own the key and run; "+
		"busy, replay, mismatch, outcome_unknown and expired met another attempt and ran nothing.", "verdict")
	for v := retrysafe.Won; v <= retrysafe.Expired; v++ {
		o.claims[v] = claims.WithLabelValues(v.String())
	}
	o.claimErrors = f.counter("retrysafe_claim_errors_total", "Claims that failed: the store did not answer, or the entry could not be read. Nothing ran.")
	times := f.times("retrysafe_store_seconds", "Seconds that a verb took in the store, repeated calls included, whether it failed or not: claim, "+
		"settle (record the outcome of an operation, until it is recorded or never can be) or extend (a lease).", storeBuckets, "call")
	o.claimTime, o.settleTime, o.extendTime = times.WithLabelValues("claim"), times.WithLabelValues("settle"), times.WithLabelValues("extend")
	o.inFlight = f.gauge("retrysafe_in_flight", "Keys that this process owns now: the operation runs, or its outcome is not recorded yet.")
	o.lost = f.counter("retrysafe_claims_lost_total", "Operations that ran and whose outcome was refused: meanwhile somebody else had taken the key over, resolved it or forgotten it.")
	o.unrecorded = f.counter("retrysafe_unrecorded_total", "Operations whose answer went out before it was recorded, after it had been held back for as long as allowed; recording went on.")
}

func (o *Observer) makeOperations(f *family) {
	o.answerSize = join(f, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "retrysafe_answer_bytes", Help: "Bytes that are kept of an answer, headers included.", Buckets: sizeBuckets}))
	times := f.times("retrysafe_operation_seconds", "Seconds that an operation ran, by outcome: completed, unknown_answered (answered with a failure "+
		"after which nobody knows), unknown or released (nothing happened). One that panicked is not among them.", operationBuckets, "outcome")
	settled := f.counters("retrysafe_settled_total", "Operations whose recording ended, by outcome (as in retrysafe_operation_seconds, panics are unknown) and "+
		"result: recorded, lost (somebody else had decided) or failed (the entry could not be read).", "outcome", "result")
	for i := range outcomes {
		o.operationTime[i] = times.WithLabelValues(i.String())
		for r := range results {
			o.settled[i][r] = settled.WithLabelValues(i.String(), r.String())
		}
	}
}

// makeKeepers makes the metrics of what runs beside the operations.
func (o *Observer) makeKeepers(f *family) {
	o.extendErrors = f.counter("retrysafe_extend_errors_total", "Extensions of a lease that failed: the store did not answer, or the claim was lost or declared over.")
	o.swept = f.counter("retrysafe_swept_total", "Entries that the sweeper changed or dropped because their time was over.")
	o.sweepErrors = f.counter("retrysafe_sweep_errors_total", "Passes of the sweeper that failed before their end.")
	o.takenBack = f.counter("retrysafe_taken_back_total", "Claims whose answer never came and that stand no more, or were given up.")
	o.takeBackErrors = f.counter("retrysafe_take_back_errors_total", "Looks after claims whose answer never came that failed themselves.")
	resolved := f.counters("retrysafe_resolved_total", "Decisions of operators, by the state that followed: completed, or free (released or forgotten).", "state")
	o.held = f.gauge("retrysafe_held", "Outcomes that are held as unknown, counted at each pass of the sweeper, up to 1000: each waits for a decision.")
	o.completed, o.freed = resolved.WithLabelValues(retrysafe.Completed.String()), resolved.WithLabelValues(retrysafe.Free.String())
}

// refusals are the codes of what doors refuse before a claim, as docs/protocol.md explains them.
var refusals = [...]string{"key-missing", "key-invalid", "scope-missing", "scope-unavailable", "too-early", "body-too-large", "body-unreadable", "overloaded", "quota-exceeded", "loop-detected", "path-ambiguous"}

// makeDoors makes the metrics of what the doors do without a claim.
func (o *Observer) makeDoors(f *family) {
	refused := f.counters("retrysafe_refused_total", "Requests that were refused before any claim, by the code that their caller was told; other is a code that this observer does not know.", "code")
	o.refused = map[string]prometheus.Counter{}
	for _, code := range refusals {
		o.refused[code] = refused.WithLabelValues(code)
	}
	o.refusedOther = refused.WithLabelValues("other")
	o.passed = f.counter("retrysafe_passed_total", "Requests of a guarded method that carried no key, where none is required, and passed unguarded.")
	o.suspected = f.counter("retrysafe_suspected_total", "Operations that another key of the same caller had asked for seconds before: a client may make a new key for each attempt.")
}

// A family is all metrics as one Collector, so that a registry takes all or none.
type family struct{ members []prometheus.Collector }

func (f *family) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range f.members {
		c.Describe(descs)
	}
}

func (f *family) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range f.members {
		c.Collect(metrics)
	}
}

func (f *family) counter(name, help string) prometheus.Counter {
	return join(f, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (f *family) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return join(f, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (f *family) gauge(name, help string) prometheus.Gauge {
	return join(f, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (f *family) times(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	return join(f, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label}))
}

// join makes c a member of f.
func join[C prometheus.Collector](f *family, c C) C {
	f.members = append(f.members, c)
	return c
}
