package retrysafe

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// This file seals answers before they enter a record, and opens them when they leave one. A Store that did so could
// not know what an answer is bound to, and one in front of it would write it in clear.

// AnswerKey is the length of an answer key, in bytes.
const AnswerKey = 32

// answerKeys seal answers with the first and open them with whichever sealed them. None: answers are kept in clear.
type answerKeys []answerKey

type answerKey struct {
	id   keyID
	aead cipher.AEAD // puts a random nonce of 96 bits in front
}

// newAnswerKeys refuses a list without a key, which somebody meant to hold one, and a key that is used for
// fingerprints too: who is trusted with the one need not be with the other.
func newAnswerKeys(secrets, fingerprintKeys [][]byte) (keys answerKeys, err error) {
	if secrets != nil && len(secrets) == 0 {
		return nil, fmt.Errorf("%w: option AnswerKeys is empty: want a key, or nil to keep answers in clear", ErrInvalid)
	}
	for i, secret := range secrets {
		if len(secret) != AnswerKey {
			return nil, fmt.Errorf("%w: answer key %d has %d bytes: want %d random ones", ErrInvalid, i+1, len(secret), AnswerKey)
		}
		if slices.ContainsFunc(fingerprintKeys, func(k []byte) bool { return bytes.Equal(k, secret) }) {
			return nil, fmt.Errorf("%w: answer key %d is a fingerprint key too: want another", ErrInvalid, i+1)
		}
		key, err := newAnswerKey(secret)
		if err != nil {
			return nil, fmt.Errorf("answer key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func newAnswerKey(secret []byte) (k answerKey, err error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return k, err
	}
	if k.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil { // NIST SP 800-38D, 8.2.2
		return k, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("retrysafe answer key id"))
	copy(k.id[:], mac.Sum(nil))
	return k, nil
}

// seal seals the answer that r is to keep in e. The ID, epoch and state of e are those it is written with.
func (k answerKeys) seal(e *Entry, r *record) {
	r.sealed = false
	if len(k) == 0 || r.answer == nil {
		return
	}
	first := k[0]
	b := make([]byte, 0, len(first.id)+len(r.answer)+first.aead.Overhead())
	b = append(b, first.id[:]...)
	r.answer, r.sealed = first.aead.Seal(b, nil, r.answer, e.bound()), true
}

// open puts the answer that r keeps in e in clear again. It writes to memory of its own: several may read one
// entry. The error is [ErrUnreadable], since the operation was done: what cannot be opened is never absent.
func (k answerKeys) open(e *Entry, r *record) error {
	if !r.sealed {
		return nil
	}
	if len(r.answer) < len(keyID{}) {
		return fmt.Errorf("%w: the sealed answer of entry %.12s is cut off", ErrUnreadable, e.ID)
	}
	id, box := keyID(r.answer[:len(keyID{})]), r.answer[len(keyID{}):]
	i := slices.IndexFunc(k, func(key answerKey) bool { return key.id == id })
	if i < 0 {
		return fmt.Errorf("%w: the answer of entry %.12s was sealed with answer key %x, which is not configured", ErrUnreadable, e.ID, id)
	}
	answer, err := k[i].aead.Open(make([]byte, 0, len(box)), nil, box, e.bound()) // empty stays apart from nil
	if err != nil {
		return fmt.Errorf("%w: the answer of entry %.12s does not open with answer key %x: it was changed, or is not this entry's", ErrUnreadable, e.ID, id)
	}
	r.answer, r.sealed = answer, false
	return nil
}

// bound is what a sealed answer is bound to. Nothing that keeps an answer changes any of it: an epoch that is still
// left to the stamp belongs to a claim, which has none.
func (e *Entry) bound() []byte {
	b := append(make([]byte, 0, len(e.ID)+8+1), e.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.epoch()))
	return append(b, byte(e.State))
}
