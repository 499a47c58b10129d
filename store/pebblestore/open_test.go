package pebblestore

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrysafe/retrysafe"
)

// What a folder may be when it is opened, and what is said of it.

// otherProcess is the variable that makes TestOpenInAnotherProcess be that process: it names the folder.
const otherProcess = "RETRYSAFE_TEST_OPEN"

// TestOpenInAnotherProcess opens, from a process of its own, a folder that this one has open, then one that it has left.
func TestOpenInAnotherProcess(t *testing.T) {
	if dir := os.Getenv(otherProcess); dir != "" {
		_, err := Open(dir, &Options{Reserve: 1})
		t.Logf("in use: %v, error: %v", errors.Is(err, ErrInUse), err)
		return
	}
	dir := t.TempDir()
	s, err := Open(dir, &Options{Reserve: 1})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if out := elsewhere(t, dir); !strings.Contains(out, "in use: true") || !strings.Contains(out, "end the process that has it open") {
		t.Errorf("Open in another process: %s; want ErrInUse, and what to do", out)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if out := elsewhere(t, dir); !strings.Contains(out, "error: <nil>") {
		t.Errorf("Open in another process, after Close in this one: %s", out)
	}
}

// elsewhere is what a process of its own says when it opens dir.
func elsewhere(t *testing.T, dir string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenInAnotherProcess$", "-test.v")
	c.Env = append(os.Environ(), otherProcess+"="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	return string(out)
}

// TestOpenTwiceInOneProcess is refused under whatever name: a lock of the system would let one process in twice.
func TestOpenTwiceInOneProcess(t *testing.T) {
	base := t.TempDir()
	dir, link := filepath.Join(base, "keys"), filepath.Join(base, "link")
	s, err := Open(dir, &Options{Reserve: 1})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(base)
	for _, name := range []string{dir, dir + "/", "keys", "./keys/../keys", link} {
		if again, err := Open(name, nil); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "choose another folder") {
			t.Errorf("Open(%q): %v; want ErrInUse, and what to do", name, err)
			if err == nil {
				again.Close()
			}
		}
		if _, err := Verify(t.Context(), name); !errors.Is(err, ErrInUse) {
			t.Errorf("Verify(%q): %v; want ErrInUse", name, err)
		}
	}
	if out := elsewhere(t, dir); !strings.Contains(out, "in use: true") {
		t.Errorf("Open in another process, after this one tried twice: %s", out)
	}
}

// set puts a value into a folder that is not in use, behind the store's back; nil deletes.
func set(t *testing.T, d *disk, key, value []byte) {
	t.Helper()
	db, err := pebble.Open("keys", &pebble.Options{FS: d, FormatMajorVersion: format, Logger: make(silent, 1)})
	if err != nil {
		t.Fatalf("open behind the store's back: %v", err)
	}
	if value == nil {
		err = db.Delete(key, pebble.Sync)
	} else {
		err = db.Set(key, value, pebble.Sync)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatalf("set behind the store's back: %v", err)
	}
}

// closed is a disk with a store of 20 entries that was closed.
func closed(t *testing.T) (*disk, []retrysafe.Entry) {
	t.Helper()
	d := newDisk()
	s := openOn(t, d, nil)
	kept := writeMany(t, s, 20)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return d, kept
}

// TestFoldersThatAreRefused says why, and leaves them as they are.
func TestFoldersThatAreRefused(t *testing.T) {
	meta := func(value string) func(*testing.T, *disk) {
		return func(t *testing.T, d *disk) { set(t, d, metaKey, []byte(value)) }
	}
	tests := []struct {
		name string
		make func(*testing.T, *disk)
		want error
		text string
	}{
		{"newer schema", meta(`{"schema":2,"generation":"X"}`), ErrNewer, "use the version that wrote it"},
		{"newer format of files", func(t *testing.T, d *disk) { newerFormat(t, d) }, ErrNewer, "use the version that wrote it"},
		{"no schema", meta(`{"generation":"X"}`), retrysafe.ErrUnreadable, "damaged"},
		{"meta that is cut short", meta(`{"schema":1,"gen`), retrysafe.ErrUnreadable, "damaged"},
		{"meta of nothing", meta(``), retrysafe.ErrUnreadable, "damaged"},
		{"clock that is cut short", func(t *testing.T, d *disk) { set(t, d, clockKey, []byte{1, 2, 3}) }, retrysafe.ErrUnreadable, "clock"},
		{"database of something else", func(t *testing.T, d *disk) { set(t, d, metaKey, nil) }, retrysafe.ErrInvalid, "choose another folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := closed(t)
			tt.make(t, d)
			if _, err := open("keys", on(d, nil)); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Open: %v; want %v, and %q said", err, tt.want, tt.text)
			}
			if r, err := verify(t.Context(), "keys", d); err == nil && r.Wrong == 0 {
				t.Errorf("Verify: nothing is wrong with it")
			}
			if _, err := open("keys", on(d, nil)); !errors.Is(err, tt.want) { // the lock was let go
				t.Errorf("Open again: %v; want %v", err, tt.want)
			}
		})
	}
}

