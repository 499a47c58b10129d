package pebblestore

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A folder that a release wrote must be read by every later one. testdata/golden-1 is of schema 1; a new schema gets a
// folder of its own, and the old ones stay.

var update = flag.Bool("update", false, "write testdata/golden-1 anew: only before its schema is released")

const golden = "testdata/golden-1"

// goldenTime is when the golden folder was written, as its wall clock had it.
var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// goldenEntries is what stands in the golden folder: each state, and what is odd.
func goldenEntries() (all []retrysafe.Entry) {
	for s := retrysafe.Free; s <= retrysafe.Reserved; s++ {
		e := numbered(idOf(int(s)), int64(s), s)
		e.Scope, e.Display = "tenant-7", "order "+s.String()
		all = append(all, e)
	}
	bare := retrysafe.Entry{State: retrysafe.Completed}
	odd := retrysafe.Entry{ID: idOf(100), Rev: retrysafe.Rev{1}, State: retrysafe.InFlight, Epoch: -1 << 62, Scope: "\x00\xff", Display: "ключ\n",
		Due: -time.Microsecond, TTL: 1<<63 - 1 - 775_807} // the longest in whole microseconds
	large := numbered(idOf(101), 9, retrysafe.Completed)
	return append(all, bare, sealed(odd, nil), sealed(large, bytes.Repeat([]byte("answer "), 200)))
}

// writeGolden writes the folder: one entry in three versions, some in a table, some in the log, one deleted.
func writeGolden(t *testing.T) {
	t.Helper()
	d := newDisk()
	s := openOn(t, d, &Options{wall: func() time.Time { return goldenTime }})
	gone := mustCreate(t, s, numbered(idOf(200), 1, retrysafe.InFlight))
	for i, e := range goldenEntries() {
		before := e
		before.Rev, before.State = retrysafe.NewRev(), retrysafe.InFlight
		mustSwap(t, s, mustCreate(t, s, before).Rev, e)
		if i != 4 {
			continue
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if rep, err := s.Delete(t.Context(), gone.ID, gone.Rev); err != nil || !rep.OK {
		t.Fatalf("Delete: %v", err)
	}
	copyOut(t, d.killed(), golden)
}

// copyOut writes the folder of a disk in memory to the real one.
func copyOut(t *testing.T, d *disk, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := d.List("keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := d.mem.UnsafeGetFileDataBuffer("keys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGolden reads what an earlier build wrote, field by field, writes to it, and reads it again.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatalf("copy the folder: %v", err)
	}
	want := goldenEntries()
	for range 2 {
		if r, err := Verify(t.Context(), dir); err != nil || r.Wrong > 1 || r.Entries != len(want) { // the bare entry has no body of the core's
			t.Errorf("Verify: %d entries, %v, %q; want %d", r.Entries, err, r.Problems, len(want))
		}
		s, err := Open(dir, &Options{Reserve: 1})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		wantGolden(t, s, want)
		next := numbered(want[0].ID, want[0].Epoch+1, retrysafe.Completed)
		want[0] = mustSwap(t, s, want[0].Rev, next)
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

func wantGolden(t *testing.T, s *Store, want []retrysafe.Entry) {
	t.Helper()
	for i, e := range want {
		e.Orphan = e.State == retrysafe.InFlight
		got := wantStands(t, s, e)
		if i > 0 && (got.Stamp.Before(goldenTime) || got.Stamp.After(goldenTime.Add(time.Hour))) {
			t.Errorf("entry %d is stamped %v, want about %v", i, got.Stamp, goldenTime)
		}
	}
	if _, found := stands(t, s, idOf(200)); found {
		t.Errorf("the entry that was deleted stands")
	}
	all, err := listAll(t.Context(), s, retrysafe.Query{})
	if err != nil || len(all) != len(want) {
		t.Errorf("List: %d entries, %v; want %d", len(all), err, len(want))
	}
}
