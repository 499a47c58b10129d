package pebblestore

import (
	"errors"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A guard is the disk as Pebble sees it. A write or a sync in the store's own folder that fails ends the store and
// never returns: some of them Pebble would try again, which may look like success though the data is gone; of others
// it makes a panic under a lock that it has let go, or leaves a half-opened folder to goroutines that do not know of
// it: either ends the process.
//
// A table that finds no room does return: Pebble can write it again without harm. The log and the MANIFEST cannot.
type guard struct {
	vfs.FS
	dir  string
	fail func(error)
}

// met is err, if it may return.
func (g *guard) met(name string, err error) error {
	own := name == g.dir || g.FS.PathDir(name) == g.dir
	if err == nil || !own || errors.Is(err, syscall.ENOSPC) && strings.HasSuffix(name, ".sst") {
		return err
	}
	g.fail(err)
	select {}
}

func (g *guard) file(f vfs.File, name string, err error) (vfs.File, error) {
	if err := g.met(name, err); err != nil {
		return nil, err
	}
	return &guarded{File: f, guard: g, name: name}, nil
}

// Create makes a file.
func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	return g.file(f, name, err)
}

// ReuseForWrite makes a file of an old one.
func (g *guard) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(old, name, c)
	return g.file(f, name, err)
}

// OpenDir opens a folder, to sync it.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	return g.file(f, name, err)
}

// Unwrap is for Pebble, which looks for the disk below.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// guarded is a file that is written.
type guarded struct {
	vfs.File
	guard *guard
	name  string
}

func (f *guarded) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.met(f.name, err)
}

func (f *guarded) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.guard.met(f.name, err)
}

func (f *guarded) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.guard.met(f.name, err)
}

func (f *guarded) Sync() error     { return f.guard.met(f.name, f.File.Sync()) }
func (f *guarded) SyncData() error { return f.guard.met(f.name, f.File.SyncData()) }
func (f *guarded) Close() error    { return f.guard.met(f.name, f.File.Close()) }
