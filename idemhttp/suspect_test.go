package idemhttp_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// sightings is an observer that counts what it is told of.
type sightings struct {
	mu sync.Mutex
	n  map[retrysafe.EventKind]int
}

func (s *sightings) Observe(_ context.Context, e retrysafe.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[retrysafe.EventKind]int{}
	}
	s.n[e.Kind]++
}

func (s *sightings) count(k retrysafe.EventKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[k]
}

// refusing is charged but for who asks it to refuse.
func refusing(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Refuse") != "" {
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	charged(w, r)
}

// A client that makes a new key for each attempt is told of, and served.
func TestNewKeyForEachAttempt(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    idemhttp.Options
		do   func(l *lab)
		want int
	}{
		{"another key", idemhttp.Options{}, func(l *lab) { l.do(post("1")); l.do(post("2")); l.do(post("3")) }, 2},
		{"the same key", idemhttp.Options{}, func(l *lab) { l.do(post("1")); l.do(post("1")) }, 0},
		{"the same key, after it was released", idemhttp.Options{Outcomes: map[int]retrysafe.State{402: retrysafe.Free}}, func(l *lab) {
			l.do(post("1", "X-Refuse", "402"))
			l.do(post("1"))
		}, 0},
		{"another request", idemhttp.Options{}, func(l *lab) { l.do(post("1")); l.do(post("2", "Content-Type", "text/plain")) }, 0},
		{"another caller", idemhttp.Options{}, func(l *lab) { l.do(post("1", "X-Tenant", "a")); l.do(post("2", "X-Tenant", "b")) }, 0},
		{"much later", idemhttp.Options{}, func(l *lab) { l.do(post("1")); advance(11 * time.Second); l.do(post("2")) }, 0},
		{"as late as it was said", idemhttp.Options{Suspect: time.Minute}, func(l *lab) { l.do(post("1")); advance(59 * time.Second); l.do(post("2")) }, 1},
		{"no body", idemhttp.Options{}, func(l *lab) {
			l.do(request("POST", "/", "", "Idempotency-Key", "1"))
			l.do(request("POST", "/", "", "Idempotency-Key", "2"))
		}, 0},
		{"switched off", idemhttp.Options{Suspect: retrysafe.Off}, func(l *lab) { l.do(post("1")); l.do(post("2")) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sightings{}
				l := newLab(t, setup{guard: tt.o, core: retrysafe.Options{Observer: s}, scope: func(r *http.Request) (string, error) { return "t" + r.Header.Get("X-Tenant"), nil }}, refusing)
				tt.do(l)
				if got := s.count(retrysafe.EventSuspected); got != tt.want {
					t.Errorf("%d suspicions, want %d", got, tt.want)
				}
				if said := strings.Count(l.log.String(), "another key"); said != min(tt.want, 1) {
					t.Errorf("the log says it %d times, want %d (at most once a second): %s", said, min(tt.want, 1), l.log)
				}
				if strings.Contains(l.log.String(), "secret") {
					t.Errorf("the log tells what was asked: %s", l.log)
				}
			})
		})
	}
}

// What was refused before a claim, and what passed without a key, is told.
func TestRefusedAndPassed(t *testing.T) {
	s := &sightings{}
	l := newLab(t, setup{core: retrysafe.Options{Observer: s}}, charged)
	l.do(post("a,b"))
	l.do(request("POST", "/", "x"))
	l.do(request("GET", "/", ""))
	if r, p := s.count(retrysafe.EventRefused), s.count(retrysafe.EventPassed); r != 1 || p != 1 {
		t.Errorf("%d refused and %d passed, want 1 of each", r, p)
	}
}
