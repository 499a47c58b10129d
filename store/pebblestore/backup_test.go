package pebblestore

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// A backup holds what was acknowledged before it was asked for, and knows that it is one.

// TestBackupUnderLoad copies a store at which many write.
func TestBackupUnderLoad(t *testing.T) {
	d := newDisk()
	l := newLoad(d, openOn(t, d, small), 64)
	var done atomic.Bool
	within(t, "backups under load", func() {
		go func() {
			defer done.Store(true)
			for i := range 5 {
				until(t, "some writes", func() bool { return l.told.Load() > int64(300*i) })
				c := l.cut("backup", 0, 0) // for what is known
				dir := "copy" + string(rune('0'+i))
				if err := l.store.Backup(t.Context(), dir); err != nil {
					t.Errorf("Backup: %v", err)
					return
				}
				for i := range c.sent {
					c.sent[i] = l.sent[i].Load()
				}
				c.what = dir
				wantCopy(t, d, dir, c)
			}
		}()
		l.run(t, 16, done.Load)
	})
}

// wantCopy checks that the folder dir is a backup that holds what c knows.
func wantCopy(t *testing.T, d *disk, dir string, c cut) {
	t.Helper()
	if r, err := verify(t.Context(), dir, d); err != nil || r.Wrong > 0 || r.Entries == 0 {
		t.Errorf("Verify of %s: %d entries, %v, %q", dir, r.Entries, err, r.Problems)
	}
	s, err := open(dir, on(d, nil))
	if err != nil {
		t.Errorf("Open of %s: %v", dir, err)
		return
	}
	defer s.Close()
	if lost := c.lost(t, s); len(lost) > 0 {
		t.Errorf("%s: %d entries are not what they were: %s", dir, len(lost), lost[0])
	}
}

