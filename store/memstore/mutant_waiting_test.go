package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What storetest finds by its patience, found at once: time stands still in these tests.

// waitFor returns a channel that ends with a Wait that has begun.
func waitFor(ctx context.Context, s *memstore.Store, e retrysafe.Entry) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, e.ID, e.Rev) }()
	synctest.Wait()
	return done
}

// wantWoken checks that a Wait is over by now.
func wantWoken(t *testing.T, what string, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: wait: %v", what, err)
		}
	default:
		t.Errorf("%s: the waiter was not woken", what)
	}
}

func TestEveryWriteWakes(t *testing.T) {
	tests := []struct {
		name  string
		write func(context.Context, *memstore.Store, retrysafe.Entry) (retrysafe.Reply, error)
	}{
		{"swap", func(ctx context.Context, s *memstore.Store, e retrysafe.Entry) (retrysafe.Reply, error) {
			old := e.Rev
			e.Rev = retrysafe.NewRev()
			return s.Swap(ctx, old, e)
		}},
		{"delete", func(ctx context.Context, s *memstore.Store, e retrysafe.Entry) (retrysafe.Reply, error) {
			return s.Delete(ctx, e.ID, e.Rev)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(nil)
				e := entry(0, 0)
				create(t, s, e)
				one, two := waitFor(t.Context(), s, e), waitFor(t.Context(), s, e)
				if rep, err := tt.write(t.Context(), s, e); err != nil || !rep.OK {
					t.Fatalf("%s: OK %v, %v", tt.name, rep.OK, err)
				}
				wantWoken(t, "first waiter", one)
				wantWoken(t, "second waiter", two)
			})
		})
	}
}

// TestWaiterWhoHangsUpLeavesTheOthers: one of two who wait for an entry hangs up; the other is still woken.
func TestWaiterWhoHangsUpLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		e := entry(0, 0)
		create(t, s, e)
		stays := waitFor(t.Context(), s, e)
		ctx, hangUp := context.WithCancel(t.Context())
		leaves := waitFor(ctx, s, e)
		hangUp()
		synctest.Wait()
		select {
		case err := <-leaves:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("wait of who hung up: %v, want %v", err, context.Canceled)
			}
		default:
			t.Error("wait goes on though its caller hung up")
		}
		if rep, err := s.Delete(t.Context(), e.ID, e.Rev); err != nil || !rep.OK {
			t.Fatalf("delete: OK %v, %v", rep.OK, err)
		}
		wantWoken(t, "who stayed", stays)
	})
}
