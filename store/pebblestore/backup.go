package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrysafe/retrysafe"
)

// Backup writes a copy of the store, as it stands now, into dir, which must not exist. The store goes on meanwhile.
// Files that never change are linked where both folders are on one disk. Whoever opens the copy is told that it is
// a restored backup, and starts a new generation.
func (s *Store) Backup(ctx context.Context, dir string) error {
	if err := s.backup(ctx, dir); err != nil {
		return fmt.Errorf("pebblestore: backup to %s: %w", dir, err)
	}
	return nil
}

func (s *Store) backup(ctx context.Context, dir string) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if err := s.why(); err != nil {
		return err
	}
	if err := mustBeNew(s.disk, dir); err != nil {
		return err
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	made := s.clock.now()
	err := unpanicked(func() error { return s.db.Checkpoint(dir, pebble.WithFlushedWAL()) })
	if err != nil {
		return err
	}
	return markRestored(s.disk, dir, made)
}

// Backup writes a copy of the store in the folder from, which no process may have open, into dir, which must not
// exist. Of the store it changes nothing that it says of itself: one that is a restored backup is still told so when it
// is opened.
func Backup(ctx context.Context, from, dir string) error {
	if err := backup(ctx, from, dir, vfs.Default); err != nil {
		return fmt.Errorf("pebblestore: backup of %s to %s: %w", from, dir, err)
	}
	return nil
}

func backup(ctx context.Context, from, dir string, disk vfs.FS) error {
	if err := cmp.Or(ctx.Err(), mustBeNew(disk, dir)); err != nil {
		return err
	}
	var made int64
	err := aside(disk, func(o *pebble.Options) error {
		return opened(from, o, func(db *pebble.DB) (err error) {
			if made, err = readClock(db); err != nil {
				return err
			}
			return db.Checkpoint(dir, pebble.WithFlushedWAL())
		})
	})
	if err != nil {
		return err
	}
	return markRestored(disk, dir, time.UnixMicro(made))
}

func mustBeNew(disk vfs.FS, dir string) error {
	if _, err := disk.Stat(dir); err == nil {
		return fmt.Errorf("%w: something stands there already: choose a folder that does not exist", retrysafe.ErrInvalid)
	}
	return nil
}

