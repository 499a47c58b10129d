package promobserver_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observer/promobserver"
	"github.com/retrysafe/retrysafe/store/memstore"
)

var (
	order   = retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
	payload = retrysafe.FingerprintOf([]byte("charge 10 EUR"))
	other   = retrysafe.FingerprintOf([]byte("charge 99 EUR"))
)

func register(t *testing.T) (*prometheus.Registry, *promobserver.Observer) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	o, err := promobserver.New(registry)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return registry, o
}

// A lab is an Executor under observation, over a store whose answers may be lost.
type lab struct {
	*retrysafe.Executor
	store    *lossy
	registry *prometheus.Registry
}

func newLab(t *testing.T, o *retrysafe.Options) *lab {
	t.Helper()
	registry, observer := register(t)
	o.Observer = observer
	store := &lossy{Store: memstore.New(nil)}
	e, err := retrysafe.New(store, o)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	if err := e.Open(t.Context()); err != nil {
		t.Fatalf("Open: %v", err)
	}
	return &lab{e, store, registry}
}

// lossy is a memory store that does its writes and, as long as it is told so, loses the answers, or does nothing
// and fails.
type lossy struct {
	*memstore.Store
	loses, fails atomic.Bool
}

var errBlip = errors.New("connection reset")

func (s *lossy) do(write func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	if s.fails.Load() {
		return retrysafe.Reply{}, errBlip
	}
	r, err := write()
	if s.loses.Load() {
		return retrysafe.Reply{}, errBlip
	}
	return r, err
}

func (s *lossy) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.do(func() (retrysafe.Reply, error) { return s.Store.Create(ctx, e) })
}

func (s *lossy) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.do(func() (retrysafe.Reply, error) { return s.Store.Swap(ctx, old, e) })
}

// advance lets d pass, and all that it brings about.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ends runs an operation that takes a second and ends with o, or meets what stands.
func (l *lab) ends(t *testing.T, o retrysafe.Outcome) {
	t.Helper()
	l.meets(t, payload, func(context.Context) retrysafe.Outcome { advance(time.Second); return o })
}

func (l *lab) meets(t *testing.T, fp retrysafe.Fingerprint, op func(context.Context) retrysafe.Outcome) retrysafe.Result {
	t.Helper()
	r, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: fp}, op)
	if err != nil {
		t.Errorf("Execute: %v", err)
	}
	return r
}

var paid = retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid")}

// samples is every series of the registry by its name and labels: a histogram as its count and, of operations, sum.
func samples(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	got := map[string]float64{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "retrysafe_")
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			at := strings.Join(append([]string{name}, labels...), " ")
			switch {
			case m.GetCounter() != nil:
				got[at] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				got[at] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				got[at+" count"] = float64(m.GetHistogram().GetSampleCount())
				got[at+" sum"] = m.GetHistogram().GetSampleSum()
			default:
				t.Errorf("%s is of an unexpected type", at)
			}
		}
	}
	return got
}

// want expects exactly those samples not to be zero. Sums over the store are left out: it is as fast as it is.
func (l *lab) want(t *testing.T, want map[string]float64) {
	t.Helper()
	got := samples(t, l.registry)
	maps.DeleteFunc(got, func(at string, v float64) bool {
		return v == 0 || strings.HasPrefix(at, "answer_bytes") || strings.HasPrefix(at, "store_seconds") && strings.HasSuffix(at, "sum")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples: -want +got\n%s", diff)
	}
}