// TestBackupIsAnotherHistory: whoever opens one is told so once, and gets another generation for good.
func TestBackupIsAnotherHistory(t *testing.T) {
	base := t.TempDir()
	var log bytes.Buffer
	o := &Options{Reserve: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	opened := func(dir string) *Store {
		t.Helper()
		log.Reset()
		s, err := Open(filepath.Join(base, dir), o)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := opened("keys")
	kept := writeMany(t, s, 30)
	if err := s.Backup(t.Context(), filepath.Join(base, "copy")); err != nil {
		t.Fatalf("Backup: %v", err)
	}
	first := s.Generation()
	s.Close()
	if s = opened("keys"); s.Generation() != first || first == "" {
		t.Errorf("the generation is %q, want %q as before", s.Generation(), first)
	}
	if strings.Contains(log.String(), "restored") {
		t.Errorf("the original says that it was restored: %s", log.String())
	}

	restored := opened("copy")
	second := restored.Generation()
	if second == first || second == "" || !strings.Contains(log.String(), "restored from a backup") || !strings.Contains(log.String(), "backup_of=") {
		t.Errorf("generation %q after %q, and the log says: %s", second, first, log.String())
	}
	for _, e := range kept {
		e.Orphan = e.State == retrysafe.InFlight
		wantStands(t, restored, e)
	}
	restored.Close()
	if again := opened("copy"); again.Generation() != second || strings.Contains(log.String(), "restored") {
		t.Errorf("opened again: generation %q, want %q, and no word of a backup: %s", again.Generation(), second, log.String())
	}
	for _, e := range kept {
		if strings.Contains(log.String(), e.Display) {
			t.Errorf("the log tells a key")
		}
	}
}

// TestBackupThatCannotBe leaves the store as it is.
func TestBackupThatCannotBe(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	kept := writeMany(t, s, 30)
	if err := s.Backup(t.Context(), "copy"); err != nil {
		t.Fatalf("Backup: %v", err)
	}
	for _, dir := range []string{"copy", "keys"} {
		if err := s.Backup(t.Context(), dir); !errors.Is(err, retrysafe.ErrInvalid) || !strings.Contains(err.Error(), "choose a folder") {
			t.Errorf("Backup to %q, which exists: %v; want ErrInvalid, and what to do", dir, err)
		}
	}
	for _, op := range []string{"create", "write", "sync"} {
		dir := "broken-" + op
		for nth, failed := int64(1), true; failed; nth++ {
			failed = backupFailing(t, d, s, dir, op, nth)
			d.RemoveAll(dir)
		}
	}
	if err := s.why(); err != nil {
		t.Errorf("a backup disk that fails has ended the store: %v", err)
	}
	mustCreate(t, s, numbered(idOf(5000), 1, retrysafe.InFlight))
	for _, e := range kept {
		wantStands(t, s, e)
	}
}

// backupFailing makes a backup of which the nth op fails. It tells whether there were so many.
func backupFailing(t *testing.T, d *disk, s *Store, dir, op string, nth int64) bool {
	t.Helper()
	var seen atomic.Int64
	d.breaks(func(o, name string) error {
		if o == op && strings.HasPrefix(name, dir) && seen.Add(1) == nth {
			return syscall.EIO
		}
		return nil
	})
	defer d.breaks(nil)
	within(t, "Backup", func() {
		if err := s.Backup(t.Context(), dir); err == nil && seen.Load() >= nth {
			if r, err := verify(t.Context(), dir, d); err != nil || r.Wrong > 0 || r.Entries < 30 {
				t.Errorf("%s %d failed, Backup says nothing, and Verify: %d entries, %v, %q", op, nth, r.Entries, err, r.Problems)
			}
		}
	})
	return seen.Load() >= nth
}

// TestVerify finds what is wrong, and says where.
func TestVerify(t *testing.T) {
	tests := []struct {
		name string
		hurt func(*testing.T, *disk, retrysafe.Entry)
		want string
	}{
		{"nothing", func(*testing.T, *disk, retrysafe.Entry) {}, ""},
		{"key of the index missing", func(t *testing.T, d *disk, e retrysafe.Entry) { set(t, d, row{Entry: e}.indexKey(boot{}), nil) }, "it is not in the index"},
		{"one key of the index too many", func(t *testing.T, d *disk, e retrysafe.Entry) {
			e.Due++
			e.Due *= 2
			set(t, d, row{Entry: e}.indexKey(boot{}), []byte{})
		}, "21 keys for 20 entries"},
		{"entry missing", func(t *testing.T, d *disk, e retrysafe.Entry) { set(t, d, entryKey(e.ID), nil) }, "20 keys for 19 entries"},
		{"body of the core's damaged", func(t *testing.T, d *disk, e retrysafe.Entry) {
			e.Body = bytes.Clone(e.Body)
			e.Body[len(e.Body)-1] ^= 1
			set(t, d, entryKey(e.ID), row{Entry: e}.encode())
		}, "bad checksum"},
		{"entry of the future", func(t *testing.T, d *disk, e retrysafe.Entry) {
			e.Stamp = e.Stamp.AddDate(1, 0, 0)
			set(t, d, entryKey(e.ID), row{Entry: e}.encode())
		}, "later than the clock"},
		{"key of another length", func(t *testing.T, d *disk, e retrysafe.Entry) { set(t, d, []byte("e-"), []byte("x")) }, "a key of 2 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, all := closed(t)
			tt.hurt(t, d, all[0])
			r, err := verify(t.Context(), "keys", d)
			if err != nil || (r.Wrong == 0) != (tt.want == "") || !strings.Contains(strings.Join(r.Problems, "\n"), tt.want) {
				t.Errorf("Verify: %d problems, %q, %v; want %q", r.Wrong, r.Problems, err, tt.want)
			}
			if tt.want == "" && (r.Entries != 20 || r.States[retrysafe.Completed] != 10 || r.States[retrysafe.InFlight] != 10 || r.Bytes < 20*100) {
				t.Errorf("Verify: %+v", r)
			}
		})
	}
}

// TestVerifyOfNoStore says so.
func TestVerifyOfNoStore(t *testing.T) {
	dir := t.TempDir()
	if _, err := Verify(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Verify of no folder: %v; want that it does not exist", err)
	}
	if _, err := Verify(t.Context(), dir); !errors.Is(err, retrysafe.ErrInvalid) {
		t.Errorf("Verify of an empty folder: %v; want ErrInvalid", err)
	}
	s, err := Open(filepath.Join(dir, "keys"), &Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Verify(t.Context(), filepath.Join(dir, "keys")); !errors.Is(err, ErrInUse) {
		t.Errorf("Verify of a folder in use: %v; want ErrInUse", err)
	}
}

// TestVerifyNamesFewOfManyProblems, and counts all.
func TestVerifyNamesFewOfManyProblems(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	fillable(t, s, 3*maxProblems)
	s.Close()
	s = openOn(t, d, nil)
	b := s.db.NewBatch()
	for i := range 3 * maxProblems {
		b.Set(entryKey(idOf(i)), []byte("x"), nil)
	}
	if err := s.commitBatch(b); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if r, err := verify(t.Context(), "keys", d); err != nil || r.Wrong != 3*maxProblems || len(r.Problems) != maxProblems {
		t.Errorf("Verify: %d problems, %d of them named, %v; want %d and %d", r.Wrong, len(r.Problems), err, 3*maxProblems, maxProblems)
	}
}
