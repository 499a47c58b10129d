package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A disk that fails ends the store: nobody knows what it still holds. What was acknowledged before is there when the
// folder is opened again.

// counted counts how often a fault was met.
func counted(n *atomic.Int64, fault func(op, name string) error) func(op, name string) error {
	return func(op, name string) error {
		err := fault(op, name)
		if err != nil {
			n.Add(1)
		}
		return err
	}
}

// TestDiskThatFails breaks every kind of write and read.
func TestDiskThatFails(t *testing.T) {
	folder := func(op, name string) error {
		if op == "sync" && name == "keys" {
			return syscall.EIO
		}
		return nil
	}
	tests := []struct {
		name  string
		fault func(op, name string) error
		open  bool // the first error leaves open whether the write took place
	}{
		{"sync of the log", failing(syscall.EIO, "sync", ".log"), true},
		{"write to the log", failing(syscall.EIO, "write", ".log"), true},
		{"making the next log", failing(syscall.EIO, "create", ".log"), true},
		{"making a table", failing(syscall.EIO, "create", ".sst"), false},
		{"write of a table", failing(syscall.EIO, "write", ".sst"), false},
		{"sync of a table", failing(syscall.EIO, "sync", ".sst"), false},
		{"write of the MANIFEST", failing(syscall.EIO, "write", "MANIFEST"), false},
		{"sync of the MANIFEST", failing(syscall.EIO, "sync", "MANIFEST"), false},
		{"sync of the folder", folder, false},
		{"full, of the log, and no reserve", failing(syscall.ENOSPC, "write", ".log"), true},
		{"full, of the MANIFEST, and no reserve", failing(syscall.ENOSPC, "write", "MANIFEST"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDisk()
			s := openOn(t, d, small)
			kept := writeMany(t, s, 30)
			var met atomic.Int64
			waits := make(chan error, 1)
			go func() { waits <- s.Wait(t.Context(), kept[1].ID, kept[1].Rev) }()
			until(t, "somebody waits for an entry", func() bool { return s.waiting.Len() == 1 })
			d.breaks(counted(&met, tt.fault))
			more, err := writeUntilError(t, s, len(kept))
			if tt.open && (errors.Is(err, retrysafe.ErrNotWritten) || !strings.Contains(err.Error(), "disk")) {
				t.Errorf("the write that met it: %v; want one that leaves open what was written and names the disk", err)
			}
			wantEnded(t, s)
			within(t, "Wait", func() {
				if err := <-waits; err == nil || !strings.Contains(err.Error(), "disk failed") {
					t.Errorf("Wait: %v; want the disk named", err)
				}
			})
			once := met.Load()
			wantEnded(t, s)
			if again := met.Load(); once == 0 || again != once {
				t.Errorf("the fault was met %d times, and then %d: want it not to be tried again", once, again)
			}
			wantKept(t, d.killed(), append(kept, more...))
			wantKept(t, d.cut(0, 0), append(kept, more...))
		})
	}
}

// writeMany creates n entries, and swaps every other.
func writeMany(t *testing.T, s *Store, n int) (kept []retrysafe.Entry) {
	t.Helper()
	for i := range n {
		e := mustCreate(t, s, numbered(idOf(i), 1, retrysafe.InFlight))
		if i%2 == 0 {
			e = mustSwap(t, s, e.Rev, numbered(e.ID, 2, retrysafe.Completed))
		}
		kept = append(kept, e)
	}
	return kept
}

// writeUntilError creates entries until that fails, and returns those that were acknowledged.
func writeUntilError(t *testing.T, s *Store, from int) (kept []retrysafe.Entry, err error) {
	t.Helper()
	within(t, "writes on a disk that fails", func() {
		for i := from; i < from+10_000; i++ {
			var rep retrysafe.Reply
			if rep, err = s.Create(t.Context(), numbered(idOf(i), 1, retrysafe.InFlight)); err != nil {
				return
			}
			kept = append(kept, rep.Entry)
		}
	})
	if err == nil {
		t.Fatalf("%d writes on a disk that fails: want an error", len(kept))
	}
	return kept, err
}

// wantEnded checks that every call fails at once, says why, and that nothing was written.
func wantEnded(t *testing.T, s *Store) {
	t.Helper()
	until(t, "the store has ended", func() bool { return s.why() != nil })
	e := numbered(idOf(0), 9, retrysafe.InFlight)
	calls := map[string]func() error{
		"Create":         func() error { _, err := s.Create(t.Context(), e); return err },
		"Swap":           func() error { _, err := s.Swap(t.Context(), e.Rev, e); return err },
		"Delete":         func() error { _, err := s.Delete(t.Context(), e.ID, e.Rev); return err },
		"Get":            func() error { _, _, err := s.Get(t.Context(), e.ID); return err },
		"Get of nothing": func() error { _, _, err := s.Get(t.Context()); return err },
	}
	for name, call := range calls {
		within(t, name, func() {
			if err := call(); !errors.Is(err, retrysafe.ErrNotWritten) || !strings.Contains(err.Error(), "disk failed") {
				t.Errorf("%s: %v; want ErrNotWritten, and the disk named", name, err)
			}
		})
	}
	within(t, "Wait", func() {
		if err := s.Wait(t.Context(), e.ID, e.Rev); err != nil && !strings.Contains(err.Error(), "disk failed") {
			t.Errorf("Wait: %v; want nil, or the disk named", err)
		}
	})
	within(t, "List", func() {
		if _, err := s.List(t.Context(), retrysafe.Query{}); err == nil || !strings.Contains(err.Error(), "disk failed") {
			t.Errorf("List: %v; want the disk named", err)
		}
	})
	within(t, "Backup", func() {
		if err := s.Backup(t.Context(), "copy"); err == nil || !strings.Contains(err.Error(), "disk failed") {
			t.Errorf("Backup: %v; want the disk named", err)
		}
	})
	within(t, "Close", func() { s.Close() })
}

