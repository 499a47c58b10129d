package retrysafe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What observers and logs are told.

// A recorder is an Observer that remembers.
type recorder struct {
	mu     sync.Mutex
	events []retrysafe.Event
}

func (r *recorder) Observe(_ context.Context, e retrysafe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// lines are the events since the last call, without what varies.
func (r *recorder) lines() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		words := []string{e.Kind.String()}
		if e.Verdict != 0 {
			words = append(words, e.Verdict.String())
		}
		if e.Kind == retrysafe.EventRan || e.Kind == retrysafe.EventSettled || e.Kind == retrysafe.EventResolved {
			words = append(words, e.State.String())
		}
		if e.Kind == retrysafe.EventSwept || e.Kind == retrysafe.EventHeld {
			words = append(words, fmt.Sprint(e.Count))
		}
		if e.Err != nil {
			words = append(words, "err")
		}
		all = append(all, strings.Join(words, " "))
	}
	r.events = nil
	return all
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name string
		do   func(t *testing.T, l *lab)
		want []string
	}{
		{"run", func(t *testing.T, l *lab) { l.mustDo(t, slowly(time.Second)) }, []string{"claimed won", "ran completed", "settled completed"}},
		{"run beyond two beats", func(t *testing.T, l *lab) { l.mustDo(t, slowly(21*time.Second)) },
			[]string{"claimed won", "extended", "extended", "ran completed", "settled completed"}},
		{"replay", func(t *testing.T, l *lab) {
			l.mustDo(t, paid)
			l.mustDo(t, never(t))
		}, []string{"claimed won", "ran completed", "settled completed", "claimed replay"}},
		{"error", func(t *testing.T, l *lab) { l.Do(t.Context(), order, payload, failing("no")) }, []string{"claimed won", "ran unknown", "settled unknown"}},
		{"panic", func(t *testing.T, l *lab) { panicOf(func() { l.Do(t.Context(), order, payload, panicking) }) }, []string{"claimed won", "ran unknown", "settled unknown"}},
		{"release", func(t *testing.T, l *lab) { l.Do(t.Context(), order, payload, didNothing) }, []string{"claimed won", "ran free", "settled free"}},
		{"store down", func(t *testing.T, l *lab) {
			l.store.hook(down)
			l.Do(t.Context(), order, payload, never(t))
			l.store.hook(nil)
			advance(time.Minute)
		}, []string{"claimed err", "taken_back"}},
		{"claim lost", func(t *testing.T, l *lab) {
			l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
				l.Forget(ctx, order.ID(), "ann", "stuck", true)
				return paid(ctx)
			})
		}, []string{"claimed won", "resolved free", "ran completed", "settled completed err"}},
		{"sweep", func(t *testing.T, l *lab) {
			lapse(hold)(t, l)
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, stop)
			l.Run(ctx)
		}, []string{"swept 1", "held 1"}},
		{"resolve", func(t *testing.T, l *lab) {
			setUnknown(t, l)
			l.Resolve(t.Context(), order.ID(), happened)
			l.Resolve(t.Context(), order.ID(), notAtAll) // refused: no event
		}, []string{"resolved completed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &recorder{}
				l := newLab(t, &retrysafe.Options{Observer: seen})
				tt.do(t, l)
				if got := seen.lines(); !slices.Equal(got, tt.want) {
					t.Errorf("events %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestLogsHoldNoSecrets: whatever fails, no key, payload or answer reaches the log, and with them no error text of
// an operation's or a recovery's own, which may hold anything: that of an HTTP client holds the address.
func TestLogsHoldNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		secret := fmt.Errorf(`Get "https://bank/charges?key=SECRET": refused`)
		l := newLab(t, &retrysafe.Options{
			Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			OnLeaseEnd: retrysafe.Recover,
			Recover:    func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) { return retrysafe.Outcome{}, secret },
		})
		key := retrysafe.Key{Scope: "SECRET", Name: "SECRET"}
		req := retrysafe.ClaimRequest{Key: key, Fingerprint: payload, Policy: recovered}
		if _, err := l.claims.Claim(t.Context(), req); err != nil {
			t.Fatalf("Claim: %v", err)
		}
		advance(recovered.Lease)
		_, err := l.Do(t.Context(), key, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrUnknownOutcome)

		_, _, err = retrysafe.Do(t.Context(), l.Executor, retrysafe.Key{Name: "SECRET-2"}, payload, lineCodec{encode: secret}, func(context.Context) (int, error) { return 1, nil })
		wantErr(t, "Do", err, nil)
		_, err = l.Do(t.Context(), retrysafe.Key{Name: "SECRET-3"}, payload, func(context.Context) ([]byte, error) {
			l.store.hook(down)
			return []byte("SECRET"), secret
		})
		wantErr(t, "Do", err, secret)
		if log.Len() == 0 {
			t.Error("nothing was logged, the test shows nothing")
		}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "SECRET") {
				t.Errorf("logged: %s", line)
			}
		}
	})
}

// endedSeen counts the events that were told under a ctx that had ended.
type endedSeen struct{ told, ended int }

func (s *endedSeen) Observe(ctx context.Context, _ retrysafe.Event) {
	s.told++
	if ctx.Err() != nil {
		s.ended++
	}
}

// TestHangUpTakesNoEventAlong: some observers tell nothing under a ctx that has ended.
func TestHangUpTakesNoEventAlong(t *testing.T) {
	for _, detached := range []bool{false, true} {
		t.Run(fmt.Sprintf("detached %v", detached), func(t *testing.T) {
			var seen endedSeen
			l := newLab(t, &retrysafe.Options{Observer: &seen})
			caller, hangUp := context.WithCancel(t.Context())
			_, err := l.Execute(caller, retrysafe.Request{Key: order, Fingerprint: payload, Detached: detached}, func(context.Context) retrysafe.Outcome {
				hangUp()
				return completed
			})
			wantErr(t, "Execute", err, nil)
			if want := (endedSeen{told: 3}); seen != want { // claimed, ran, settled
				t.Errorf("events: %+v, want %+v", seen, want)
			}
		})
	}
}
