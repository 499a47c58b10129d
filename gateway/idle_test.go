package gateway_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
)

// The idle keep-alive race. A connection that nobody uses is closed by the upstream at the very moment at
// which a request leaves on it; nobody can tell then whether it acted. A gateway that drops its connections before
// the upstream would never meets this.

var (
	idlePosts = flag.Int("posts", 300, "how many posts each idle keep-alive race has")
	idleTime  = flag.Duration("idle", 1200*time.Millisecond, "after which the upstream of an idle keep-alive race closes a connection")
)

const (
	idleLanes = 100                   // that post at once, each over a connection of its own
	around    = 30 * time.Millisecond // posts fall so far before and behind the moment of closing
	oneWay    = 5 * time.Millisecond  // to the upstream and back, as in a network: what crosses on the way is the race
)

func TestIdleRace(t *testing.T) {
	if *idlePosts < idleLanes || *idleTime < 10*around {
		t.Fatalf("-posts=%d -idle=%v: want at least %d posts and %v, or nothing falls around anything", *idlePosts, *idleTime, idleLanes, 10*around)
	}
	for _, tt := range []struct {
		name  string
		ours  time.Duration // after which the gateway drops a connection
		paced time.Duration // posts fall around so long after the answer before
		check func(*testing.T, *race)
	}{
		{"ours below theirs, around their closing", *idleTime * 2 / 3, *idleTime, func(t *testing.T, r *race) {
			r.wantAllExecuted(t)
		}},
		{"ours below theirs, around ours", *idleTime * 2 / 3, *idleTime * 2 / 3, func(t *testing.T, r *race) {
			r.wantAllExecuted(t)
			r.wantStraddled(t)
		}},
		{"control: ours above theirs", *idleTime * 10 / 3, *idleTime, func(t *testing.T, r *race) {
			if r.unknown.Load() == 0 {
				t.Error("void: no post became unknown, so that the race was not there to be met")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRace(t)
			r.run(t, tt.ours, tt.paced)
			t.Logf("%d posts: %d executed, %d unknown (%d of them executed), %d released; %d executed over a connection used before",
				*idlePosts, r.executed.Load(), r.unknown.Load(), r.ranUnknown.Load(), r.released.Load(), r.reused())
			tt.check(t, r)
		})
	}
}

// A race is an upstream that closes idle connections, some way off, and what became of the posts to it.
type race struct {
	url   string
	mu    sync.Mutex
	ran   map[string]int // posts by key, guarded by mu
	conns atomic.Int64   // that it accepted
	warm  atomic.Int64   // posts that only make a connection

	executed, unknown, ranUnknown, released atomic.Int64 // of the paced posts
}

func newRace(t *testing.T) *race {
	t.Helper()
	r := &race{ran: map[string]int{}}
	s := httptest.NewUnstartedServer(r)
	s.Config.IdleTimeout = *idleTime
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	r.url = "http://" + distance(t, s.Listener.Addr().String(), oneWay)
	return r
}

func (r *race) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.ran[req.Header.Get("Idempotency-Key")]++
	r.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
}

func (r *race) times(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[key]
}

// reused is how many posts were executed over a connection that another had used.
func (r *race) reused() int64 {
	return r.executed.Load() + r.ranUnknown.Load() + r.warm.Load() - r.conns.Load()
}

// run posts in lanes, each through a gateway of its own, which so has one connection.
func (r *race) run(t *testing.T, ours, paced time.Duration) {
	t.Helper()
	var lanes sync.WaitGroup
	for lane := range idleLanes {
		l := newLab(t, r.url, gateway.Options{UpstreamIdle: ours})
		lanes.Go(func() {
			if err := r.lane(t.Context(), l, lane, paced); err != nil {
				t.Errorf("lane %d: %v", lane, err)
			}
		})
	}
	lanes.Wait()
}

// lane posts its share, each so long after the answer to the one before, give or take. Lanes begin at random, so
// that the machine is not asked for all of them at once.
func (r *race) lane(ctx context.Context, l *lab, lane int, paced time.Duration) error {
	wait(ctx, rand.N(paced))
	warm := true
	for n := lane; n < *idlePosts; n += idleLanes {
		if warm {
			r.warm.Add(1)
			if got := l.do(post(fmt.Sprint("warm-", n), "x")); got.status != http.StatusCreated {
				return fmt.Errorf("a post over a new connection: got status %d", got.status)
			}
		}
		wait(ctx, paced-around+rand.N(2*around))
		key := fmt.Sprint("k-", n)
		got := l.do(post(key, "x"))
		if err := r.judge(ctx, l, key, got.status); err != nil {
			return err
		}
		warm = got.status != http.StatusCreated
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// judge counts what became of a post, and checks that the caller, the key and the upstream agree on it.
func (r *race) judge(ctx context.Context, l *lab, key string, status int) error {
	stands := retrysafe.Absent
	record, err := l.executor.Inspect(ctx, retrysafe.Key{Scope: "shared", Name: key}.ID())
	switch {
	case err == nil:
		stands = record.State
	case !errors.Is(err, retrysafe.ErrNotFound):
		return err
	}
	ran := r.times(key)
	switch {
	case status == http.StatusCreated && stands == retrysafe.Completed && ran == 1:
		r.executed.Add(1)
	case status == http.StatusBadGateway && stands == retrysafe.Unknown && ran <= 1:
		r.unknown.Add(1)
		r.ranUnknown.Add(int64(ran))
	case status == http.StatusBadGateway && stands == retrysafe.Absent && ran == 0:
		r.released.Add(1)
	default:
		return fmt.Errorf("key %s: the caller got status %d, it stands as %v, and it ran %d times", key, status, stands, ran)
	}
	return nil
}

func (r *race) wantAllExecuted(t *testing.T) {
	t.Helper()
	if n := r.executed.Load(); n != int64(*idlePosts) {
		t.Errorf("%d of %d posts were executed: %d are unknown, %d released", n, *idlePosts, r.unknown.Load(), r.released.Load())
	}
}

// wantStraddled checks that posts fell on both sides of the closing: some found the connection, some did not.
func (r *race) wantStraddled(t *testing.T) {
	t.Helper()
	if n := r.reused(); n == 0 || n == int64(*idlePosts) {
		t.Errorf("void: %d of %d posts were executed over a connection used before, want some and not all", n, *idlePosts)
	}
}

// distance returns an address from which every byte, and the end of a connection, takes so long to addr and back.
func distance(t *testing.T, addr string, d time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			keep := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			all.Go(func() {
				defer keep()
				var both sync.WaitGroup
				both.Go(func() { late(far, near, d) })
				both.Go(func() { late(near, far, d) })
				both.Wait()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		cancel()
		all.Wait()
	})
	return ln.Addr().String()
}

// late copies from one connection to the other what came d ago, to its end, which closes the other.
func late(to, from net.Conn, d time.Duration) {
	type part struct {
		due time.Time
		b   []byte
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			b := make([]byte, 4096)
			n, err := from.Read(b)
			parts <- part{time.Now().Add(d), b[:n]}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		<-time.After(time.Until(p.due))
		to.Write(p.b) // to one that is gone: the end of from comes back by itself
	}
	to.Close()
}