// newerFormat makes the folder one that a later Pebble wrote.
func newerFormat(t *testing.T, d *disk) {
	t.Helper()
	names, err := d.List("keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "marker.format-version."); ok {
			number, _, _ := strings.Cut(rest, ".")
			if err := d.Rename("keys/"+name, "keys/marker.format-version."+number+".999"); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no format is marked among %q", names)
}

// TestFolderThatCannotBeWritten is an error of the system's, and no store.
func TestFolderThatCannotBeWritten(t *testing.T) {
	denied := func(op, name string) error {
		if op == "create" || op == "lock" {
			return &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
		}
		return nil
	}
	d := newDisk()
	d.breaks(denied)
	within(t, "Open", func() {
		if _, err := open("keys", on(d, nil)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open of a folder that cannot be written: %v; want that permission is denied", err)
		}
	})
	d, _ = closed(t)
	d.breaks(func(op, name string) error {
		if op == "lock" { // an old one, that can still be locked
			return nil
		}
		return denied(op, name)
	})
	within(t, "Open", func() {
		if _, err := open("keys", on(d, nil)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open of a folder that cannot be written any more: %v; want that permission is denied", err)
		}
	})
}

// TestFolderThatIsAFile is refused, and so is one inside a file.
func TestFolderThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "keys")} {
		if _, err := Open(dir, nil); err == nil {
			t.Errorf("Open(%q): no error", dir)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "of somebody" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

// TestMissingParentsAreMade, and a power cut does not take them.
func TestMissingParentsAreMade(t *testing.T) {
	d := newDisk()
	s, err := open("a/b/keys", on(d, nil))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	e := mustCreate(t, s, numbered(idOf(1), 1, retrysafe.InFlight))
	defer s.Close()
	again, err := open("a/b/keys", on(d.cut(0, 0), nil))
	if err != nil {
		t.Fatalf("Open after a power cut: %v", err)
	}
	defer again.Close()
	e.Orphan = true
	wantStands(t, again, e)

	dir := filepath.Join(t.TempDir(), "a", "b")
	onDisk, err := Open(dir, &Options{Reserve: 1})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer onDisk.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v; want it closed to others", info.Mode(), err)
	}
}

// TestOptionsThatMakeNoSense are refused before anything is opened.
func TestOptionsThatMakeNoSense(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	for _, o := range []*Options{{CacheBytes: -1}, {Reserve: -1}} {
		if _, err := Open(dir, o); !errors.Is(err, retrysafe.ErrInvalid) {
			t.Errorf("Open with %+v: %v; want ErrInvalid", o, err)
		}
	}
	if _, err := vfs.Default.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

// TestClockOverRestarts never gives a stamp behind one that it gave before, however the wall clock is set.
func TestClockOverRestarts(t *testing.T) {
	now := time.Now()
	d := newDisk()
	var last time.Time
	for i, wall := range []time.Time{now, now.Add(-time.Hour), now.AddDate(-50, 0, 0), now.Add(time.Hour), now.Add(time.Minute), time.UnixMicro(0)} {
		s := openOn(t, d, &Options{wall: func() time.Time { return wall }})
		_, read, err := s.Get(t.Context())
		if err != nil || read.Before(last) {
			t.Errorf("opening %d: the clock is at %v, %v, after a stamp of %v", i, read, err, last)
		}
		e := mustCreate(t, s, numbered(idOf(i), 1, retrysafe.InFlight))
		if !e.Stamp.After(last) || wall.After(last) && e.Stamp.Sub(wall) > patience {
			t.Errorf("opening %d with a wall clock of %v: stamp %v, after %v", i, wall, e.Stamp, last)
		}
		until(t, "the clock goes on: a lease would never end by one that waits for the wall clock", func() bool {
			return s.clock.now().Sub(e.Stamp) > 2*time.Millisecond
		})
		last = e.Stamp
		d = d.cut(0, 0)
	}
}
