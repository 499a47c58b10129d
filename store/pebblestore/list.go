package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrysafe/retrysafe"
)

// Bounds of one page: what it returns, and what it looks at on the way.
const (
	pageBytes = 4 << 20
	pageRows  = 10_000
)

// List reads a snapshot of which nothing waits for the disk any more. What is due is read from the index in the
// order of time; few states, which few entries are in, from the index too; all else entry by entry.
func (s *Store) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if err := cmp.Or(s.why(), ctx.Err()); err != nil {
		return retrysafe.Page{}, fmt.Errorf("pebblestore: list: %w", err)
	}
	snapshot := s.db.NewSnapshot()
	defer snapshot.Close()
	l := lister{store: s, from: snapshot, q: q}
	l.page.Now = s.clock.now()
	if err := s.barrier(ctx); err != nil {
		return retrysafe.Page{}, fmt.Errorf("pebblestore: list: %w", err)
	}
	if err := l.list(ctx); err != nil {
		return retrysafe.Page{}, fmt.Errorf("pebblestore: list: %w", err)
	}
	return l.page, nil
}

// A lister fills one page.
type lister struct {
	store *Store
	from  *pebble.Snapshot
	q     retrysafe.Query
	page  retrysafe.Page
	bytes int
	last  []byte // key that was walked last
}

func (l *lister) list(ctx context.Context) error {
	switch {
	case l.q.Due:
		return l.due(ctx)
	case len(l.q.States) > 0 && !slices.ContainsFunc(l.q.States, func(s retrysafe.State) bool { return classOf(s) == classKept }):
		return l.few(ctx)
	}
	return l.all(ctx)
}

// cursor returns what the last page ended with, as bytes that begin with prefix.
func (l *lister) cursor(prefix byte, lengths ...int) ([]byte, error) {
	if l.q.Cursor == "" {
		return nil, nil
	}
	b, err := hex.DecodeString(l.q.Cursor)
	if err != nil || !slices.Contains(lengths, len(b)) || b[0] != prefix || hex.EncodeToString(b) != l.q.Cursor {
		return nil, fmt.Errorf("%w: the cursor is not one of ours", retrysafe.ErrInvalid)
	}
	return b, nil
}

// all walks the entries by their IDs.
func (l *lister) all(ctx context.Context) error {
	after, err := l.cursor(entryPrefix, 1+len(retrysafe.ID{}))
	if err != nil {
		return err
	}
	return l.walk(ctx, []byte{entryPrefix}, []byte{entryPrefix + 1}, after, nil, func(it *pebble.Iterator) error {
		var id retrysafe.ID
		if len(it.Key()) != 1+len(id) {
			return errDamaged
		}
		copy(id[:], it.Key()[1:])
		b, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		return l.take(decode(id, b))
	})
}

// due walks the index, class by class, up to the time of the first page: what falls due meanwhile is for the next
// walk, or one that writes would never end. The cursor carries that time behind the index key.
func (l *lister) due(ctx context.Context) error {
	key := len(indexBound(0, 0)) + len(retrysafe.ID{})
	after, err := l.cursor(indexPrefix, key+8)
	if err != nil {
		return err
	}
	until := binary.BigEndian.AppendUint64(nil, uint64(l.page.Now.UnixMicro()))
	if after != nil {
		after, until = after[:key], after[key:]
	}
	for c := range classes {
		if !l.asks(c) || after != nil && after[1] > byte(c) {
			continue
		}
		if after != nil && after[1] < byte(c) {
			after = nil
		}
		err := l.walk(ctx, indexBound(c, 0), indexBound(c, binary.BigEndian.Uint64(until)+1), after, until, func(it *pebble.Iterator) error {
			id, ok := indexedID(it.Key())
			if !ok {
				return errDamaged
			}
			return l.takeOf(id)
		})
		if err != nil || l.page.Next != "" {
			return err
		}
	}
	return nil
}

// asks tells whether the query selects a state of that class.
func (l *lister) asks(c class) bool {
	return len(l.q.States) == 0 || slices.ContainsFunc(l.q.States, func(s retrysafe.State) bool { return classOf(s) == c })
}

