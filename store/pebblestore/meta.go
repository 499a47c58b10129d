package pebblestore

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrysafe/retrysafe"
)

// The keys of what the folder says of itself. They sort before all others' prefixes.
var (
	metaKey  = []byte("!meta")
	clockKey = []byte("!clock")
)

// schema is the version of the folder's layout.
const schema = 1

// A meta is what the folder says of itself.
type meta struct {
	Schema     int       `json:"schema"`
	Generation string    `json:"generation"`
	Restored   bool      `json:"restored,omitempty"`   // it is a backup that was not opened since
	RestoredOf time.Time `json:"restored_of,omitzero"` // when that backup was made
}

func readMeta(db *pebble.DB) (m meta, fresh bool, err error) {
	b, closer, err := db.Get(metaKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return meta{Schema: schema}, true, nil
	}
	if err != nil {
		return m, false, err
	}
	defer closer.Close()
	if err := json.Unmarshal(b, &m); err != nil || m.Schema < 1 {
		return m, false, fmt.Errorf("%w: what the folder says of itself is damaged", retrysafe.ErrUnreadable)
	}
	if m.Schema > schema {
		return m, false, fmt.Errorf("%w: its schema is %d, this one knows up to %d: use the version that wrote it", ErrNewer, m.Schema, schema)
	}
	return m, false, nil
}

// ifNewer is err, of an opening, and ErrNewer if the folder's files are of a format that this version does not know.
// Pebble keeps its number at the end of a file's name.
func ifNewer(disk vfs.FS, dir string, err error) error {
	names, _ := disk.List(dir)
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "marker.format-version."); ok {
			_, number, _ := strings.Cut(rest, ".")
			if n, _ := strconv.Atoi(number); n > int(pebble.FormatNewest) {
				return fmt.Errorf("%w: use the version that wrote it: %w", ErrNewer, err)
			}
		}
	}
	return err
}

// mustBeEmpty refuses to make a store of a database that is somebody else's.
func mustBeEmpty(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	found := it.First()
	if err := it.Close(); err != nil || !found {
		return err
	}
	return fmt.Errorf("%w: what is in it are no keys: choose another folder", retrysafe.ErrInvalid)
}

// generate starts a new history of entries, and says so if it goes on from a backup.
func (s *Store) generate() error {
	if s.meta.Restored {
		s.log.Warn("the store was restored from a backup: keys that were claimed since are not known to it, and a retry of theirs would run again",
			"backup_of", s.meta.RestoredOf, "was_generation", s.meta.Generation)
	}
	s.meta.Generation, s.meta.Restored = rand.Text(), false
	return s.meta.write(s.db)
}

func (m meta) write(db *pebble.DB) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return db.Set(metaKey, b, pebble.Sync)
}

// orphan moves what other boots left in flight to the front of the index, where what is due stands.
func (s *Store) orphan() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: indexBound(classInFlight, 1), UpperBound: indexBound(classInFlight+1, 0)})
	if err != nil {
		return err
	}
	defer it.Close()
	b := s.db.NewBatch()
	defer func() { b.Close() }()
	n := 0
	for valid := it.First(); valid; valid = it.Next() {
		id, ok := indexedID(it.Key())
		if !ok { // Verify names it
			continue
		}
		b.Delete(it.Key(), nil)
		b.Set(append(indexBound(classInFlight, 0), id[:]...), nil, nil)
		if n++; b.Len() > groupBytes {
			if err := b.Commit(pebble.NoSync); err != nil {
				return err
			}
			b.Close()
			b = s.db.NewBatch()
		}
	}
	if n > 0 {
		s.log.Warn("operations were in flight when the store was last used: nobody is on them any more", "count", n)
	}
	return errors.Join(it.Error(), b.Commit(s.sync))
}
