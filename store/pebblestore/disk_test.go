package pebblestore

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk is one in memory that forgets, at a power cut, what was not synced, and whose syncs a test can stop, fail
// or watch.
type disk struct {
	vfs.FS
	mem *vfs.MemFS

	mu       sync.Mutex
	stall    chan struct{}               // not nil: syncs wait until it is closed
	onSync   func(name string)           // called before each sync and after it; nil: nobody watches
	failSync error                       // of every sync
	failFrom func(op, name string) error // of writes that grow a file, or make one
}

func newDisk() *disk { return onDisk(vfs.NewCrashableMem()) }

func onDisk(mem *vfs.MemFS) *disk { return &disk{FS: mem, mem: mem} }

// cut is what is left of the disk when the power is cut now.
func (d *disk) cut(cfg vfs.CrashCloneCfg) *disk { return onDisk(d.mem.CrashClone(cfg)) }

// stallSyncs makes every sync wait until resume is called.
func (d *disk) stallSyncs() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stall := make(chan struct{})
	d.stall = stall
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.stall == stall {
			d.stall = nil
			close(stall)
		}
	}
}

// watch has f called around every sync.
func (d *disk) watch(f func(name string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = f
}

// breakSyncs makes every sync fail.
func (d *disk) breakSyncs(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failSync = err
}

// synced is one sync of a file.
func (d *disk) synced(name string, sync func() error) error {
	d.mu.Lock()
	stall, watch, err := d.stall, d.onSync, d.failSync
	d.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if err != nil {
		return err
	}
	if watch != nil {
		watch(name)
		defer watch(name)
	}
	return sync()
}

func (d *disk) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return d.wrap(f, name, err)
}

func (d *disk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(old, name, c)
	return d.wrap(f, name, err)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, o...)
	return d.wrap(f, name, err)
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return d.wrap(f, name, err)
}

// A file is one whose syncs the disk decides over.
type file struct {
	vfs.File
	disk *disk
	name string
}

func (f *file) Sync() error     { return f.disk.synced(f.name, f.File.Sync) }
func (f *file) SyncData() error { return f.disk.synced(f.name, f.File.SyncData) }
func (f *file) SyncTo(n int64) (full bool, err error) {
	err = f.disk.synced(f.name, func() (err error) { full, err = f.File.SyncTo(n); return err })
	return full, err
}

func openOn(t *testing.T, d vfs.FS) *Store {
	t.Helper()
	s, err := Open("keys", &Options{Reserve: 1, disk: d})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var _ = errors.Is
var _ = syscall.EIO
var _ = time.Now
