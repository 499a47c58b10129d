package memstore

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// An item is an entry as it is kept: one string, so that a key costs one object in which the garbage collector
// has nothing to look for. It shares no memory with who wrote it: a scope or a key may be cut from the whole
// head of an HTTP request, which would stay with it.
//
// The head comes first, then scope, display and body.
type item string

// none is what stands under an ID that is not known.
const none item = ""

// Where the fields of the head stand. Numbers are big-endian.
const (
	atRev         = 0
	atFingerprint = atRev + len(retrysafe.Rev{})
	atEpoch       = atFingerprint + len(retrysafe.Fingerprint{})
	atDue         = atEpoch + 8
	atTTL         = atDue + 8
	atStamp       = atTTL + 8   // in microseconds
	atScope       = atStamp + 8 // length
	atDisplay     = atScope + 8 // length
	atState       = atDisplay + 8
	headSize      = atState + 1
)

// itemLen is the length of e as an item.
func itemLen(e *retrysafe.Entry) int { return headSize + len(e.Scope) + len(e.Display) + len(e.Body) }

func itemOf(e *retrysafe.Entry) item {
	var head [headSize]byte
	copy(head[atRev:], e.Rev[:])
	copy(head[atFingerprint:], e.Fingerprint[:])
	head[atState] = byte(e.State)
	for _, field := range [...]struct {
		at int
		n  int64
	}{{atEpoch, e.Epoch}, {atDue, int64(e.Due)}, {atTTL, int64(e.TTL)}, {atStamp, e.Stamp.UnixMicro()}, {atScope, int64(len(e.Scope))}, {atDisplay, int64(len(e.Display))}} {
		binary.BigEndian.PutUint64(head[field.at:], uint64(field.n))
	}
	var b strings.Builder
	b.Grow(itemLen(e))
	b.Write(head[:])
	b.WriteString(e.Scope)
	b.WriteString(e.Display)
	b.Write(e.Body)
	return item(b.String())
}

// entry returns the item as it was given. Its Body is memory of its own.
func (it item) entry(id retrysafe.ID) retrysafe.Entry {
	e := retrysafe.Entry{ID: id, Rev: it.rev(), State: it.state(), Epoch: it.number(atEpoch), Scope: it.scope(), Display: it.display(), Due: it.due(), TTL: it.ttl(), Stamp: it.stamp()}
	copy(e.Fingerprint[:], it[atFingerprint:])
	e.Body = []byte(it[headSize+len(e.Scope)+len(e.Display):])
	return e
}

func (it item) number(at int) int64 { return int64(binary.BigEndian.Uint64([]byte(it[at : at+8]))) }

func (it item) rev() (r retrysafe.Rev) {
	copy(r[:], it[atRev:])
	return r
}

// is tells whether something stands, and was written by the write of that name.
func (it item) is(rev retrysafe.Rev) bool { return it != none && it.rev() == rev }

func (it item) state() retrysafe.State { return retrysafe.State(it[atState]) }
func (it item) due() time.Duration     { return time.Duration(it.number(atDue)) }
func (it item) ttl() time.Duration     { return time.Duration(it.number(atTTL)) }
func (it item) stamp() time.Time       { return time.UnixMicro(it.number(atStamp)) }
func (it item) scope() string          { return string(it[headSize : headSize+int(it.number(atScope))]) }

func (it item) display() string {
	begin := headSize + int(it.number(atScope))
	return string(it[begin : begin+int(it.number(atDisplay))])
}

// size estimates what an item of that length costs in memory.
func size(itemLen int) int64 {
	const fixed = 175 // its place in the map, and the slack of both
	return int64(fixed + itemLen)
}
