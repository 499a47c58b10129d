package admin_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// open is a request as a watchdog sends it: no token, any host.
func open(t *testing.T, target string) *http.Request {
	t.Helper()
	r := request(t, http.MethodGet, target, "")
	r.Header.Del("Authorization")
	r.Host = "gateway.internal"
	return r
}

func TestHealthy(t *testing.T) {
	l := newLab(t, nil)
	for target, want := range map[string]string{"/healthz": `{"alive":true}`, "/readyz": `{"ready":true,"reasons":[]}`} {
		w := send(t, l, open(t, target))
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != want {
			t.Errorf("GET %s: %d %s, want 200 %s", target, w.Code, got, want)
		}
	}
}

// wantNotReady expects 503 with those reasons, and the process alive.
func (l *lab) wantNotReady(t *testing.T, reasons string) {
	t.Helper()
	w := send(t, l, open(t, "/readyz"))
	wantRefused(t, w, http.StatusServiceUnavailable, "not-ready", "elsewhere")
	if got := strings.Join(problemIn(t, w).Reasons, " "); got != reasons {
		t.Errorf("reasons %q, want %q", got, reasons)
	}
	if w := send(t, l, open(t, "/healthz")); w.Code != http.StatusOK {
		t.Errorf("healthz: %d, want 200 whatever happens", w.Code)
	}
}

func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.store.onGet(func(context.Context) error { return errors.New("connection refused") })
		l.wantNotReady(t, "store-unavailable")
		l.store.onGet(nil)
		if w := send(t, l, open(t, "/readyz")); w.Code != http.StatusOK {
			t.Errorf("store back: %d %s, want 200", w.Code, w.Body)
		}
		if err := l.executor.Drain(t.Context()); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		l.wantNotReady(t, "draining")
		l.store.onGet(func(context.Context) error { return errors.New("connection refused") })
		l.wantNotReady(t, "draining store-unavailable")
	})
}

func TestReadinessWaitsOneSecondForTheStore(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		want  int
	}{
		{"slow", 999 * time.Millisecond, http.StatusOK},
		{"too slow", 1001 * time.Millisecond, http.StatusServiceUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.store.onGet(func(ctx context.Context) error {
					select {
					case <-time.After(tt.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				began := time.Now()
				w := send(t, l, open(t, "/readyz"))
				if took := time.Since(began); w.Code != tt.want || took > time.Second {
					t.Errorf("%d after %v, want %d within 1 s", w.Code, took, tt.want)
				}
			})
		})
	}
}

// TestAHangingStoreHoldsNobody has a store that hangs and does not even notice that it should give up.
func TestAHangingStoreHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var asked atomic.Int32
		back := make(chan struct{})
		l.store.onGet(func(context.Context) error { asked.Add(1); <-back; return nil })
		for range 3 { // three rounds of a hundred
			began := time.Now()
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { l.wantNotReady(t, "store-unavailable") })
			}
			wg.Wait()
			if took := time.Since(began); took != time.Second {
				t.Errorf("answered after %v, want 1 s", took)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times at once, want 1", n)
		}
		close(back)
		synctest.Wait()
		if w := send(t, l, open(t, "/readyz")); w.Code != http.StatusOK {
			t.Errorf("store back: %d %s, want 200", w.Code, w.Body)
		}
	})
}
