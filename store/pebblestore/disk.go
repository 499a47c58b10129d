package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// This file is what the store does about its disk: one that is in use, full, slow or broken.

// fail ends the store. A disk that failed once is not tried again: what it lost it may have forgotten to tell.
func (s *Store) fail(err error) {
	if s.end(fmt.Errorf("the disk failed, and the store has ended: %w: see to the disk, then open the folder again", err)) {
		s.log.Error("the disk failed: the store takes no calls until it is opened again", "err", err)
	}
}

// background meets an error of what Pebble does by itself: writing out tables, merging them.
func (s *Store) background(err error) {
	s.fail(err)
}

func (s *Store) slow(info pebble.DiskSlowInfo) {
	s.log.Warn("the disk is slow", "operation", info.OpType.String(), "took", info.Duration)
}

// corrupt meets a block of a table that is not what was written. Whoever asked for it gets an error; what stands in
// other blocks is served.
func (s *Store) corrupt(info pebble.DataCorruptionInfo) {
	s.log.Error("a file of the store is damaged: stop the gateway and run retrysafe store verify", "file", info.Path, "err", info.Details)
}

// engineLog takes what Pebble logs.
type engineLog struct{ s *Store }

func (l engineLog) Infof(format string, args ...any) {
	if l.s.log.Enabled(context.Background(), slog.LevelDebug) {
		l.s.log.Debug(fmt.Sprintf(format, args...))
	}
}

func (l engineLog) Errorf(format string, args ...any) { l.s.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf ends the store and never returns, as Pebble demands: the goroutine that met the error stays where it is.
func (l engineLog) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf(format, args...))
	select {}
}

// lookOnly makes Pebble's settings those of a folder that is only looked at: what goes wrong is returned.
func lookOnly(o pebble.Options) *pebble.Options {
	o.Logger, o.EventListener = silent{}, &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
	return &o
}

// silent takes what Pebble logs.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// lockFolder keeps other processes, and this one, from opening the folder twice.
func lockFolder(disk vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, disk)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok { // the file could be made, but is locked
		return nil, fmt.Errorf("%w: end it, or choose another folder", ErrInUse)
	}
	return lock, err
}

// makeFolder makes the folder and makes its name durable.
func makeFolder(disk vfs.FS, dir string) error {
	if _, err := disk.Stat(dir); err == nil {
		return nil
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	parent, err := disk.OpenDir(disk.PathDir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// A reserve is a file that takes up room, to be given up when the disk is full: what is under way can be recorded
// then. Until there is room for it again, the disk counts as full.
type reserve struct {
	disk  vfs.FS
	dir   string
	path  string
	size  int64
	log   *slog.Logger
	given atomic.Bool
	tried atomic.Int64 // when it was last looked whether there is room again; Unix nanoseconds
}

// retryReserve is how often a full disk is looked at.
const retryReserve = time.Second

func newReserve(disk vfs.FS, dir string, size int64, log *slog.Logger) *reserve {
	return &reserve{disk: disk, dir: dir, path: disk.PathJoin(dir, "reserve"), size: size, log: log}
}

// release gives the reserve up. Pebble calls it when a write found no room, and then tries that write once more.
func (r *reserve) release() {
	if r.given.Swap(true) {
		return
	}
	r.tried.Store(time.Now().UnixNano())
	err := r.disk.Remove(r.path)
	r.log.Error("the disk is full: new keys are refused, outcomes are recorded out of the reserve", "reserve", r.size, "err", err)
}

// keep takes the reserve, if there is room for it twice over.
func (r *reserve) keep() {
	err := r.take()
	if err != nil {
		r.disk.Remove(r.path)
	}
	if was := r.given.Swap(err != nil); was || err != nil {
		r.log.Warn("room for outcomes is kept back on the disk", "bytes", r.size, "kept", err == nil, "err", err)
	}
}

func (r *reserve) take() error {
	if info, err := r.disk.Stat(r.path); err == nil && info.Size() == r.size {
		return nil
	}
	usage, err := r.disk.GetDiskUsage(r.dir)
	if err == nil && usage.AvailBytes < 2*uint64(r.size) {
		return syscall.ENOSPC
	}
	return r.write()
}

// write fills the file: a hole would hold no room.
func (r *reserve) write() error {
	f, err := r.disk.Create(r.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for left := r.size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// full tells whether new keys are to be refused. From time to time it looks whether there is room again.
func (r *reserve) full() bool {
	if !r.given.Load() {
		return false
	}
	last := r.tried.Load()
	if now := time.Now().UnixNano(); now-last > int64(retryReserve) && r.tried.CompareAndSwap(last, now) {
		r.keep()
	}
	return r.given.Load()
}
