package history

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Recorder gathers a history from many goroutines. Calls go to one of many lists at random, so
// that recording does not line up the callers which a test wants to collide.
type Recorder struct {
	base   time.Time
	shards [64]shard

	mu    sync.Mutex // guards trail: one list, for its order is the order of the writes
	trail []Transition
}

// A shard keeps its calls in blocks that never move: recording a call never copies those before it.
type shard struct {
	mu      sync.Mutex
	full    [][]Call
	calls   []Call // the block being filled
	effects []Effect
	_       [64]byte // keeps neighbours off one cache line
}

// Pending is a call that has begun.
type Pending struct {
	shard *shard
	call  *Call // guarded by the shard's lock
}

// NewRecorder returns a Recorder whose clock starts now.
func NewRecorder() *Recorder { return &Recorder{base: time.Now()} }

// Begin notes that a call starts now. Until End it stands in the history as Failed: a caller that
// is killed has left what is true of it.
func (r *Recorder) Begin(key string, fingerprint uint64) Pending {
	s := &r.shards[rand.Uint32()%uint32(len(r.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == cap(s.calls) {
		s.full, s.calls = append(s.full, s.calls), make([]Call, 0, 256)
	}
	s.calls = append(s.calls, Call{Key: key, Fingerprint: fingerprint, Start: r.now()})
	return Pending{s, &s.calls[len(s.calls)-1]}
}

// End notes that the call returned with what c says. Key, Fingerprint, Start and End of c are not read.
func (r *Recorder) End(p Pending, c Call) {
	c.End = r.now() // before the lock: waiting for it is not part of the call
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	c.Key, c.Fingerprint, c.Start = p.call.Key, p.call.Fingerprint, p.call.Start
	*p.call = c
}

// Effect notes that the operation under key takes effect now. The operation itself calls it.
func (r *Recorder) Effect(key string, epoch int64) {
	at := r.now()
	s := &r.shards[rand.Uint32()%uint32(len(r.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects = append(s.effects, Effect{key, epoch, at})
}

// Wrote notes a write of the layer. Two writes under one key must be noted in the order in which they
// took place: call it inside the store's own lock or transaction order.
func (r *Recorder) Wrote(t Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trail = append(r.trail, t)
}

// History returns what was recorded so far, calls in the order of their start.
func (r *Recorder) History(rules Rules) History {
	h := History{Rules: rules}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		h.Calls = append(h.Calls, slices.Concat(s.full...)...)
		h.Calls = append(h.Calls, s.calls...)
		h.Effects = append(h.Effects, s.effects...)
		s.mu.Unlock()
	}
	r.mu.Lock()
	h.Trail = slices.Clone(r.trail)
	r.mu.Unlock()
	slices.SortStableFunc(h.Calls, func(a, b Call) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(h.Effects, func(a, b Effect) int { return cmp.Compare(a.At, b.At) })
	return h
}

func (r *Recorder) now() int64 { return int64(time.Since(r.base)) }