// walk calls each for the keys of a range behind after, until the page is full. The cursor of the next is the last
// key, and what is to stand behind it.
func (l *lister) walk(ctx context.Context, from, to, after, behind []byte, each func(*pebble.Iterator) error) error {
	it, err := l.from.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer it.Close()
	valid := seek(it, after)
	for rows := 0; valid; valid = it.Next() {
		if len(l.page.Entries) >= l.q.Limit || l.bytes > pageBytes || rows >= pageRows {
			l.page.Next = hex.EncodeToString(append(l.last, behind...))
			return nil
		}
		if rows++; rows%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := each(it); err != nil {
			return err
		}
		l.last = append(l.last[:0], it.Key()...)
	}
	return l.store.unread(it.Error())
}

// seek goes behind after, or to the start. What stands before after is not looked at: a sweep deletes it.
func seek(it *pebble.Iterator, after []byte) (valid bool) {
	if after == nil {
		return it.First()
	}
	if valid = it.SeekGE(after); valid && bytes.Equal(it.Key(), after) {
		valid = it.Next()
	}
	return valid
}

// few lists the classes that few entries are in, by ID: an entry that moves within the index is listed once.
func (l *lister) few(ctx context.Context) error {
	after, err := l.cursor(entryPrefix, 1+len(retrysafe.ID{}))
	if err != nil {
		return err
	}
	var ids []retrysafe.ID
	for c := range classes {
		if !l.asks(c) {
			continue
		}
		if ids, err = l.idsOf(ctx, c, after, ids); err != nil {
			return err
		}
	}
	for i, id := range first(ids, pageRows+1) {
		if len(l.page.Entries) >= l.q.Limit || l.bytes > pageBytes || i >= pageRows {
			l.page.Next = hex.EncodeToString(entryKey(ids[i-1]))
			return nil
		}
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.takeOf(id); err != nil {
			return err
		}
	}
	return nil
}

// idsOf appends the IDs of a class that stand behind after.
func (l *lister) idsOf(ctx context.Context, c class, after []byte, ids []retrysafe.ID) ([]retrysafe.ID, error) {
	it, err := l.from.NewIter(&pebble.IterOptions{LowerBound: indexBound(c, 0), UpperBound: indexBound(c+1, 0)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	seen := 0
	for valid := it.First(); valid; valid = it.Next() {
		id, ok := indexedID(it.Key())
		if !ok {
			return nil, errDamaged
		}
		if after == nil || bytes.Compare(id[:], after[1:]) > 0 {
			ids = append(ids, id)
		}
		if len(ids) == 4*pageRows {
			ids = first(ids, pageRows+1) // more than a page needs: the rest is read again for the next
		}
		if seen++; seen%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return ids, l.store.unread(it.Error())
}

// first returns the n smallest of ids, in order.
func first(ids []retrysafe.ID, n int) []retrysafe.ID {
	slices.SortFunc(ids, func(a, b retrysafe.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids[:min(n, len(ids))]
}

// takeOf takes the entry that stands under an ID of the index.
func (l *lister) takeOf(id retrysafe.ID) error {
	r, err := l.store.read(l.from, id)
	if err == nil && r == nil {
		return fmt.Errorf("%w: an entry of the index does not stand", retrysafe.ErrUnreadable)
	}
	if err != nil {
		r = &row{Entry: retrysafe.Entry{ID: id}}
	}
	return l.take(*r, err)
}

// take puts a row on the page if the query selects it. One that cannot be read is listed with what is known of it.
func (l *lister) take(r row, err error) error {
	if err != nil && !errors.Is(err, retrysafe.ErrUnreadable) {
		return err
	}
	e := r.entry(l.store.boot)
	q := l.q
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, e.State):
	case q.Scope != "" && e.Scope != q.Scope, !strings.HasPrefix(e.Display, q.Prefix):
	case q.Due && !e.Orphan && l.page.Now.Sub(e.Stamp) < e.Due:
	default:
		l.page.Entries = append(l.page.Entries, e)
		l.bytes += len(e.Body)
	}
	return nil
}
