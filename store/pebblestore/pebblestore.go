// Package pebblestore is a Store in one folder of the local disk, on Pebble: durable, and for one process. It starts
// as fast, and looks a key up about as fast, among millions of keys as among none.
//
// A write has returned when its bytes are synced to the disk, and is shown to nobody before: Pebble itself shows
// a synced write to readers while its sync is still under way, so the store keeps the entry locked until then.
// Writes that arrive during a sync travel together in the next one.
//
// The folder belongs to one process at a time. When it is opened again, what was in flight has lost its owner:
// such entries are [retrysafe.Entry.Orphan] at once, whatever is left of their leases.
//
// A full disk refuses new keys with [ErrFull] and still records outcomes, out of a reserve that the store keeps
// on the disk. Any other error of the disk ends the store: every call from then on fails, since nobody can know
// what a disk holds that failed to sync. See to the disk and start the process again: this one keeps the folder.
package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/wake"
)

// Options are what a Store does. Nil, and the zero value of each field, is the default.
type Options struct {
	CacheBytes int64        // of memory for blocks that were read, and half as much again for entries. Defaults to 32 MiB
	Reserve    int64        // bytes on the disk kept back for outcomes when it is full. Defaults to 64 MiB
	Logger     *slog.Logger // never told a key or a payload. Defaults to silence

	disk     vfs.FS           // defaults to the real one
	wall     func() time.Time // defaults to time.Now
	memTable uint64           // bytes in memory before they become a table. Defaults to 8 MiB
	noSync   bool             // for the test that shows what it would cost
}

// Errors of a Store beside those of the contract.
var (
	// ErrFull says that the disk is full. Nothing was written.
	ErrFull = errors.New("disk is full")
	// ErrInUse says that a process has the folder open: another one, or this one.
	ErrInUse = errors.New("folder is in use")
	// ErrNewer says that a newer version of retrysafe wrote the folder.
	ErrNewer = errors.New("folder was written by a newer version")
)

// stripes are the locks that entries share by their ID. A lock is held for as long as a sync takes, so there are
// many.
const stripes = 1 << 13

// A Store keeps entries in a folder. Use Open, and Close when it is no longer used.
type Store struct {
	db      *pebble.DB
	lock    *pebble.Lock
	disk    vfs.FS
	log     *slog.Logger
	reserve *reserve
	clock   clock
	boot    boot
	meta    meta
	sync    *pebble.WriteOptions

	recent  *recent
	waiting wake.Set
	stripes [stripes]chan struct{} // locks that give way to a context
	queue   chan *write
	over    atomic.Pointer[error] // why the store takes no calls any more
	ended   chan struct{}         // closed when over is set
	broken  chan struct{}         // closed when the disk has failed: Pebble may never return from what it does then
	failed  error                 // what the disk said; read it when broken is closed
	breaks  sync.Once             // sets failed, closes broken
	commits sync.WaitGroup        // the goroutine that commits
	using   sync.RWMutex          // read-locked by every call: Pebble is closed when none is left
}

var (
	_ retrysafe.Store     = (*Store)(nil)
	_ retrysafe.Waiter    = (*Store)(nil)
	_ retrysafe.Inspector = (*Store)(nil)
)

