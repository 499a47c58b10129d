package pebblestore

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// TestCloseUnderLoad closes a store at which everything is called: nothing panics, what was acknowledged stands, and
// no goroutine stays.
func TestCloseUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	for round := range 5 {
		d := newDisk()
		s, err := open("keys", on(d, small))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		l := newLoad(d, s, 64)
		var calls atomic.Int64
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() { closing(t, l, w, &calls) })
		}
		wg.Go(func() {
			for i := 0; s.Backup(t.Context(), "copy"+string(rune('a'+i))) == nil; i++ {
			}
		})
		until(t, "calls are under way", func() bool { return calls.Load() > int64(100*(round+1)) })
		for range 3 {
			wg.Go(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		within(t, "all calls, and Close", wg.Wait)
		until(t, "Close has ended", func() bool { // the first of three; the others do not wait for it
			r, err := verify(t.Context(), "keys", d)
			if err == nil && r.Wrong > 0 {
				t.Fatalf("Verify: %q", r.Problems)
			}
			return err == nil
		})
		c := l.cut("after Close", 0, 0)
		again, err := open("keys", on(d, small))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		if lost := c.lost(t, again); len(lost) > 0 {
			t.Errorf("lost %d: %s", len(lost), lost[0])
		}
		if err := again.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	until(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

// closing calls everything until the store says that it is closed.
func closing(t *testing.T, l *load, w int, calls *atomic.Int64) {
	for i := 0; ; i++ {
		calls.Add(1)
		own := i%4*16 + w
		err := l.write(t, own)
		if err == nil {
			err = l.look(t, own, i%2 == 0)
		}
		if err == nil {
			_, err = l.store.List(t.Context(), retrysafe.Query{Due: i%3 == 0, Limit: 5})
		}
		if err == nil {
			err = l.store.Wait(t.Context(), l.ids[own], retrysafe.Rev{2})
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errClosed) {
			t.Errorf("a call while the store is closed: %v", err)
		}
		return
	}
}

// TestAfterClose fails every call, and Close is done already.
func TestAfterClose(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	e := mustCreate(t, s, numbered(idOf(1), 1, retrysafe.InFlight))
	waits := make(chan error, 1)
	go func() { waits <- s.Wait(t.Context(), e.ID, e.Rev) }()
	until(t, "somebody waits for the entry", func() bool { return s.waiting.Len() == 1 })
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	within(t, "Wait", func() {
		if err := <-waits; err != nil && !errors.Is(err, errClosed) {
			t.Errorf("Wait: %v", err)
		}
	})
	calls := map[string]func() error{
		"Create": func() error { _, err := s.Create(t.Context(), e); return err },
		"Swap":   func() error { _, err := s.Swap(t.Context(), e.Rev, e); return err },
		"Delete": func() error { _, err := s.Delete(t.Context(), e.ID, e.Rev); return err },
		"Get":    func() error { _, _, err := s.Get(t.Context(), e.ID); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, retrysafe.ErrNotWritten) || !errors.Is(err, errClosed) {
			t.Errorf("%s: %v; want ErrNotWritten, and that the store is closed", name, err)
		}
	}
	if _, err := s.List(t.Context(), retrysafe.Query{}); !errors.Is(err, errClosed) {
		t.Errorf("List: %v; want that the store is closed", err)
	}
	if err := s.Backup(t.Context(), "copy"); !errors.Is(err, errClosed) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("Backup: %v; want that the store is closed", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close once more: %v", err)
	}
	openOn(t, d, nil) // the folder is free
}

// TestCloseOnAStalledDisk lets calls go at once, and itself when the disk goes on.
func TestCloseOnAStalledDisk(t *testing.T) {
	before := runtime.NumGoroutine()
	d := newDisk()
	s, err := open("keys", on(d, nil))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	resume := d.stallSyncs()
	var calls, closed sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if _, err := s.Create(t.Context(), numbered(idOf(i), 1, retrysafe.InFlight)); err == nil {
				t.Errorf("Create: acknowledged on a disk that is stalled")
			}
		})
		calls.Go(func() { s.List(t.Context(), retrysafe.Query{}) })
	}
	until(t, "a write waits for the disk", func() bool { return locked(s, idOf(0)) })
	closed.Go(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	within(t, "the calls", calls.Wait)
	resume()
	within(t, "Close", closed.Wait)
	until(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	wantSound(t, d)
}
