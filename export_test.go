package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// This file opens the core to the tests of package retrysafe_test, which stand outside because they need a store.

// Verbs returns the state machine under e, for tests that play a claim's owner themselves.
func (e *Executor) Verbs(ctx context.Context) (*Claims, error) { return e.open(ctx) }

// TakeBack undoes the claim that err, an error of Claim, leaves open.
func (c *Claims) TakeBack(ctx context.Context, err error) (certain bool, _ error) {
	var lost *lostClaim
	if !errors.As(err, &lost) {
		return true, err
	}
	return c.takeBack(ctx, lost)
}

// CountReplay counts a replay as Execute does.
func (e *Executor) CountReplay(id ID) { e.replays.add(id) }

// FlushReplays writes the counts as Run does.
func (e *Executor) FlushReplays(ctx context.Context) { e.flushReplays(ctx) }

// Watched is how many entries somebody waits for.
func (e *Executor) Watched() int {
	e.waiters.mu.Lock()
	defer e.waiters.mu.Unlock()
	return len(e.waiters.watched)
}

// KeyringID is the reserved entry's.
var KeyringID = keyringID

// Sound returns e with a record that can be read.
func Sound(e Entry) Entry {
	e.put(record{})
	return e
}

// Checksum is that of records and answers.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// NonceIn is the owner's in e, zero where e cannot be read.
func NonceIn(e Entry) Rev {
	rec, _ := e.record()
	return rec.nonce
}

// WithNonce returns e as another owner's.
func WithNonce(e Entry, nonce Rev) Entry {
	rec, _ := e.record()
	rec.nonce = nonce
	e.put(rec)
	return e
}

// WithAnswerOf returns e with the answer of another entry, sealed or not, as it is kept there.
func WithAnswerOf(e, other Entry) Entry {
	rec, _ := e.record()
	from, _ := other.record()
	rec.answer, rec.sealed = from.answer, from.sealed
	e.put(rec)
	return e
}

// Resettled returns e with the record of what it was, under a checksum that is right.
func Resettled(e, was Entry) Entry {
	rec, _ := was.record()
	e.put(rec)
	return e
}

// AnswerKeyID names an answer key as errors do.
func AnswerKeyID(secret []byte) string {
	k, _ := newAnswerKey(secret)
	return fmt.Sprintf("%x", k.id)
}

// Sealed tells whether the answer in e is.
func Sealed(e Entry) bool {
	rec, _ := e.record()
	return rec.sealed
}

// WithPolicy returns e as claimed under another policy.
func WithPolicy(e Entry, p Policy) Entry {
	rec, _ := e.record()
	rec.policy = p
	e.put(rec)
	return e
}

// Unheard returns e without the time at which its operation was heard of last.
func Unheard(e Entry) Entry {
	rec, _ := e.record()
	rec.heard = 0
	e.put(rec)
	return e
}

// HeardIn is when the owner before was heard of last, as a claim that recovers says.
func HeardIn(c *Claim) time.Time { return c.heard }
