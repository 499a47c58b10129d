package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// A two-step policy in the gateway: a claim is marked just before the first byte of its request leaves.

// A severable store is one that a process can lose: to the others that share it, the process is dead then.
type severable struct {
	retrysafe.Store
	severed atomic.Bool
}

var errSevered = errors.New("severed")

func (s *severable) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	if s.severed.Load() {
		return retrysafe.Reply{}, errSevered
	}
	return s.Store.Create(ctx, e)
}

func (s *severable) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	if s.severed.Load() {
		return retrysafe.Reply{}, errSevered
	}
	return s.Store.Swap(ctx, old, e)
}

func (s *severable) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	if s.severed.Load() {
		return retrysafe.Reply{}, errSevered
	}
	return s.Store.Delete(ctx, id, old)
}

func (s *severable) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	if s.severed.Load() {
		return nil, time.Time{}, errSevered
	}
	return s.Store.Get(ctx, ids...)
}

// A pair is a gateway that is going to die and the one that comes after it, over one store and one upstream.
type pair struct {
	first, second *lab
	store         *severable
	pipes         *pipes
	dialing       chan struct{} // receives when the first is about to connect
	connect       chan error    // lets it, or tells it why not
}

func newPair(t *testing.T, h http.Handler, twoStep bool) (*pair, func()) {
	t.Helper()
	p := retrysafe.Policy{Lease: probeLease, Retention: time.Hour, TwoStep: twoStep}
	whole := memstore.New(nil)
	d := &pair{store: &severable{Store: whole}, pipes: &pipes{make(chan net.Conn), make(chan struct{})}, dialing: make(chan struct{}), connect: make(chan error)}
	o := gateway.Options{Guard: idemhttp.Options{Policy: &p}}
	d.first = labOver(t, d.store, "http://upstream", idemhttp.SharedScope, o)
	d.first.DialBy(func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.dialing <- struct{}{}
		if err := <-d.connect; err != nil {
			return nil, err
		}
		return d.pipes.dial(ctx, network, addr)
	})
	d.second = labOver(t, whole, "http://upstream", idemhttp.SharedScope, o)
	d.second.DialBy(d.pipes.dial)
	s := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(d.pipes) }()
	return d, func() {
		d.store.severed.Store(false) // what is under way ends
		for _, l := range []*lab{d.first, d.second} {
			if err := l.executor.Drain(t.Context()); err != nil {
				t.Errorf("Drain: %v", err)
			}
			l.CloseIdle()
		}
		s.Close()
		<-served
	}
}

// Before the first byte could leave nothing can have happened, however long connecting took; after it, nobody knows.
func TestTwoSteps(t *testing.T) {
	for _, tt := range []struct {
		name    string
		twoStep bool
		reached bool  // the upstream, before the gateway died
		want    int   // status of the retry
		posts   int64 // that reached the upstream in all
	}{
		{"it died while it connected", true, false, 201, 1},
		{"it died when the upstream had the request", true, true, 409, 1},
		{"one step: it died while it connected", false, false, 409, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var posts atomic.Int64
				goOn := make(chan struct{})
				d, stop := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if posts.Add(1); tt.reached {
						<-goOn
					}
					w.WriteHeader(201)
				}), tt.twoStep)
				defer stop()
				ended := make(chan reply, 1)
				go func() { ended <- d.first.do(post("k", "body")) }()
				<-d.dialing
				if tt.reached {
					d.connect <- nil
					synctest.Wait()
				}
				d.store.severed.Store(true)
				advance(probeLease + time.Second)
				got := d.second.do(post("k", "body"))
				if got.status != tt.want || posts.Load() != tt.posts {
					t.Errorf("the retry: got %d after %d posts, want %d after %d", got.status, posts.Load(), tt.want, tt.posts)
				}
				close(goOn)
				if !tt.reached {
					d.connect <- errors.New("no route")
				}
				<-ended
			})
		})
	}
}

// Where the mark cannot be made, nothing leaves: not when the store is down, nor when another has the key by now.
func TestTwoStepsUnmarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var posts atomic.Int64
		d, stop := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			posts.Add(1)
			w.WriteHeader(201)
		}), true)
		defer stop()
		ended := make(chan reply, 1)
		run := func() { ended <- d.first.do(post("k", "body")) }

		go run()
		<-d.dialing
		d.store.severed.Store(true)
		d.connect <- nil
		wantProblem(t, "the store is down", <-ended, 503, problem.StoreUnavailable, "")
		d.store.severed.Store(false)
		advance(probeLease + time.Second)

		go run()
		<-d.dialing
		d.store.severed.Store(true)
		advance(probeLease + time.Second)
		if got := d.second.do(post("k", "body")); got.status != 201 || posts.Load() != 1 {
			t.Errorf("another gateway: got %d after %d posts, want 201 after its own", got.status, posts.Load())
		}
		d.store.severed.Store(false)
		d.connect <- nil
		wantProblem(t, "the key is another's by now", <-ended, 503, problem.StoreUnavailable, "")
		if got := d.first.do(post("k", "body")); got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again: got %d %v, want the answer that stands", got.status, got.header)
		}
		if posts.Load() != 1 {
			t.Errorf("%d posts reached the upstream, want 1", posts.Load())
		}
	})
}
