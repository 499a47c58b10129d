package retrysafe

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"
)

// A Rev names one write: 16 random bytes of the writer, by which it recognises its own write again.
type Rev [16]byte

// NewRev returns a Rev that no other writer has.
func NewRev() (r Rev) {
	rand.Read(r[:]) // never fails (crypto/rand)
	return r
}

// A State is what an entry says of its operation. transition.go is the only place that decides one.
type State uint8

// The states. Absent is never stored.
const (
	Absent          State = iota
	Free                  // claimable; remembered for its epoch and its history
	InFlight              // claimed
	Completed             // done; the answer is kept, or marked not kept
	Unknown               // may have happened; no answer; held, never swept
	UnknownAnswered       // answered with a failure after which nobody knows; replayed like Completed
	Tombstone             // done; the answer is gone, the key is remembered
	Reserved              // belongs to the core itself; no operation
)

var stateNames = [...]string{"absent", "free", "in_flight", "completed", "unknown", "unknown_answered", "expired", "reserved"}

// String returns the state's name as operators see it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState reads what State.String wrote, for the states that operators may ask for.
func ParseState(name string) (State, error) {
	for s := Free; s <= Tombstone; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: state %q: want one of %q", ErrInvalid, displayed(name), stateNames[Free:Reserved])
}

// An Entry is what a Store keeps under an ID. The store reads ID and Rev, indexes State, Scope, Display and
// Due, may drop nothing by itself, and sets Stamp. Body is the core's own.
type Entry struct {
	ID          ID
	Rev         Rev
	State       State
	Epoch       int64 // fencing number; 0 stands for Stamp in microseconds, until the next write
	Fingerprint Fingerprint
	Scope       string
	Display     string
	Due         time.Duration // after Stamp: look again (end of lease, retention or memory)
	TTL         time.Duration // after Stamp: memory ends; 0 is never
	Body        []byte
	Stamp       time.Time // of this write, on the store's clock

	// Orphan says, of an entry in flight that was read, that its owner is gone for certain: the store lives in
	// one process, and another one wrote the entry. Its lease is over, whatever is left of it. It is not kept.
	Orphan bool
}

// epoch returns the fencing number: a fresh claim's is its stamp, so that it needs no second store call.
func (e Entry) epoch() int64 {
	if e.Epoch == 0 {
		return e.Stamp.UnixMicro()
	}
	return e.Epoch
}

// Check tells whether the entry can be read: its version, its checksum over the body and over every field that a
// decision hangs on. A sealed answer is not opened. The error is [ErrUnreadable].
func (e *Entry) Check() error {
	_, err := e.record()
	return err
}

// A Decision is one deed of an operator, kept in the entry's history.
type Decision struct {
	At      time.Time // on the store's clock
	By, Why string
	Did     string // "completed", "released" or "forgot"
	From    State
}

// A record is what the core keeps in an entry's Body.
type record struct {
	policy   Policy
	keyID    keyID // of the key that sealed the fingerprint
	nonce    Rev   // the owner's; a new one fences it
	started  int64 // of the claim, store's clock in microseconds; 0 stands for the entry's stamp
	heard    int64 // of the operation, last: a sign of its owner's life, or how it ended; 0 stands for the entry's stamp
	attempts uint64
	replays  uint64
	reason   string
	acted    bool // under a two-step policy: the operation may have acted, here or under a claim that this one took over
	notKept  bool
	sealed   bool   // answer is as answerKeys.seal left it
	answer   []byte // nil: none
	history  []Decision
}

// heardIn is when the operation of e was heard of last. Whoever writes e anew without being its owner carries it along.
func (r *record) heardIn(e *Entry) int64 {
	if r.heard == 0 {
		return e.Stamp.UnixMicro()
	}
	return r.heard
}

// recordVersion is the first byte of a Body. An unknown one is never taken for absent: it fails closed. So does an
// unknown flag: a release that does not know two-step policies answers such a key with ErrUnreadable, and neither
// runs, sweeps nor resolves it.
const recordVersion = 1

