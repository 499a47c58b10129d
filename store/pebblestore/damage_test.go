package pebblestore

import (
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// What is damaged is never taken for absent, and hurts nobody but itself.

// TestDamagedRow fails closed, and the others are served.
func TestDamagedRow(t *testing.T) {
	d, kept := closed(t)
	bad, good := kept[3], kept[4]
	b := row{Entry: bad}.encode()
	b[40] ^= 1
	set(t, d, entryKey(bad.ID), b)
	r, err := verify(t.Context(), "keys", d)
	if err != nil || r.Wrong != 1 || !strings.Contains(r.Problems[0], bad.ID.String()[:12]) {
		t.Errorf("Verify: %v, %q; want one problem, that names the entry", err, r.Problems)
	}

	s := openOn(t, d, nil)
	unreadable := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, retrysafe.ErrUnreadable) {
			t.Errorf("%s: %v; want ErrUnreadable", call, err)
		}
	}
	_, _, err = s.Get(t.Context(), bad.ID)
	unreadable("Get", err)
	_, _, err = s.Get(t.Context(), good.ID, bad.ID)
	unreadable("Get of two", err)
	_, err = s.Create(t.Context(), numbered(bad.ID, 9, retrysafe.InFlight))
	unreadable("Create", err)
	_, err = s.Create(t.Context(), bad)
	unreadable("Create, as it was", err)
	_, err = s.Swap(t.Context(), bad.Rev, numbered(bad.ID, 9, retrysafe.InFlight))
	unreadable("Swap", err)
	_, err = s.Delete(t.Context(), bad.ID, bad.Rev)
	unreadable("Delete", err)

	all, err := listAll(t.Context(), s, retrysafe.Query{Limit: 3})
	if err != nil || len(all) != len(kept) {
		t.Errorf("List: %d entries, %v; want %d, the damaged one among them", len(all), err, len(kept))
	}
	for _, e := range all {
		if wrong := e.Check() != nil; wrong != (e.ID == bad.ID) {
			t.Errorf("List: %.12s is readable: %v", e.ID, !wrong)
		}
	}
	mustSwap(t, s, good.Rev, numbered(good.ID, 9, retrysafe.Completed))
	mustCreate(t, s, numbered(idOf(5000), 1, retrysafe.InFlight))
	if err := s.why(); err != nil {
		t.Errorf("the store has ended: %v", err)
	}
}

// TestSweepPassesADamagedRow: what is due behind it is found, too.
func TestSweepPassesADamagedRow(t *testing.T) {
	d, kept := closed(t)
	for _, e := range kept[:3] {
		set(t, d, entryKey(e.ID), []byte("no row"))
	}
	s := openOn(t, d, nil)
	due, err := listAll(t.Context(), s, retrysafe.Query{Due: true, Limit: 2})
	orphans := 0
	for _, e := range due {
		if e.Orphan {
			orphans++
		}
	}
	if want := len(kept)/2 - 1; err != nil || orphans != want { // every other is in flight, of the three one
		t.Errorf("List of what is due: %d orphans of %d, %v; want %d", orphans, len(due), err, want)
	}
	if x, err := retrysafe.New(s, nil); err != nil {
		t.Fatal(err)
	} else if n, err := x.Sweep(t.Context()); n < orphans {
		t.Errorf("Sweep changed %d, %v; want all %d that can be read", n, err, orphans)
	}
}

// TestDamagedTable flips one byte after the other of a table: whatever is read is right, or an error; never absent.
func TestDamagedTable(t *testing.T) {
	d, kept := closed(t)
	merged(t, d)
	name, size := largest(t, d, ".sst")
	refused, unreadable := 0, 0
	const step = 67
	for at := int64(0); at < size; at += step {
		hurt := d.killed()
		flip(t, hurt, name, at)
		within(t, "a damaged table", func() {
			if r, err := verify(t.Context(), "keys", hurt); err == nil && r.Wrong == 0 && !unused(t, hurt, kept) {
				t.Errorf("byte %d of %s: Verify finds nothing wrong", at, name)
			}
			s, err := open("keys", on(hurt, nil))
			if err != nil {
				refused++
				return
			}
			defer s.Close()
			for _, e := range kept {
				unreadable += readRight(t, s, e)
			}
		})
	}
	t.Logf("%d of %d damaged folders were not opened; in the others %d reads were refused", refused, (size+step-1)/step, unreadable)
	if unreadable == 0 {
		t.Errorf("void: no read met the damage")
	}
}

// merged makes one table of all, in a level that nothing more is merged with: or Pebble would by itself read what is
// damaged, and end the store.
func merged(t *testing.T, d *disk) {
	t.Helper()
	s := openOn(t, d, nil)
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
		t.Fatalf("Compact: %v", err)
	}
	s.Close()
}

// readRight reads e: it must stand as it was, or be refused. It returns 1 if it was refused.
func readRight(t *testing.T, s *Store, e retrysafe.Entry) int {
	t.Helper()
	found, _, err := s.Get(t.Context(), e.ID)
	if err != nil {
		return 1
	}
	e.Orphan = e.State == retrysafe.InFlight
	if len(found) != 1 || differs(found[0], e) != "" {
		t.Errorf("%d entries read under %.12s, not the one that was written, and no error", len(found), e.ID)
	}
	return 0
}

// unused tells whether the damage lies where no read comes: all is read as it was written.
func unused(t *testing.T, d *disk, kept []retrysafe.Entry) bool {
	t.Helper()
	s, err := open("keys", on(d.killed(), nil))
	if err != nil {
		return false
	}
	defer s.Close()
	for _, e := range kept {
		if readRight(t, s, e) == 1 {
			return false
		}
	}
	return true
}

// largest is the largest file of the folder whose name ends so.
func largest(t *testing.T, d *disk, suffix string) (name string, size int64) {
	t.Helper()
	names, err := d.List("keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if info, err := d.Stat("keys/" + n); err == nil && strings.HasSuffix(n, suffix) && info.Size() > size {
			name, size = "keys/"+n, info.Size()
		}
	}
	if name == "" {
		t.Fatalf("no %s among %q", suffix, names)
	}
	return name, size
}

// flip damages one byte of a file.
func flip(t *testing.T, d *disk, name string, at int64) {
	t.Helper()
	b, err := d.mem.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
}

// TestDamagedLog is refused, and not taken for a log that ends there. Its last blocks are another matter: nobody can
// tell what was damaged in them from what a power cut left half written.
func TestDamagedLog(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil) // a fresh folder: its first log must be as good as the next
	writeMany(t, s, 250)
	name, size := largest(t, d, ".log")
	const last = 2 * 32 << 10
	if size < 2*last {
		t.Fatalf("the log has %d bytes, too few for the test", size)
	}
	for at := int64(0); at < size-last; at += 1009 {
		hurt := d.killed()
		flip(t, hurt, name, at)
		if s, err := open("keys", on(hurt, nil)); err == nil {
			t.Errorf("byte %d of %d in %s: opened all the same", at, size, name)
			s.Close()
		}
		if r, err := verify(t.Context(), "keys", hurt); err == nil && r.Wrong == 0 {
			t.Errorf("byte %d of %d in %s: Verify finds nothing wrong", at, size, name)
		}
	}
}
