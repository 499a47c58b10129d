package load

import "time"

// A tally is what one connection saw. Nobody else touches it while it runs.
type tally struct {
	sent     uint64        // requests written in full, at any time
	statuses [600]uint64   // answers inside the window
	replayed uint64        // of these
	latency  histogram     // of these
	last     time.Duration // when the last of these came
	errors   uint64        // at any time
	first    error         // of these
	firstAt  time.Duration
	gaveUp   int
}

// answered counts an answer inside the window.
func (t *tally) answered(a answer, begun, ended time.Duration) {
	t.statuses[a.status]++
	if a.replayed {
		t.replayed++
	}
	t.latency.add(ended - begun)
	t.last = ended
}

func (t *tally) failed(err error, at time.Duration) {
	t.errors++
	if t.first == nil {
		t.first, t.firstAt = err, at
	}
}

func (t *tally) merge(o *tally) {
	t.sent += o.sent
	for status, n := range o.statuses {
		t.statuses[status] += n
	}
	t.replayed += o.replayed
	t.latency.merge(&o.latency)
	t.last = max(t.last, o.last)
	t.errors += o.errors
	if o.first != nil && (t.first == nil || o.firstAt < t.firstAt) {
		t.first, t.firstAt = o.first, o.firstAt
	}
	t.gaveUp += o.gaveUp
}

// A Report is what a run measured. Errors and Sent count all of it; the rest counts
// the requests that began inside the window and were answered.
type Report struct {
	Requests   uint64         `json:"requests"`
	Seconds    float64        `json:"seconds"` // from the window's begin to the last answer
	Rate       float64        `json:"rate"`    // requests a second
	Errors     uint64         `json:"errors"`  // exchanges and connects that failed
	FirstError string         `json:"first_error,omitempty"`
	GaveUp     int            `json:"gave_up"` // connections that stopped after many errors in a row
	Sent       uint64         `json:"sent"`    // requests written, warm-up and first sendings included
	Statuses   map[int]uint64 `json:"statuses"`
	Replayed   uint64         `json:"replayed"` // answers with Idempotent-Replayed: true
	Latency    Latency        `json:"latency_us"`
	CPUSeconds float64        `json:"cpu_seconds"` // what the generator itself used in Seconds
}

// Latency is the spread of answer times in microseconds, to 1.6 %; Max is exact.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// report sums up a window that began at the time start.
func (t *tally) report(start, cpu time.Duration) Report {
	r := Report{
		Requests:   t.latency.total,
		Errors:     t.errors,
		GaveUp:     t.gaveUp,
		Sent:       t.sent,
		Statuses:   map[int]uint64{},
		Replayed:   t.replayed,
		CPUSeconds: cpu.Seconds(),
		Latency: Latency{
			P50: microseconds(t.latency.quantile(0.50)),
			P90: microseconds(t.latency.quantile(0.90)),
			P99: microseconds(t.latency.quantile(0.99)),
			Max: microseconds(t.latency.max),
		},
	}
	if t.first != nil {
		r.FirstError = t.first.Error()
	}
	for status, n := range t.statuses {
		if n > 0 {
			r.Statuses[status] = n
		}
	}
	if r.Requests > 0 {
		r.Seconds = (t.last - start).Seconds()
		r.Rate = float64(r.Requests) / r.Seconds
	}
	return r
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