// opened calls f with the store in the folder dir, which no process may have open.
func opened(dir string, o *pebble.Options, f func(*pebble.DB) error) (err error) {
	if _, err := o.FS.Stat(dir); err != nil {
		return err
	}
	if o.Lock, err = lockFolder(o.FS, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Lock.Close()) }()
	o.ErrorIfNotExists = true
	db, err := pebble.Open(dir, o)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("%w: there is no store in it", retrysafe.ErrInvalid)
	}
	if err != nil {
		return ifNewer(o.FS, dir, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, fresh, err := readMeta(db)
	switch {
	case err != nil:
		return err
	case fresh:
		return fmt.Errorf("%w: what is in it are no keys", retrysafe.ErrInvalid)
	}
	return f(db)
}

// markRestored makes the copy in dir know that it is one.
func markRestored(disk vfs.FS, dir string, made time.Time) error {
	return aside(disk, func(o *pebble.Options) error {
		db, err := pebble.Open(dir, o)
		if err != nil {
			return err
		}
		m, _, err := readMeta(db)
		if err == nil {
			m.Restored, m.RestoredOf = true, made
			err = m.write(db)
		}
		return errors.Join(err, db.Close())
	})
}

// A Report is what Verify found.
type Report struct {
	Entries  int                     // that stand
	States   map[retrysafe.State]int // how many of them in each state
	Bytes    int64                   // of their rows
	Problems []string                // what is wrong, at most maxProblems of them; none: nothing is
	Wrong    int                     // how many problems there are

	clock int64 // as the folder records it, in Unix microseconds
}

// maxProblems bounds the problems that a Report names.
const maxProblems = 20

func (r *Report) wrong(format string, args ...any) {
	if r.Wrong++; len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify reads every byte of the folder dir, which no process may have open, and changes nothing: the tables and
// their checksums, every entry and its checksums, and whether entries and index fit each other.
func Verify(ctx context.Context, dir string) (Report, error) { return verify(ctx, dir, vfs.Default) }

func verify(ctx context.Context, dir string, disk vfs.FS) (Report, error) {
	r := Report{States: map[retrysafe.State]int{}}
	err := aside(disk, func(o *pebble.Options) error {
		o.ReadOnly = true
		return opened(dir, o, func(db *pebble.DB) error { return r.read(ctx, db) })
	})
	if err != nil {
		return Report{}, fmt.Errorf("pebblestore: verify %s: %w", dir, err)
	}
	return r, nil
}

func (r *Report) read(ctx context.Context, db *pebble.DB) (err error) {
	if r.clock, err = readClock(db); err != nil {
		return err
	}
	if err := db.CheckLevels(nil); err != nil {
		r.wrong("tables: %v", err)
	}
	if err := r.walked("entries", r.entries(ctx, db)); err != nil {
		return err
	}
	return r.walked("index", r.index(db))
}

// walked is the error of a walk. A damaged table is a problem among others, after which the walk did not come to an end.
func (r *Report) walked(what string, err error) error {
	if !pebble.IsCorruptionError(err) {
		return err
	}
	r.wrong("%s: what follows a damaged block was not read: %v", what, err)
	return nil
}

// entries reads every entry, and looks it up as a call does, and in the index.
func (r *Report) entries(ctx context.Context, db *pebble.DB) error {
	probe, err := db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return err
	}
	err = each(db, []byte{entryPrefix}, []byte{entryPrefix + 1}, func(it *pebble.Iterator) error {
		if r.Entries++; r.Entries%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		r.Bytes += int64(len(b))
		return r.entry(it.Key(), b, probe)
	})
	probe.Close() // with the error of its last probe, which is noted
	return err
}

func (r *Report) entry(key, value []byte, probe *pebble.Iterator) error {
	var id retrysafe.ID
	if copy(id[:], key[1:]); len(key) != 1+len(id) {
		r.wrong("entries: a key of %d bytes", len(key))
		return nil
	}
	row, err := decode(id, value)
	if err == nil {
		err = row.Entry.Check()
	}
	if err != nil {
		r.wrong("entry %.12s: %v", id, err)
		return nil
	}
	if row.Stamp.UnixMicro() > r.clock {
		r.wrong("entry %.12s: it is of %v, later than the clock of the folder", id, row.Stamp)
	}
	r.States[row.State]++
	found := probe.SeekPrefixGE(key)
	r.looked(id, found, probe, "it is not found when it is asked for")
	found = probe.SeekPrefixGE(row.indexKey(row.boot)) || probe.SeekPrefixGE(row.indexKey(boot{})) // as an orphan
	r.looked(id, found, probe, "it is not in the index")
	return nil
}

// looked takes note of a probe that did not find what it was to find.
func (r *Report) looked(id retrysafe.ID, found bool, probe *pebble.Iterator, what string) {
	if err := probe.Error(); err != nil {
		r.wrong("entry %.12s: %s: %v", id, what, err)
	} else if !found {
		r.wrong("entry %.12s: %s", id, what)
	}
}

// index counts the keys of the index: each entry has one.
func (r *Report) index(db *pebble.DB) error {
	n := 0
	err := each(db, []byte{indexPrefix}, []byte{indexPrefix + 1}, func(*pebble.Iterator) error { n++; return nil })
	if err == nil && n != r.Entries {
		r.wrong("index: it has %d keys for %d entries", n, r.Entries)
	}
	return err
}

// each calls f for every key of a range.
func each(db *pebble.DB, from, to []byte, f func(*pebble.Iterator) error) error {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	for valid := it.First(); valid; valid = it.Next() {
		if err := f(it); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}
