package pebblestore

import (
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk is one in memory that forgets, at a power cut, what was not synced; that has as much room as a test gives
// it; and whose operations a test can stop, fail or watch.
type disk struct {
	vfs.FS
	mem *vfs.MemFS

	cuts sync.Mutex // held by a cut, and by what MemFS cannot do while it waits for one: it locks twice

	mu     sync.Mutex
	stall  chan struct{}               // not nil: syncs wait until it is closed
	onSync func(name string)           // called before each sync and after it; nil: nobody watches
	fault  func(op, name string) error // asked before each "sync", "write", "create", "read", "open" and "lock"; nil: none fails
	room   int64                       // bytes of the folder "keys"; 0: no end
}

func newDisk() *disk { return onDisk(vfs.NewCrashableMem()) }

func onDisk(mem *vfs.MemFS) *disk { return &disk{FS: mem, mem: mem} }

// cut is what is left of the disk when the power is cut now: all that was synced, and of what was not percent.
func (d *disk) cut(percent int, seed uint64) *disk {
	d.cuts.Lock()
	defer d.cuts.Unlock()
	return onDisk(d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))}))
}

// killed is the disk as the next process finds it when this one is killed now: whole, and free of its lock.
func (d *disk) killed() *disk { return d.cut(100, 0) }

// stallSyncs makes every sync wait until resume is called.
func (d *disk) stallSyncs() (resume func()) {
	stall := make(chan struct{})
	d.set(func() { d.stall = stall })
	return sync.OnceFunc(func() {
		d.set(func() { d.stall = nil })
		close(stall)
	})
}

// watch has f called around every sync.
func (d *disk) watch(f func(name string)) { d.set(func() { d.onSync = f }) }

// breaks makes fail the operations of which f says so.
func (d *disk) breaks(f func(op, name string) error) { d.set(func() { d.fault = f }) }

// resize gives the disk room for that many bytes more than it holds.
func (d *disk) resize(more int64) {
	used := d.used()
	d.set(func() { d.room = used + more })
}

func (d *disk) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// failing makes fail, with err, every op on a file whose name has that in it.
func failing(err error, op, has string) func(op, name string) error {
	return func(o, name string) error {
		if o == op && strings.Contains(name, has) {
			return err
		}
		return nil
	}
}

// before is asked before an operation.
func (d *disk) before(op, name string) error {
	d.mu.Lock()
	fault := d.fault
	d.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(op, name)
}

// synced is one sync of a file.
func (d *disk) synced(name string, sync func() error) error {
	d.mu.Lock()
	stall, watch := d.stall, d.onSync
	d.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if err := d.before("sync", name); err != nil {
		return err
	}
	if watch != nil {
		watch(name)
		defer watch(name)
	}
	return sync()
}

// used is how many bytes the folder holds.
func (d *disk) used() (n int64) {
	names, _ := d.mem.List("keys")
	for _, name := range names {
		if info, err := d.mem.Stat("keys/" + name); err == nil {
			n += info.Size()
		}
	}
	return n
}

// takes tells whether there is room for n bytes more.
func (d *disk) takes(n int) error {
	d.mu.Lock()
	room := d.room
	d.mu.Unlock()
	if room > 0 && d.used()+int64(n) > room {
		return syscall.ENOSPC
	}
	return nil
}

// GetDiskUsage tells how much room there is.
func (d *disk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	room := d.room
	d.mu.Unlock()
	if room == 0 {
		return d.FS.GetDiskUsage(path)
	}
	used := min(d.used(), room)
	return vfs.DiskUsage{AvailBytes: uint64(room - used), TotalBytes: uint64(room), UsedBytes: uint64(used)}, nil
}

// file is what f is to be, after op was allowed.
func (d *disk) file(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := d.before(op, name); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file("create", name, func() (vfs.File, error) { return d.FS.Create(name, c) })
}

func (d *disk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file("create", name, func() (vfs.File, error) {
		d.cuts.Lock()
		defer d.cuts.Unlock()
		return d.FS.ReuseForWrite(old, name, c)
	})
}

func (d *disk) Link(old, name string) error {
	d.cuts.Lock()
	defer d.cuts.Unlock()
	return d.FS.Link(old, name)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.file("create", name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, o...) })
}

func (d *disk) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return d.file("open", name, func() (vfs.File, error) { return d.FS.Open(name, o...) })
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	return d.file("open", name, func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

func (d *disk) Lock(name string) (io.Closer, error) {
	if err := d.before("lock", name); err != nil {
		return nil, err
	}
	return d.FS.Lock(name)
}

// A file is one whose operations the disk decides over.
type file struct {
	vfs.File
	disk *disk
	name string
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.disk.before("write", f.name); err != nil {
		return 0, err
	}
	if err := f.disk.takes(len(p)); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if err := f.disk.before("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f *file) Sync() error     { return f.disk.synced(f.name, f.File.Sync) }
func (f *file) SyncData() error { return f.disk.synced(f.name, f.File.SyncData) }
func (f *file) SyncTo(n int64) (full bool, err error) {
	err = f.disk.synced(f.name, func() (err error) { full, err = f.File.SyncTo(n); return err })
	return full, err
}

// openOn opens the store of the disk; o may be nil. It is closed when the test ends.
func openOn(t *testing.T, d *disk, o *Options) *Store {
	t.Helper()
	s, err := open("keys", on(d, o))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// on is o for that disk.
func on(d *disk, o *Options) *Options {
	var with Options
	if o != nil {
		with = *o
	}
	with.disk = d
	if with.Reserve == 0 {
		with.Reserve = 1
	}
	return &with
}