// Open opens the folder dir, and makes it if it does not exist. It starts goroutines that Close ends.
//
// Errors: ErrInUse, ErrNewer, and what the disk says.
func Open(dir string, o *Options) (*Store, error) {
	s, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("pebblestore: open %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, given *Options) (*Store, error) {
	var o Options
	if given != nil {
		o = *given
	}
	if o.CacheBytes < 0 || o.Reserve < 0 {
		return nil, fmt.Errorf("%w: CacheBytes and Reserve must not be negative", retrysafe.ErrInvalid)
	}
	if o.disk == nil {
		o.disk = vfs.Default
	}
	if o.wall == nil {
		o.wall = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{disk: o.disk, log: o.Logger, queue: make(chan *write, queueLength), ended: make(chan struct{}), broken: make(chan struct{}), sync: pebble.Sync}
	if o.noSync {
		s.sync = pebble.NoSync
	}
	o.CacheBytes = cmp.Or(o.CacheBytes, 32<<20)
	s.recent = newRecent(o.CacheBytes / 2)
	for i := range s.stripes {
		s.stripes[i] = make(chan struct{}, 1)
	}
	if err := makeFolder(o.disk, dir); err != nil {
		return nil, err
	}
	s.reserve = newReserve(o.disk, dir, cmp.Or(o.Reserve, 64<<20), o.Logger)
	if err := s.unlessBroken(func() error { return s.start(dir, o) }); err != nil {
		return nil, err
	}
	s.commits.Go(s.commit)
	return s, nil
}

// start locks the folder and has Pebble open it.
func (s *Store) start(dir string, o Options) (err error) {
	if s.lock, err = lockFolder(o.disk, dir); err != nil {
		return err
	}
	disk := &guard{FS: vfs.OnDiskFull(o.disk, s.reserve.release), dir: dir, fail: s.fail}
	if s.db, err = pebble.Open(dir, s.engine(disk, o)); err != nil {
		return errors.Join(ifNewer(o.disk, dir, err), s.lock.Close())
	}
	if err := s.begin(o.wall()); err != nil {
		return errors.Join(err, s.db.Close(), s.lock.Close())
	}
	s.reserve.keep()
	return nil
}

// unlessBroken returns what f returns, or, if the disk fails meanwhile, what the disk said: Pebble has no way out
// of some failures, and f may never return.
func (s *Store) unlessBroken(f func() error) error {
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	select {
	case err := <-returned:
		return err
	case <-s.broken:
		return s.failed
	}
}

// format is the version of Pebble's files. It is raised on purpose only: an older release must open the folder.
const format = pebble.FormatValueSeparation

// engine is how Pebble is set up.
func (s *Store) engine(disk vfs.FS, given Options) *pebble.Options {
	memTable := cmp.Or(given.memTable, 8<<20)
	o := &pebble.Options{
		FS:                 disk,
		Lock:               s.lock,
		Logger:             engineLog{s},
		EventListener:      &pebble.EventListener{BackgroundError: s.background, DiskSlow: s.slow, DataCorruption: s.corrupt, WriteStallBegin: s.behind},
		FormatMajorVersion: format,
		CacheSize:          given.CacheBytes + 4*int64(memTable), // Pebble takes the memory of its tables out of the cache
		MemTableSize:       memTable,
		// Merging falls behind when many write for minutes. Tables that wait for it cost reads, which their filters make
		// cheap; writes that wait for it would cost requests.
		L0StopWritesThreshold:      100,
		CompactionConcurrencyRange: func() (lower, upper int) { return 1, max(2, runtime.GOMAXPROCS(0)/2) },
	}
	o.WithFSDefaults() // which watch the disk, and tell slow
	filter(o)
	return o
}

// filter gives tables filters: a fresh key is looked up before it is claimed, and most are not there.
func filter(o *pebble.Options) {
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
}

// begin reads what the folder says of itself, starts its clock, and finds the orphans.
func (s *Store) begin(wall time.Time) error {
	m, fresh, err := readMeta(s.db)
	if err == nil && fresh {
		err = mustBeEmpty(s.db)
	}
	if err != nil {
		return err
	}
	last, err := readClock(s.db)
	if err != nil {
		return err
	}
	s.clock.start(wall, last)
	s.boot = newBoot()
	s.meta = m
	if fresh || m.Restored {
		if err := s.generate(); err != nil {
			return err
		}
	}
	if fresh { // the first log is of a format that cannot tell damage from a power cut
		if err := s.db.Flush(); err != nil {
			return err
		}
	}
	return s.orphan()
}

// Generation names the history of the store's entries: another one after a backup was restored. Entries that were
// written since the backup are gone then.
func (s *Store) Generation() string { return s.meta.Generation }

// Close ends the store. Calls under way end, with an error that leaves open what became of them if they were not
// quick enough; calls after it fail.
func (s *Store) Close() error {
	if !s.end(errClosed) { // closed already; or a disk has failed: Pebble may hang, and has nothing left to save
		return nil
	}
	if err := s.unlessBroken(s.close); err != nil {
		return fmt.Errorf("pebblestore: close: %w", err)
	}
	return nil
}

func (s *Store) close() error {
	s.commits.Wait()
	s.using.Lock() // until the last call has left; those that come now find that the store has ended
	//lint:ignore SA2001 nothing is to be done while no call is there; it is enough that there was such a moment
	s.using.Unlock()
	s.reserve.keeping.Wait()
	return errors.Join(s.db.Flush(), s.db.Close(), s.lock.Close()) // what is in tables has checksums that end nowhere
}

var errClosed = errors.New("store is closed")

// end makes why the reason for which the store takes no calls any more, unless it has ended before.
func (s *Store) end(why error) (first bool) {
	if first = s.over.CompareAndSwap(nil, &why); first {
		close(s.ended)
		s.waiting.Close() // nothing changes any more
	}
	return first
}

// why is the reason for which the store takes no calls any more, nil while it does.
func (s *Store) why() error {
	if err := s.over.Load(); err != nil {
		return *err
	}
	return nil
}

// enter locks the stripe of id. Its error says that nothing was written.
func (s *Store) enter(ctx context.Context, id retrysafe.ID) (stripe chan struct{}, err error) {
	stripe = s.stripes[(int(id[0])<<8|int(id[1]))%stripes]
	if err := cmp.Or(s.why(), ctx.Err()); err != nil {
		return nil, notWritten(err)
	}
	select {
	case stripe <- struct{}{}: // free, as nearly always: ctx need not make a timer
		return stripe, nil
	default:
	}
	select {
	case stripe <- struct{}{}:
		return stripe, nil
	case <-ctx.Done():
		return nil, notWritten(ctx.Err())
	case <-s.ended:
		return nil, notWritten(s.why())
	}
}

func notWritten(err error) error {
	return fmt.Errorf("pebblestore: %w: %w", retrysafe.ErrNotWritten, err)
}

// Get returns the entries that stand under ids. Each is read when no write to it waits for the disk.
func (s *Store) Get(ctx context.Context, ids ...retrysafe.ID) (found []retrysafe.Entry, now time.Time, err error) {
	s.using.RLock()
	defer s.using.RUnlock()
	if err := s.why(); err != nil {
		return nil, time.Time{}, notWritten(err)
	}
	for _, id := range ids {
		stripe, err := s.enter(ctx, id)
		if err != nil {
			return nil, time.Time{}, err
		}
		r, err := s.lookup(id)
		<-stripe
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("pebblestore: get: %w", err)
		}
		if r != nil {
			found = append(found, r.own(s.boot))
		}
	}
	return found, s.clock.now(), nil
}

// Wait returns when the Rev under id is not old any more, or when the store ends.
func (s *Store) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	ticket, err := s.join(ctx, id, old)
	if err != nil {
		return fmt.Errorf("pebblestore: wait: %w", err)
	}
	if ticket == nil {
		return nil
	}
	if err := cmp.Or(ticket.Wait(ctx), s.why()); err != nil {
		return fmt.Errorf("pebblestore: wait: %w", err)
	}
	return nil
}

// join is nil when the Rev is not old. No write is under way while it looks.
func (s *Store) join(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (*wake.Ticket, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	stripe, err := s.enter(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { <-stripe }()
	r, err := s.lookup(id)
	if err != nil || r == nil || r.Rev != old {
		return nil, err
	}
	return s.waiting.Join(id), nil
}
