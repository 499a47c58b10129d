package promobserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observer/promobserver"
)

func TestEverySeriesStandsAtZeroFromTheStart(t *testing.T) {
	registry, _ := register(t)
	want := map[string]float64{}
	for _, at := range strings.Fields(`claims_total|won claims_total|took_over claims_total|recovering claims_total|busy claims_total|replay claims_total|mismatch
		claims_total|outcome_unknown claims_total|expired claim_errors_total claims_lost_total unrecorded_total in_flight extend_errors_total swept_total sweep_errors_total
		taken_back_total take_back_errors_total resolved_total|completed resolved_total|free held passed_total suspected_total
		answer_bytes|count answer_bytes|sum refused_total|key-missing refused_total|key-invalid refused_total|scope-missing refused_total|scope-unavailable refused_total|too-early refused_total|body-too-large
		refused_total|body-unreadable refused_total|overloaded refused_total|quota-exceeded refused_total|loop-detected refused_total|path-ambiguous refused_total|other`) {
		want[strings.ReplaceAll(at, "|", " ")] = 0
	}
	for _, outcome := range []string{"completed", "unknown_answered", "unknown", "released"} {
		want["operation_seconds "+outcome+" count"], want["operation_seconds "+outcome+" sum"] = 0, 0
		for _, result := range []string{"recorded", "lost", "failed"} {
			want["settled_total "+outcome+" "+result] = 0
		}
	}
	for _, call := range []string{"claim", "settle", "extend"} {
		want["store_seconds "+call+" count"], want["store_seconds "+call+" sum"] = 0, 0
	}
	if diff := cmp.Diff(want, samples(t, registry)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMetricsAreNamedAsPrometheusAsks(t *testing.T) {
	registry, _ := register(t)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatalf("GatherAndLint: %v", err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	const want = `# HELP retrysafe_in_flight Keys that this process owns now: the operation runs, or its outcome is not recorded yet.
# TYPE retrysafe_in_flight gauge
retrysafe_in_flight 0
# HELP retrysafe_resolved_total Decisions of operators, by the state that followed: completed, or free (released or forgotten).
# TYPE retrysafe_resolved_total counter
retrysafe_resolved_total{state="completed"} 0
retrysafe_resolved_total{state="free"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "retrysafe_in_flight", "retrysafe_resolved_total"); err != nil {
		t.Error(err)
	}
}

func TestOperations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		outcome retrysafe.Outcome
		want    string
	}{
		{"completed", paid, "completed"},
		{"answered with a failure", retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: []byte("500")}, "unknown_answered"},
		{"nothing happened", retrysafe.Outcome{State: retrysafe.Free}, "released"},
		{"nobody knows", retrysafe.Outcome{}, "unknown"},
		{"nobody knows, said so", retrysafe.Outcome{State: retrysafe.Unknown}, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{})
				l.ends(t, tt.outcome)
				l.want(t, map[string]float64{"claims_total won": 1, "settled_total " + tt.want + " recorded": 1,
					"operation_seconds " + tt.want + " count": 1, "operation_seconds " + tt.want + " sum": 1,
					"store_seconds claim count": 1, "store_seconds settle count": 1})
			})
		})
	}
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		func() {
			defer func() { recover() }()
			l.meets(t, payload, func(context.Context) retrysafe.Outcome { panic("boom") })
		}()
		l.want(t, map[string]float64{"claims_total won": 1, "operation_seconds unknown count": 1, "settled_total unknown recorded": 1, "store_seconds claim count": 1, "store_seconds settle count": 1})
	})
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		first   retrysafe.Outcome // of an operation that owns the key before
		after   time.Duration
		fp      retrysafe.Fingerprint
		verdict string
	}{
		{name: "replay", first: paid, fp: payload, verdict: "replay"},
		{name: "mismatch", first: paid, fp: other, verdict: "mismatch"},
		{name: "held", fp: payload, verdict: "outcome_unknown"},
		{name: "answer gone", first: paid, after: 25 * time.Hour, fp: payload, verdict: "expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{})
				l.ends(t, tt.first)
				advance(tt.after)
				before := samples(t, l.registry)
				l.meets(t, tt.fp, nil)
				after := samples(t, l.registry)
				for at, v := range before {
					if at == "claims_total "+tt.verdict || at == "store_seconds claim count" {
						v++
					}
					if after[at] != v && at != "store_seconds claim sum" {
						t.Errorf("%s is %v, want %v", at, after[at], v)
					}
				}
			})
		})
	}
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: 9 * time.Second})
		go l.meets(t, payload, func(context.Context) retrysafe.Outcome { advance(10 * time.Second); return paid })
		advance(8 * time.Second)
		l.meets(t, payload, nil)
		during := map[string]float64{"claims_total won": 1, "claims_total busy": 1, "in_flight": 1, "store_seconds claim count": 2, "store_seconds extend count": 2}
		l.want(t, during)
		advance(3 * time.Second)
		l.want(t, map[string]float64{"claims_total won": 1, "claims_total busy": 1, "store_seconds claim count": 2, "store_seconds extend count": 3,
			"operation_seconds completed count": 1, "operation_seconds completed sum": 10, "settled_total completed recorded": 1, "store_seconds settle count": 1})
	})
}

// TestTakenOver has an operation outlive its lease, and another attempt take its key.
func TestTakenOver(t *testing.T) {
	for _, tt := range []struct {
		end     retrysafe.LeaseEnd
		verdict string
	}{{retrysafe.Rerun, "took_over"}, {retrysafe.Recover, "recovering"}} {
		t.Run(tt.verdict, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{Lease: 10 * time.Second, MaxRun: time.Microsecond, OnLeaseEnd: tt.end,
					Recover: func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
						advance(time.Second)
						return paid, nil
					}})
				go l.meets(t, payload, func(context.Context) retrysafe.Outcome { advance(20 * time.Second); return paid })
				advance(11 * time.Second)
				l.ends(t, paid)
				advance(time.Minute)
				l.want(t, map[string]float64{"claims_total won": 1, "claims_total " + tt.verdict: 1, "claims_lost_total": 1,
					"settled_total completed recorded": 1, "settled_total completed lost": 1, "operation_seconds completed count": 2, "operation_seconds completed sum": 21,
					"store_seconds claim count": 2, "store_seconds settle count": 2})
			})
		})
	}
}

func TestForgottenWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: 9 * time.Second})
		go l.meets(t, payload, func(ctx context.Context) retrysafe.Outcome { <-ctx.Done(); return paid })
		synctest.Wait()
		if _, err := l.Forget(t.Context(), order.ID(), "ana", "wrong shop", true); err != nil {
			t.Fatalf("Forget: %v", err)
		}
		advance(3 * time.Second) // to the heartbeat that learns of it
		l.want(t, map[string]float64{"claims_total won": 1, "claims_lost_total": 1, "settled_total completed lost": 1, "resolved_total free": 1,
			"operation_seconds completed count": 1, "operation_seconds completed sum": 3, "extend_errors_total": 1,
			"store_seconds claim count": 1, "store_seconds settle count": 1, "store_seconds extend count": 1})
	})
}

func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		l.ends(t, retrysafe.Outcome{})
		for range 2 {
			if _, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{Happened: true, By: "ana", Why: "seen", Force: true}); err != nil {
				t.Fatalf("Resolve: %v", err)
			}
		}
		if _, err := l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{By: "ana", Why: "not seen", Force: true}); err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		if got := samples(t, l.registry); got["resolved_total completed"] != 2 || got["resolved_total free"] != 1 {
			t.Errorf("resolved: %v completed, %v free, want 2, 1", got["resolved_total completed"], got["resolved_total free"])
		}
	})
}

func TestUnreadableEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		damage := func() {
			entries, _, err := l.store.Get(t.Context(), order.ID())
			if err != nil || len(entries) != 1 {
				t.Fatalf("Get: %d entries, %v", len(entries), err)
			}
			e := entries[0]
			old := e.Rev
			e.Rev, e.Body = retrysafe.NewRev(), []byte("?")
			if _, err := l.store.Swap(t.Context(), old, e); err != nil {
				t.Fatalf("Swap: %v", err)
			}
		}
		l.meets(t, payload, func(context.Context) retrysafe.Outcome { damage(); return paid })
		if _, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, nil); !errors.Is(err, retrysafe.ErrUnreadable) {
			t.Fatalf("Execute: %v, want ErrUnreadable", err)
		}
		l.want(t, map[string]float64{"claims_total won": 1, "claim_errors_total": 1, "settled_total completed failed": 1, "operation_seconds completed count": 1,
			"store_seconds claim count": 2, "store_seconds settle count": 1})
	})
}

func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{RecordWait: time.Second})
		done := make(chan retrysafe.Result, 1)
		go func() {
			done <- l.meets(t, payload, func(context.Context) retrysafe.Outcome { l.store.fails.Store(true); return paid })
		}()
		if r := <-done; !errors.Is(r.Err, retrysafe.ErrUnrecorded) {
			t.Fatalf("record: %v, want ErrUnrecorded", r.Err)
		}
		if got := samples(t, l.registry); got["in_flight"] != 1 || got["store_seconds settle count"] != 0 {
			t.Errorf("not recorded yet: in flight %v, settled %v, want 1, 0", got["in_flight"], got["store_seconds settle count"])
		}
		l.store.fails.Store(false)
		advance(time.Minute)
		got := samples(t, l.registry)
		if got["in_flight"] != 0 || got["settled_total completed recorded"] != 1 || got["store_seconds settle sum"] < 1 {
			t.Errorf("recorded: in flight %v, settled %v in %v s, want 0, 1 and at least the wait of 1 s", got["in_flight"], got["settled_total completed recorded"], got["store_seconds settle sum"])
		}
	})
}

func TestClaimWithoutAnswerIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{})
		l.store.loses.Store(true)
		if _, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, nil); !errors.Is(err, retrysafe.ErrStore) {
			t.Fatalf("Execute: %v, want ErrStore", err)
		}
		l.store.loses.Store(false)
		advance(time.Minute)
		l.want(t, map[string]float64{"claim_errors_total": 1, "store_seconds claim count": 1, "taken_back_total": 1})
	})
}

func TestSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{SweepInterval: time.Hour})
		l.ends(t, paid)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		advance(25*time.Hour + time.Minute) // retention is over: buried
		l.want(t, map[string]float64{"claims_total won": 1, "settled_total completed recorded": 1, "operation_seconds completed count": 1, "operation_seconds completed sum": 1,
			"store_seconds claim count": 1, "store_seconds settle count": 1, "swept_total": 1})
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestEveryEvent gives events that a real Executor brings about only in bad times, and some that it never does.
func TestEveryEvent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event retrysafe.Event
		want  map[string]float64
	}{
		{"sweep that failed half-way", retrysafe.Event{Kind: retrysafe.EventSwept, Count: 7, Err: errBlip}, map[string]float64{"swept_total": 7, "sweep_errors_total": 1}},
		{"look after a claim that failed", retrysafe.Event{Kind: retrysafe.EventTakenBack, Err: errBlip}, map[string]float64{"taken_back_total": 1, "take_back_errors_total": 1}},
		{"extension that failed", retrysafe.Event{Kind: retrysafe.EventExtended, Took: time.Second, Err: errBlip},
			map[string]float64{"extend_errors_total": 1, "store_seconds extend count": 1}},
		{"claim without a verdict", retrysafe.Event{Kind: retrysafe.EventClaimed}, map[string]float64{"claim_errors_total": 1, "store_seconds claim count": 1}},
		{"verdict of tomorrow", retrysafe.Event{Kind: retrysafe.EventClaimed, Verdict: 200}, map[string]float64{"claim_errors_total": 1, "store_seconds claim count": 1}},
		{"state of tomorrow", retrysafe.Event{Kind: retrysafe.EventRan, State: 200}, map[string]float64{"operation_seconds unknown count": 1}},
		{"no kind", retrysafe.Event{}, map[string]float64{}},
		{"kind of tomorrow", retrysafe.Event{Kind: 200, Err: errBlip}, map[string]float64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			registry, o := register(t)
			o.Observe(t.Context(), tt.event)
			(&lab{registry: registry}).want(t, tt.want)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := promobserver.New(nil); err == nil || !strings.Contains(err.Error(), "Registerer is required") {
		t.Errorf("no registry: %v", err)
	}
	registry, _ := register(t)
	if _, err := promobserver.New(registry); err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
		t.Errorf("twice: %v, want an error that names the remedy", err)
	}
}

func TestTwoObserversToldApartByALabel(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, api := range []string{"orders", "payments"} {
		o, err := promobserver.New(prometheus.WrapRegistererWith(prometheus.Labels{"api": api}, registry))
		if err != nil {
			t.Fatalf("New(%s): %v", api, err)
		}
		o.Observe(t.Context(), retrysafe.Event{Kind: retrysafe.EventSwept, Count: len(api)})
	}
	if got := samples(t, registry); got["swept_total orders"] != 6 || got["swept_total payments"] != 8 {
		t.Errorf("swept: %v and %v, want 6 and 8", got["swept_total orders"], got["swept_total payments"])
	}
}

func TestNewRegistersAllOrNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "retrysafe_resolved_total", Help: "Somebody else's."}))
	if _, err := promobserver.New(registry); err == nil {
		t.Fatal("a name that is taken: no error")
	}
	if got := samples(t, registry); len(got) != 1 {
		t.Errorf("registry holds %v, want what it held before", got)
	}
}

// everyEvent is one of each kind and label.
func everyEvent() (events []retrysafe.Event) {
	for v := retrysafe.Won; v <= retrysafe.Expired; v++ {
		events = append(events, retrysafe.Event{Kind: retrysafe.EventClaimed, Verdict: v, Took: time.Millisecond})
	}
	for s := retrysafe.Absent; s <= retrysafe.Reserved; s++ {
		events = append(events, retrysafe.Event{Kind: retrysafe.EventRan, State: s, Took: time.Second})
		for _, err := range []error{nil, retrysafe.ErrClaimLost, retrysafe.ErrUnreadable} {
			events = append(events, retrysafe.Event{Kind: retrysafe.EventSettled, State: s, Took: time.Millisecond, Err: err})
		}
		events = append(events, retrysafe.Event{Kind: retrysafe.EventResolved, State: s})
	}
	for _, kind := range []retrysafe.EventKind{retrysafe.EventClaimed, retrysafe.EventExtended, retrysafe.EventTakenBack, retrysafe.EventSwept} {
		events = append(events, retrysafe.Event{Kind: kind, Count: 3}, retrysafe.Event{Kind: kind, Err: errBlip})
	}
	return events
}

func TestNoEventAddsASeries(t *testing.T) {
	registry, o := register(t)
	before := samples(t, registry)
	var wg sync.WaitGroup
	for range 8 { // the race detector looks on
		wg.Go(func() {
			for i, e := range everyEvent() {
				e.ID = retrysafe.Key{Scope: "s", Name: fmt.Sprint(i)}.ID()
				o.Observe(t.Context(), e)
			}
			samples(t, registry)
		})
	}
	wg.Wait()
	after := samples(t, registry)
	for at := range after {
		if _, known := before[at]; !known {
			t.Errorf("series %s is new", at)
		}
	}
	if got := after["claims_total won"]; got != 8 {
		t.Errorf("8 claims were won, counted %v", got)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	_, o := register(t)
	for _, e := range everyEvent() {
		if n := testing.AllocsPerRun(100, func() { o.Observe(context.Background(), e) }); n != 0 {
			t.Errorf("event %v, verdict %v, state %v, error %v: %v allocations, want 0", e.Kind, e.Verdict, e.State, e.Err, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	o, err := promobserver.New(prometheus.NewRegistry())
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	claimed := retrysafe.Event{Kind: retrysafe.EventClaimed, Verdict: retrysafe.Won, Took: 300 * time.Microsecond}
	ran := retrysafe.Event{Kind: retrysafe.EventRan, State: retrysafe.Completed, Took: 20 * time.Millisecond}
	settled := retrysafe.Event{Kind: retrysafe.EventSettled, State: retrysafe.Completed, Took: 400 * time.Microsecond}
	for _, bb := range []struct {
		name   string
		events []retrysafe.Event
	}{{"claimed", []retrysafe.Event{claimed}}, {"operation", []retrysafe.Event{claimed, ran, settled}}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					for _, e := range bb.events {
						o.Observe(b.Context(), e)
					}
				}
			})
		})
	}
}