// wantKept opens what is left of a disk, and checks that all of kept stands.
func wantKept(t *testing.T, d *disk, kept []retrysafe.Entry) {
	t.Helper()
	wantSound(t, d)
	s := openOn(t, d, small)
	for _, e := range kept {
		e.Orphan = e.State == retrysafe.InFlight
		wantStands(t, s, e)
	}
	mustCreate(t, s, numbered(idOf(1<<20), 1, retrysafe.InFlight))
	s.Close()
}

// TestReadThatFails ends the store too: a disk that cannot read is no disk.
func TestReadThatFails(t *testing.T) {
	calls := map[string]func(*testing.T, *Store) error{
		"get": func(t *testing.T, s *Store) error { _, _, err := s.Get(t.Context(), idOf(1)); return err },
		"create": func(t *testing.T, s *Store) error {
			_, err := s.Create(t.Context(), numbered(idOf(1), 7, retrysafe.InFlight))
			return err
		},
		"list": func(t *testing.T, s *Store) error { _, err := s.List(t.Context(), retrysafe.Query{}); return err },
		"due": func(t *testing.T, s *Store) error {
			_, err := s.List(t.Context(), retrysafe.Query{Due: true})
			return err
		},
		"few": func(t *testing.T, s *Store) error {
			_, err := s.List(t.Context(), retrysafe.Query{States: []retrysafe.State{retrysafe.InFlight}})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			s := openOn(t, d, small)
			kept := writeMany(t, s, 200)
			s.Close()
			s = openOn(t, d, small)
			until(t, "Pebble has read by itself what it wants", func() bool {
				tables := s.db.Metrics().Table
				return tables.InitialStatsCollectionComplete && tables.PendingStatsCollectionCount == 0
			})
			d.breaks(failing(syscall.EIO, "read", ".sst"))
			within(t, name, func() {
				if err := call(t, s); !errors.Is(err, syscall.EIO) || s.why() == nil {
					t.Errorf("%s: %v; the store has ended: %v; want both to be the error of the disk", name, err, s.why())
				}
			})
			wantEnded(t, s)
			wantKept(t, d.killed(), kept)
		})
	}
}

// TestMergeThatCannotRead ends the store, though no call met the error, and is not tried again for ever.
func TestMergeThatCannotRead(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	kept := writeMany(t, s, 30)
	var met atomic.Int64
	d.breaks(counted(&met, failing(syscall.EIO, "read", ".sst")))
	for i := range 8 { // tables enough that Pebble would merge them; what is written is not looked up, which would read
		b := s.db.NewBatch()
		(&write{key: entryKey(idOf(100 + i)), value: []byte("x"), add: row{Entry: retrysafe.Entry{ID: idOf(100 + i)}}.indexKey(s.boot)}).into(b)
		if err := s.commitBatch(b); err != nil {
			t.Fatalf("commit: %v", err)
		}
		s.db.AsyncFlush()
		until(t, "a table is written, or the store has ended", func() bool { return s.why() != nil || s.db.Metrics().Flush.Count > int64(i) })
	}
	until(t, "the store has ended", func() bool { return s.why() != nil })
	tries, window := met.Load(), time.NewTimer(50*time.Millisecond)
	if <-window.C; met.Load() > tries+2 { // a goroutine may have been on its way
		t.Errorf("the fault was met %d times, and %d times after the end: want it not to be tried again", tries, met.Load())
	}
	wantEnded(t, s)
	left := openOn(t, d.killed(), nil)
	for _, e := range kept {
		e.Orphan = e.State == retrysafe.InFlight
		wantStands(t, left, e)
	}
}

// TestOpenOnADiskThatFails fails, one after the other, every operation of an opening: it ends, with an error or
// without, and the folder can be opened afterwards.
func TestOpenOnADiskThatFails(t *testing.T) {
	used := newDisk()
	s := openOn(t, used, small)
	kept := writeMany(t, s, 40)
	for name, before := range map[string]*disk{"fresh folder": newDisk(), "folder in use before": used.killed()} {
		for _, op := range []string{"sync", "write", "create"} {
			t.Run(name+", "+op, func(t *testing.T) {
				t.Parallel()
				errs := 0
				for n := int64(1); ; n++ {
					failed, err := openFailing(t, before.killed(), op, n)
					if failed == nil {
						break
					}
					if err != nil {
						errs++
					}
					if name != "fresh folder" {
						wantKept(t, failed, kept)
					}
					openOn(t, failed.killed(), small).Close()
				}
				if errs == 0 {
					t.Errorf("no opening failed")
				}
			})
		}
	}
}

