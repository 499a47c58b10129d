package pebblestore

import (
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
	if _, err := s.disk.Stat(dir); err == nil {
		return fmt.Errorf("%w: something stands there already: choose a folder that does not exist", retrysafe.ErrInvalid)
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	made := s.clock.now()
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	return markRestored(s.disk, dir, made)
}

// markRestored makes the copy in dir know that it is one.
func markRestored(disk vfs.FS, dir string, made time.Time) (err error) {
	db, err := pebble.Open(dir, lookOnly(pebble.Options{FS: disk, FormatMajorVersion: format}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	m, _, err := readMeta(db)
	if err != nil {
		return err
	}
	m.Restored, m.RestoredOf = true, made
	return m.write(db)
}

// A Report is what Verify found.
type Report struct {
	Entries  int                     // that stand
	States   map[retrysafe.State]int // how many of them in each state
	Bytes    int64                   // of their rows
	Problems []string                // what is wrong, at most maxProblems of them; none: nothing is
	Wrong    int                     // how many problems there are
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
	if err := r.read(ctx, dir, disk); err != nil {
		return r, fmt.Errorf("pebblestore: verify %s: %w", dir, err)
	}
	return r, nil
}

func (r *Report) read(ctx context.Context, dir string, disk vfs.FS) (err error) {
	if _, err := disk.Stat(dir); err != nil {
		return err
	}
	lock, err := lockFolder(disk, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	db, err := pebble.Open(dir, lookOnly(pebble.Options{FS: disk, Lock: lock, ReadOnly: true, ErrorIfNotExists: true}))
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("%w: there is no store in it", retrysafe.ErrInvalid)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, fresh, err := readMeta(db)
	switch {
	case err != nil:
		return err
	case fresh:
		return fmt.Errorf("%w: what is in it are no keys", retrysafe.ErrInvalid)
	}
	if err := db.CheckLevels(nil); err != nil {
		r.wrong("tables: %v", err)
	}
	return errors.Join(r.entries(ctx, db), r.index(db))
}

// entries reads every entry, and looks it up in the index.
func (r *Report) entries(ctx context.Context, db *pebble.DB) error {
	return each(db, []byte{entryPrefix}, []byte{entryPrefix + 1}, func(it *pebble.Iterator) error {
		if r.Entries++; r.Entries%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		r.Bytes += int64(len(b))
		var id retrysafe.ID
		if copy(id[:], it.Key()[1:]); len(it.Key()) != 1+len(id) {
			r.wrong("entries: a key of %d bytes", len(it.Key()))
			return nil
		}
		row, err := decode(id, b)
		if err == nil {
			err = row.Entry.Check()
		}
		if err != nil {
			r.wrong("entry %.12s: %v", id, err)
			return nil
		}
		r.States[row.State]++
		return r.indexed(db, row)
	})
}

// indexed looks for the row in the index: where it is due, or, in flight, where orphans stand.
func (r *Report) indexed(db *pebble.DB, e row) error {
	for _, now := range []boot{e.boot, {}} {
		_, closer, err := db.Get(e.indexKey(now))
		switch {
		case err == nil:
			return closer.Close()
		case !errors.Is(err, pebble.ErrNotFound):
			return err
		}
	}
	r.wrong("entry %.12s: it is not in the index", e.ID)
	return nil
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
	return it.Close() // with the error of the walk
}
