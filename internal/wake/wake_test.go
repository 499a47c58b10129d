package wake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/wake"
)

var one, other = retrysafe.Key{Name: "1"}.ID(), retrysafe.Key{Name: "2"}.ID()

// A change wakes all who wait for it, nobody else, and leaves nothing behind.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s wake.Set
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		for _, id := range []retrysafe.ID{one, one, other} {
			ticket := s.Join(id)
			go func() { errs <- ticket.Wait(ctx) }()
		}
		synctest.Wait()
		s.Wake(one)
		synctest.Wait()
		if len(errs) != 2 || <-errs != nil || <-errs != nil || s.Len() != 1 {
			t.Errorf("after the change: %d still told, %d waited for, want both of the entry woken and the other not", len(errs), s.Len())
		}
		cancel()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) || s.Len() != 0 {
			t.Errorf("who gave up: %v, %d waited for, want canceled and none", err, s.Len())
		}
	})
}

// Who joined before a change, and waits after it, is not left waiting; who gives up leaves the others.
func TestWakeBetweenJoinAndWait(t *testing.T) {
	var s wake.Set
	early, late := s.Join(one), s.Join(one)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := early.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("who gave up: %v", err)
	}
	s.Wake(one)
	if err := late.Wait(t.Context()); err != nil {
		t.Errorf("who waits after the change: %v", err)
	}
	s.Wake(one) // nobody waits any more
}

// A set that is closed lets nobody wait: neither who waits already, nor who comes.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // who is left waiting is seen at once
		var s wake.Set
		before := s.Join(one)
		s.Close()
		for name, ticket := range map[string]*wake.Ticket{"joined before": before, "joined after": s.Join(one), "for another": s.Join(other)} {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Errorf("who %s: %v", name, err)
			}
		}
		if s.Len() != 0 {
			t.Errorf("%d entries are waited for, want none", s.Len())
		}
		s.Wake(one)
	})
}