const (
	flagAnswer = 1 << iota
	flagNotKept
	flagSealed
	flagTwoStep
	flagActed  // only with flagTwoStep
	flagsKnown = 1<<iota - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put encodes r into e.Body: version, checksum over the entry and the payload, payload.
func (e *Entry) put(r record) {
	b := make([]byte, 5, 96+len(r.reason)+len(r.answer))
	b[0] = recordVersion
	b = r.append(b)
	binary.BigEndian.PutUint32(b[1:], e.sum(b[5:]))
	e.Body = b
}

// record decodes e.Body. Its slices share the Body's memory.
func (e *Entry) record() (record, error) {
	b := e.Body
	if len(b) < 5 || b[0] != recordVersion {
		return record{}, fmt.Errorf("%w: entry %.12s is of an unknown version", ErrUnreadable, e.ID)
	}
	if binary.BigEndian.Uint32(b[1:]) != e.sum(b[5:]) {
		return record{}, fmt.Errorf("%w: entry %.12s has a bad checksum", ErrUnreadable, e.ID)
	}
	d := decoder{b: b[5:]}
	r := d.record()
	if d.bad || r.policy.OnLeaseEnd > Recover || e.State == Absent || e.State > Reserved {
		return record{}, fmt.Errorf("%w: entry %.12s has a malformed body", ErrUnreadable, e.ID)
	}
	return r, nil
}

// sums are buffers for what the checksum covers beside the payload.
var sums = sync.Pool{New: func() any { return new([160]byte) }}

// sum is the checksum of the payload and of every field that a decision hangs on, so that a damaged field
// is never believed.
func (e *Entry) sum(payload []byte) uint32 {
	room := sums.Get().(*[160]byte)
	defer sums.Put(room)
	b := append(room[:0], e.ID[:]...)
	b = append(b, byte(e.State))
	b = binary.AppendVarint(b, e.Epoch)
	b = append(b, e.Fingerprint[:]...)
	b = binary.AppendVarint(b, e.Due.Microseconds())
	b = binary.AppendVarint(b, e.TTL.Microseconds())
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, payload)
}

func (r record) append(b []byte) []byte {
	var flags byte
	if r.answer != nil {
		flags |= flagAnswer
	}
	if r.notKept {
		flags |= flagNotKept
	}
	if r.sealed && r.answer != nil {
		flags |= flagSealed
	}
	if r.policy.TwoStep {
		flags |= flagTwoStep
	}
	if r.policy.TwoStep && r.acted {
		flags |= flagActed
	}
	b = append(b, flags, byte(r.policy.OnLeaseEnd))
	for _, d := range [...]time.Duration{r.policy.Lease, r.policy.Retention, r.policy.Remember} {
		b = binary.AppendVarint(b, d.Microseconds())
	}
	b = append(b, r.keyID[:]...)
	b = append(b, r.nonce[:]...)
	b = binary.AppendVarint(b, r.started)
	b = binary.AppendVarint(b, r.heard)
	b = binary.AppendUvarint(b, r.attempts)
	b = binary.AppendUvarint(b, r.replays)
	b = appendText(b, r.reason)
	b = binary.AppendUvarint(b, uint64(len(r.history)))
	for _, a := range r.history {
		b = binary.AppendVarint(b, a.At.UnixMicro())
		b = appendText(appendText(appendText(b, a.By), a.Why), a.Did)
		b = append(b, byte(a.From))
	}
	return append(b, r.answer...) // last, so that it needs no length
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A decoder reads a payload from the front; bad is set once and stays.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) record() (r record) {
	flags, policy := d.byte(), d.byte()
	d.bad = d.bad || flags&^flagsKnown != 0 || flags&(flagAnswer|flagSealed) == flagSealed || flags&(flagTwoStep|flagActed) == flagActed
	r.notKept, r.sealed, r.acted = flags&flagNotKept != 0, flags&flagSealed != 0, flags&flagActed != 0
	r.policy = Policy{OnLeaseEnd: LeaseEnd(policy), TwoStep: flags&flagTwoStep != 0, Lease: d.duration(), Retention: d.duration(), Remember: d.duration()}
	copy(r.keyID[:], d.take(uint64(len(r.keyID))))
	copy(r.nonce[:], d.take(uint64(len(r.nonce))))
	r.started, r.heard = d.varint(), d.varint()
	r.attempts, r.replays = d.uvarint(), d.uvarint()
	r.reason = d.text()
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		r.history = append(r.history, Decision{At: time.UnixMicro(d.varint()), By: d.text(), Why: d.text(), Did: d.text(), From: State(d.byte())})
	}
	if flags&flagAnswer != 0 {
		r.answer, d.b = d.b[:len(d.b):len(d.b)], nil
	}
	d.bad = d.bad || len(d.b) > 0
	return r
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.number(n)
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.number(n)
	return v
}

// number takes the n bytes of a varint. One that is longer than it need be is not ours.
func (d *decoder) number(n int) {
	d.bad = d.bad || n <= 0 || n > 1 && d.b[n-1] == 0
	d.take(uint64(max(n, 0)))
}

func (d *decoder) duration() time.Duration {
	us := d.varint()
	d.bad = d.bad || us > math.MaxInt64/1000 || us < math.MinInt64/1000
	return time.Duration(us) * time.Microsecond
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }
