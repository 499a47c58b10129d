package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrysafe/retrysafe"
)

// This file is what the store does about its disk: one that is in use, full, slow or broken.

// fail ends the store. A disk that failed once is not tried again: what it lost it may have forgotten to tell.
func (s *Store) fail(err error) {
	s.breaks.Do(func() {
		s.failed = fmt.Errorf("the disk failed, and the store has ended: %w: see to the disk, then start again", err)
		s.end(s.failed)
		close(s.broken)
		s.log.Error("the disk failed: the store takes no calls any more", "err", err)
	})
}

// unread is the error of a read. What is damaged is unreadable; all else is the disk's.
func (s *Store) unread(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", retrysafe.ErrUnreadable, err)
	}
	s.fail(err)
	return s.failed
}

// fullPause is how long Pebble waits before it tries again what found no room. It would not wait by itself.
const fullPause = 100 * time.Millisecond

// background meets an error of what Pebble does by itself: writing out tables, merging them. Where there was no
// room nothing is lost: it is tried again, and writes wait if they must. Any other error ends the goroutine: Pebble
// would try again at once, for ever.
func (s *Store) background(err error) {
	if errors.Is(err, syscall.ENOSPC) && s.why() == nil {
		time.Sleep(fullPause)
		return
	}
	s.fail(err)
	runtime.Goexit()
}

func (s *Store) slow(info pebble.DiskSlowInfo) {
	s.log.Warn("the disk is slow", "operation", info.OpType.String(), "took", info.Duration)
}

// behind meets a disk that cannot keep up: writes wait until it has.
func (s *Store) behind(info pebble.WriteStallBeginInfo) {
	s.log.Warn("the disk cannot keep up, writes wait", "reason", info.Reason)
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

// silent takes what Pebble logs while a folder is only looked at. Its errors are returned, but for the one from
// which it does not return.
type silent chan error

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (fatal silent) Fatalf(format string, args ...any) {
	select {
	case fatal <- fmt.Errorf(format, args...):
	default:
	}
	select {}
}

// aside returns what f returns, which opens a folder with the options that it is given.
func aside(disk vfs.FS, f func(*pebble.Options) error) error {
	fatal, returned := make(silent, 1), make(chan error, 1)
	o := &pebble.Options{FS: disk, Logger: fatal, FormatMajorVersion: format, DisableAutomaticCompactions: true,
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}}
	filter(o)
	go func() { returned <- unpanicked(func() error { return f(o) }) }()
	select {
	case err := <-returned:
		return err
	case err := <-fatal:
		return err
	}
}

// unpanicked returns what f returns, or the error of which Pebble made a panic.
func unpanicked(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error: // a fault of the program, not of a disk
			panic(p)
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	return f()
}

// lockFolder keeps other processes, and this one, from opening the folder twice, whatever they call it.
func lockFolder(disk vfs.FS, dir string) (*pebble.Lock, error) {
	if disk == vfs.Default {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			resolved, err = filepath.Abs(resolved)
		}
		if err != nil {
			return nil, err
		}
		dir = resolved
	}
	lock, err := pebble.LockDirectory(dir, disk)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok { // the file could be made, but is locked
		return nil, fmt.Errorf("%w: end the process that has it open, or choose another folder", ErrInUse)
	}
	return lock, err
}

// makeFolder makes the folder, with those above it, and makes their names durable.
func makeFolder(disk vfs.FS, dir string) error {
	var above []string
	for d := dir; ; d = disk.PathDir(d) {
		if info, err := disk.Stat(d); err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is a file", retrysafe.ErrInvalid, d)
		} else if err == nil || d == disk.PathDir(d) {
			break
		}
		above = append(above, disk.PathDir(d))
	}
	if len(above) == 0 {
		return nil
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range above {
		f, err := disk.OpenDir(d)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
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

	keeping sync.WaitGroup // the goroutine that looks
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

// full tells whether new keys are to be refused. From time to time it has looked whether there is room again, by a
// goroutine: taking the reserve lasts as long as the disk needs.
func (r *reserve) full() bool {
	if !r.given.Load() {
		return false
	}
	last := r.tried.Load()
	if now := time.Now().UnixNano(); now-last > int64(retryReserve) && r.tried.CompareAndSwap(last, now) {
		r.keeping.Go(r.keep)
	}
	return r.given.Load()
}
