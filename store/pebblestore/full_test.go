package pebblestore

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A full disk refuses new keys, and still takes the outcomes of those that are under way.

// roomy keeps back enough for a test's outcomes.
var roomy = &Options{memTable: 32 << 10, Reserve: 1 << 20}

// fill creates entries until the disk is full, and returns those that were acknowledged.
func fill(t *testing.T, s *Store, from int) (kept []retrysafe.Entry) {
	t.Helper()
	for i := from; i < from+10_000; i++ {
		rep, err := s.Create(t.Context(), numbered(idOf(i), 1, retrysafe.InFlight))
		if err == nil {
			kept = append(kept, rep.Entry)
			continue
		}
		if !errors.Is(err, ErrFull) || !errors.Is(err, retrysafe.ErrNotWritten) {
			t.Fatalf("Create on a full disk: %v; want ErrFull and ErrNotWritten", err)
		}
		return kept
	}
	t.Fatalf("the disk never was full")
	return nil
}

// TestFullDisk is the course of it: full, outcomes out of the reserve, room again.
func TestFullDisk(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, roomy)
	flying := fillable(t, s, 60)
	d.resize(20_000)
	more := fill(t, s, len(flying))
	t.Logf("%d keys were claimed before the disk was full", len(more))

	var kept []retrysafe.Entry
	for i, e := range flying {
		if i%3 == 0 {
			if rep, err := s.Delete(t.Context(), e.ID, e.Rev); err != nil || !rep.OK {
				t.Fatalf("Delete on a full disk: OK %v, %v", rep.OK, err)
			}
			continue
		}
		kept = append(kept, mustSwap(t, s, e.Rev, numbered(e.ID, 2, retrysafe.Completed)))
	}
	if rep, err := s.Create(t.Context(), more[0]); err != nil || !rep.OK {
		t.Errorf("a Create that took place before, sent again: OK %v, %v", rep.OK, err)
	}
	if _, err := s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight)); !errors.Is(err, ErrFull) {
		t.Errorf("Create on a full disk: %v, want ErrFull", err)
	}
	if err := s.why(); err != nil {
		t.Fatalf("the store has ended: %v", err)
	}
	cut := d.cut(0, 0)

	d.resize(8 << 20)
	until(t, "new keys are taken again", func() bool {
		rep, err := s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight))
		return err == nil && rep.OK
	})
	if info, err := d.Stat("keys/reserve"); err != nil || info.Size() != roomy.Reserve {
		t.Errorf("the reserve is not kept again: %v", err)
	}
	wantKept(t, cut, append(kept, more...))
}

// fillable creates n entries.
func fillable(t *testing.T, s *Store, n int) (kept []retrysafe.Entry) {
	t.Helper()
	for i := range n {
		kept = append(kept, mustCreate(t, s, numbered(idOf(i), 1, retrysafe.InFlight)))
	}
	return kept
}

// TestDiskFullAtStart opens all the same, records outcomes, and refuses new keys until there is room.
func TestDiskFullAtStart(t *testing.T) {
	for name, room := range map[string]int64{"room, but for no reserve": 600_000, "no room, but a reserve": 0} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			s := openOn(t, d, roomy)
			flying := fillable(t, s, 20)
			s.Close()
			d = d.killed()
			if room > 0 {
				d.Remove("keys/reserve")
			}
			d.resize(room)
			s = openOn(t, d, roomy)
			if _, err := s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight)); !errors.Is(err, ErrFull) || !errors.Is(err, retrysafe.ErrNotWritten) {
				t.Errorf("Create: %v; want ErrFull and ErrNotWritten", err)
			}
			for _, e := range flying {
				mustSwap(t, s, e.Rev, numbered(e.ID, 2, retrysafe.Completed))
			}
			d.resize(8 << 20)
			until(t, "new keys are taken", func() bool {
				_, err := s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight))
				return err == nil
			})
		})
	}
}

// TestFreshFolderOnAFullDisk is told at once.
func TestFreshFolderOnAFullDisk(t *testing.T) {
	d := newDisk()
	d.set(func() { d.room = 1 })
	within(t, "Open", func() {
		if _, err := open("keys", on(d, roomy)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open: %v; want that there is no space", err)
		}
	})
}

// TestTablesThatFindNoRoom wait for it: nothing is lost, the log still holds it all. Writes wait with them when they
// must, and no longer than they wish.
func TestTablesThatFindNoRoom(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, small)
	kept := fillable(t, s, 10)
	var met atomic.Int64
	d.breaks(counted(&met, failing(syscall.ENOSPC, "write", ".sst")))
	var waits error
	for i := 0; waits == nil && i < 10_000; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		e := kept[i%10]
		var rep retrysafe.Reply
		if rep, waits = s.Swap(ctx, e.Rev, numbered(e.ID, int64(i/10)*round+2+int64(i/10)%3, retrysafe.Completed)); waits == nil {
			kept[i%10] = rep.Entry
		}
		cancel()
	}
	if !errors.Is(waits, context.DeadlineExceeded) || s.why() != nil {
		t.Fatalf("Swap when tables find no room: %v; the store has ended: %v; want it to wait", waits, s.why())
	}
	tries, window := met.Load(), time.NewTimer(3*fullPause)
	if <-window.C; met.Load() > tries+20 {
		t.Errorf("%d tries in %v: want a pause between them", met.Load()-tries, 3*fullPause)
	}
	d.breaks(nil)
	for _, e := range kept {
		n := int64(1)<<20 + 2
		until(t, "writes go on when there is room", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, _, err := s.Get(ctx, e.ID)
			if err != nil || len(got) == 0 {
				return false
			}
			_, err = s.Swap(ctx, got[0].Rev, numbered(e.ID, n, retrysafe.Completed))
			return err == nil
		})
		wantStands(t, s, numbered(e.ID, n, retrysafe.Completed))
	}
}

// TestCloseOnAFullDisk does not wait for room.
func TestCloseOnAFullDisk(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	kept := writeMany(t, s, 20)
	d.breaks(failing(syscall.ENOSPC, "write", ".sst"))
	within(t, "Close", func() {
		if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close: %v; want that there is no space", err)
		}
	})
	wantKept(t, d.killed(), kept)
}

// TestCreateOnAFullDiskDoesNotWait for the disk to be looked at, which may take as long as the disk likes.
func TestCreateOnAFullDiskDoesNotWait(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, roomy)
	fillable(t, s, 20)
	d.resize(1)
	fill(t, s, 20)
	d.resize(8 << 20)
	resume := d.stallSyncs()
	defer resume()
	until(t, "the disk is looked at", func() bool {
		s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight))
		_, err := d.Stat("keys/reserve")
		return err == nil
	})
	within(t, "Create", func() {
		if _, err := s.Create(t.Context(), numbered(idOf(5000), 1, retrysafe.InFlight)); !errors.Is(err, ErrFull) {
			t.Errorf("Create while the reserve is taken: %v, want ErrFull", err)
		}
	})
}
