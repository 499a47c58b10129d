package pebblestore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrysafe/retrysafe"
)

// The folder's keys. An entry stands under 'e' and its ID. Beside it stands one key of the index: 'd', the
// entry's class, the time when it is due, and its ID; so what is due is read in the order of time.
const (
	entryPrefix = 'e'
	indexPrefix = 'd'
)

// A class keeps apart, in the index, what is looked for apart.
type class byte

const (
	classInFlight class = iota // few: what is under way
	classHeld                  // few: what waits for a person
	classKept                  // many: what is remembered
	classReserved
	classes
)

func classOf(s retrysafe.State) class {
	switch s {
	case retrysafe.InFlight:
		return classInFlight
	case retrysafe.Unknown:
		return classHeld
	case retrysafe.Reserved:
		return classReserved
	}
	return classKept
}

// A boot names one opening of the folder.
type boot [8]byte

func newBoot() (b boot) {
	rand.Read(b[:])
	return b
}

// A row is an entry as it stands in the folder, and the boot that wrote it.
type row struct {
	retrysafe.Entry
	boot boot
}

// entry is the row as an Entry: what another boot left in flight has no owner any more.
func (r row) entry(now boot) retrysafe.Entry {
	e := r.Entry
	e.Orphan = e.State == retrysafe.InFlight && r.boot != now
	return e
}

// own is entry with a Body that is the caller's.
func (r row) own(now boot) retrysafe.Entry {
	e := r.entry(now)
	e.Body = bytes.Clone(e.Body)
	return e
}

func entryKey(id retrysafe.ID) []byte { return append([]byte{entryPrefix}, id[:]...) }

// indexKey is where the row stands in the index. An orphan is due at once.
func (r row) indexKey(now boot) []byte {
	due := uint64(r.Stamp.UnixMicro()) + uint64(max(r.Due.Microseconds(), 0))
	if r.entry(now).Orphan {
		due = 0
	}
	return append(indexBound(classOf(r.State), due), r.ID[:]...)
}

// indexBound is below every index key of that class that is due at or after due.
func indexBound(c class, due uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{indexPrefix, byte(c)}, due)
}

// indexedID is the ID at the end of an index key.
func indexedID(key []byte) (id retrysafe.ID, ok bool) {
	if len(key) != 2+8+len(id) {
		return id, false
	}
	copy(id[:], key[2+8:])
	return id, true
}

// rowVersion is the first byte of a row. An unknown one fails closed.
const rowVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the row as bytes: version, checksum over the ID and what follows, fields, body.
func (r row) encode() []byte {
	b := make([]byte, 5, 5+128+len(r.Scope)+len(r.Display)+len(r.Body))
	b[0] = rowVersion
	b = append(b, r.boot[:]...)
	b = append(b, r.Rev[:]...)
	b = append(b, byte(r.State))
	b = append(b, r.Fingerprint[:]...)
	for _, n := range [...]int64{r.Epoch, r.Due.Microseconds(), r.TTL.Microseconds(), r.Stamp.UnixMicro()} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range [...]string{r.Scope, r.Display} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = append(b, r.Body...)
	binary.BigEndian.PutUint32(b[1:], r.sum(b[5:]))
	return b
}

func (r row) sum(payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(r.ID[:], castagnoli), castagnoli, payload)
}

var errDamaged = fmt.Errorf("%w: the row is damaged", retrysafe.ErrUnreadable)

// decode reads what encode wrote under id. The row's memory is its own.
func decode(id retrysafe.ID, b []byte) (row, error) {
	r := row{Entry: retrysafe.Entry{ID: id}}
	if len(b) < 5 || b[0] != rowVersion {
		return r, fmt.Errorf("%w: the row is of an unknown version", retrysafe.ErrUnreadable)
	}
	if binary.BigEndian.Uint32(b[1:]) != r.sum(b[5:]) {
		return r, errDamaged
	}
	d := decoder{b: b[5:]}
	copy(r.boot[:], d.take(len(r.boot)))
	copy(r.Rev[:], d.take(len(r.Rev)))
	if state := d.take(1); state != nil {
		r.State = retrysafe.State(state[0])
	}
	copy(r.Fingerprint[:], d.take(len(r.Fingerprint)))
	r.Epoch = d.number()
	r.Due, r.TTL = d.duration(), d.duration()
	r.Stamp = time.UnixMicro(d.number())
	r.Scope, r.Display = d.text(), d.text()
	if d.bad {
		return row{Entry: retrysafe.Entry{ID: id}}, errDamaged // the rest is not to be believed
	}
	r.Body = bytes.Clone(d.b)
	return r, nil
}

// A decoder reads from the front; bad is set once and stays.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) number() int64 {
	v, n := binary.Varint(d.b)
	d.bad = d.bad || n <= 0
	d.take(max(n, 0))
	return v
}

func (d *decoder) duration() time.Duration {
	us := d.number()
	d.bad = d.bad || us > math.MaxInt64/1000 || us < math.MinInt64/1000
	return time.Duration(us) * time.Microsecond
}

func (d *decoder) text() string {
	v, n := binary.Uvarint(d.b)
	d.bad = d.bad || n <= 0 || v > uint64(len(d.b))
	if d.take(max(n, 0)); d.bad {
		return ""
	}
	return string(d.take(int(v)))
}

// lookup returns the row that stands under id. Its Body is not to be changed. The caller holds the lock of id.
func (s *Store) lookup(id retrysafe.ID) (r *row, err error) {
	if r := s.recent.get(id); r != nil {
		return r, nil
	}
	r, err = s.read(s.db, id)
	if r != nil {
		s.recent.put(r)
	}
	return r, err
}

// read returns the row that stands under id, nil if none does. An iterator can ask the filters of all tables, which
// Get cannot: nearly every key that is claimed is in none of them.
func (s *Store) read(from pebble.Reader, id retrysafe.ID) (_ *row, err error) {
	it, err := from.NewIter(&pebble.IterOptions{UseL6Filters: true, KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return nil, s.unread(err)
	}
	defer func() { err = errors.Join(err, s.unread(it.Close())) }()
	var room [1 + len(id)]byte
	room[0] = entryPrefix
	copy(room[1:], id[:])
	if !it.SeekPrefixGE(room[:]) { // the prefix of a key is the whole key: it is this one or none
		return nil, nil
	}
	b, err := it.ValueAndErr()
	if err != nil {
		return nil, s.unread(err)
	}
	r, err := decode(id, b)
	if err != nil {
		return nil, err
	}
	return &r, nil
}