// openFailing opens the store of d and fails the nth op. It returns what is left of d, nil if there was no nth.
func openFailing(t *testing.T, d *disk, op string, n int64) (*disk, error) {
	t.Helper()
	var seen atomic.Int64
	d.breaks(func(o, name string) error {
		if o == op && seen.Add(1) == n {
			return syscall.EIO
		}
		return nil
	})
	var err error
	within(t, fmt.Sprintf("opening with %s %d failing", op, n), func() {
		var s *Store
		if s, err = open("keys", on(d, small)); err == nil {
			s.Close()
		}
	})
	d.breaks(nil)
	if seen.Load() < n {
		return nil, nil
	}
	return d.killed(), err
}

// TestReadersOfAWriteThatFails waits for one write: when its sync fails, none of them is told of it.
func TestReadersOfAWriteThatFails(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	resume := d.stallSyncs()
	e := numbered(idOf(1), 1, retrysafe.InFlight)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Create(t.Context(), e); err == nil || errors.Is(err, retrysafe.ErrNotWritten) {
			t.Errorf("Create: %v; want an error that leaves open what was written", err)
		}
	})
	until(t, "the write waits for the disk", func() bool { return locked(s, e.ID) })
	for range 50 {
		wg.Go(func() {
			if found, _, err := s.Get(t.Context(), e.ID); err == nil {
				t.Errorf("Get: told of %d entries that are not durable", len(found))
			}
		})
		wg.Go(func() {
			if page, err := s.List(t.Context(), retrysafe.Query{}); err == nil {
				t.Errorf("List: told of %d entries that are not durable", len(page.Entries))
			}
		})
	}
	d.breaks(failing(syscall.EIO, "sync", ".log"))
	resume()
	within(t, "all of them", wg.Wait)
}

// locked tells whether the entry is locked by a write that waits.
func locked(s *Store, id retrysafe.ID) bool {
	return len(s.stripes[(int(id[0])<<8|int(id[1]))%stripes]) == 1
}

// TestStalledDisk holds calls up no longer than they wish to wait, and writes nothing for those that left in time.
func TestStalledDisk(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	taken, queued := numbered(idOf(1), 1, retrysafe.InFlight), numbered(idOf(2), 1, retrysafe.InFlight)
	resume := d.stallSyncs()
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), 30*time.Millisecond)
	}
	ctx, cancel := soon()
	defer cancel()
	_, err := s.Create(ctx, taken)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, retrysafe.ErrNotWritten) {
		t.Errorf("Create that the disk has: %v; want the deadline, and what was written left open", err)
	}
	calls := map[string]func(context.Context) error{
		"Create that waits its turn": func(ctx context.Context) error { _, err := s.Create(ctx, queued); return err },
		"Create of the same":         func(ctx context.Context) error { _, err := s.Create(ctx, taken); return err },
		"Get of the same":            func(ctx context.Context) error { _, _, err := s.Get(ctx, taken.ID); return err },
		"List":                       func(ctx context.Context) error { _, err := s.List(ctx, retrysafe.Query{}); return err },
	}
	for name, call := range calls {
		ctx, cancel := soon()
		within(t, name, func() {
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, retrysafe.ErrNotWritten) {
				t.Errorf("%s: %v; want the deadline, and that nothing was written", name, err)
			}
		})
		cancel()
	}
	resume()
	wantStands(t, s, taken)
	mustCreate(t, s, numbered(idOf(3), 1, retrysafe.InFlight)) // behind all that was queued
	if _, found := stands(t, s, queued.ID); found {
		t.Errorf("a write whose caller was told that it is not written was written")
	}
}

// TestCloseOnADiskThatFails ends, and says so.
func TestCloseOnADiskThatFails(t *testing.T) {
	for _, what := range []string{".log", ".sst", "MANIFEST"} {
		t.Run(what, func(t *testing.T) {
			d := newDisk()
			s := openOn(t, d, nil)
			kept := writeMany(t, s, 10)
			resume := d.stallSyncs()
			var wg sync.WaitGroup
			wg.Go(func() { s.Create(t.Context(), numbered(idOf(999), 1, retrysafe.InFlight)) })
			until(t, "the write waits for the disk", func() bool { return locked(s, idOf(999)) })
			wg.Go(func() {
				if err := s.Close(); !errors.Is(err, syscall.EIO) {
					t.Errorf("Close: %v; want the error of the disk", err)
				}
			})
			until(t, "the store is closing", func() bool { return s.why() != nil })
			d.breaks(failing(syscall.EIO, "sync", what))
			resume()
			within(t, "Close", wg.Wait)
			wantKept(t, d.cut(0, 0), kept)
		})
	}
}
