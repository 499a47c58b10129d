package retrysafe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
)

// A Fingerprint is a digest of what was asked for, by which a reused key is told from a retry. What callers
// pass is a plain digest; what a store keeps is sealed with a fingerprint key, since a plain hash of a short
// payload can be guessed.
type Fingerprint [32]byte

// FingerprintOf returns the digest of parts, each length-prefixed: ("ab","c") and ("a","bc") differ.
func FingerprintOf(parts ...[]byte) (fp Fingerprint) {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write(p)
	}
	h.Sum(fp[:0])
	return fp
}

// MinFingerprintKey is the least length of a fingerprint key, in bytes.
const MinFingerprintKey = 32

// A keyID names a fingerprint or answer key without telling it. It is derived from the key, so that a wrong key can
// never pass for the right one.
type keyID [8]byte

// A sealer seals fingerprints with the first of its keys and knows the others again.
type sealer struct{ keys []*sealKey }

type sealKey struct {
	id   keyID
	macs sync.Pool // of *mac
}

// A mac is an HMAC with room for its in- and output, pooled whole so that sealing does not allocate.
type mac struct {
	hash    hash.Hash
	in, out Fingerprint
}

func newSealKey(secret []byte) *sealKey {
	secret = bytes.Clone(secret)
	k := &sealKey{macs: sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, secret)} }}}
	id := k.seal(sha256.Sum256([]byte("retrysafe fingerprint key id")))
	copy(k.id[:], id[:])
	return k
}

// seal returns HMAC-SHA256(key, fp).
func (k *sealKey) seal(fp Fingerprint) Fingerprint {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.in = fp
	m.hash.Reset()
	m.hash.Write(m.in[:])
	m.hash.Sum(m.out[:0])
	return m.out
}

func (s *sealer) current() *sealKey { return s.keys[0] }

// same tells whether stored is the fingerprint of r, sealed with the key of that id.
func (s *sealer) same(stored Fingerprint, id keyID, r *ClaimRequest) (bool, error) {
	for i, k := range s.keys {
		if k.id != id {
			continue
		}
		sealed := r.sealed
		if i > 0 { // an older key
			sealed = k.seal(r.Fingerprint)
		}
		return hmac.Equal(sealed[:], stored[:]), nil
	}
	return false, fmt.Errorf("%w: its fingerprint was sealed with a key (%x) that is not configured", ErrUnreadable, id)
}

// keyringID is where the store's own fingerprint key and the ids of all keys ever used stand. It is no ID of
// any Key: those hash a length first, and no scope is that long.
var keyringID = ID(sha256.Sum256([]byte("retrysafe reserved: fingerprint keys")))

// openSealer reads the keyring of the store, or creates it. Without secrets it uses the random key that the
// store itself keeps, the same for every process on that store. With secrets, the first seals; it refuses a
// list that knows none of the keys the store was used with, since every known key would look like another
// operation's.
func openSealer(ctx context.Context, s Store, secrets [][]byte) (*sealer, error) {
	given, err := newSealer(secrets)
	if err != nil {
		return nil, err
	}
	for range 8 { // another process may write it between two of our calls
		sl, done, err := given.join(ctx, s)
		if done || err != nil {
			return sl, err
		}
	}
	return nil, fmt.Errorf("open fingerprint keys: %w: the keyring keeps changing", ErrStore)
}

func newSealer(secrets [][]byte) (*sealer, error) {
	s := &sealer{}
	for i, secret := range secrets {
		if len(secret) < MinFingerprintKey {
			return nil, fmt.Errorf("%w: fingerprint key %d has %d bytes: want at least %d random ones", ErrInvalid, i+1, len(secret), MinFingerprintKey)
		}
		s.keys = append(s.keys, newSealKey(secret))
	}
	return s, nil
}

// join makes s and the keyring of the store agree. done is false when the keyring changed meanwhile.
func (s *sealer) join(ctx context.Context, store Store) (_ *sealer, done bool, err error) {
	own := make([]byte, MinFingerprintKey)
	rand.Read(own)
	fresh := keyring{secret: own}
	if len(s.keys) > 0 {
		fresh.secret = nil
	}
	all, fresh := fresh.sealerWith(s)
	rep, err := again(ctx, func(ctx context.Context) (Reply, error) { return store.Create(ctx, fresh.entry()) })
	if err != nil {
		return nil, false, fmt.Errorf("open fingerprint keys: %w", errors.Join(ErrStore, err))
	}
	if rep.OK || !rep.Found {
		return all, rep.OK, nil
	}
	standing, err := keyringOf(rep.Entry)
	if err != nil {
		return nil, false, err
	}
	if !standing.knows(s) {
		return nil, false, fmt.Errorf("%w: the fingerprint keys are not those this store was used with: give the file that holds them", ErrInvalid)
	}
	all, next := standing.sealerWith(s)
	if len(next.ids) == len(standing.ids) {
		return all, true, nil
	}
	rep, err = again(ctx, func(ctx context.Context) (Reply, error) { return store.Swap(ctx, rep.Entry.Rev, next.entry()) })
	if err != nil {
		return nil, false, fmt.Errorf("open fingerprint keys: %w", errors.Join(ErrStore, err))
	}
	return all, rep.OK, nil
}

// A keyring is the reserved entry: the ids of all keys used on this store, and the store's own key, if any.
type keyring struct {
	secret []byte
	ids    []keyID
}

// knows tells whether s may open this store: it holds one of the keys that were given before, or none ever was.
func (k keyring) knows(s *sealer) bool {
	given := slices.Clone(k.ids)
	if k.secret != nil {
		own := newSealKey(k.secret).id
		given = slices.DeleteFunc(given, func(id keyID) bool { return id == own })
	}
	return len(given) == 0 || slices.ContainsFunc(s.keys, func(key *sealKey) bool { return slices.Contains(given, key.id) })
}

// sealerWith returns the sealer of s's keys followed by the store's own, and the keyring that knows them all.
func (k keyring) sealerWith(s *sealer) (*sealer, keyring) {
	all := &sealer{keys: slices.Clone(s.keys)}
	if k.secret != nil {
		all.keys = append(all.keys, newSealKey(k.secret))
	}
	next := keyring{secret: k.secret, ids: slices.Clone(k.ids)}
	for _, key := range all.keys {
		if !slices.Contains(next.ids, key.id) {
			next.ids = append(next.ids, key.id)
		}
	}
	return all, next
}

func (k keyring) entry() Entry {
	b := append([]byte{byte(len(k.secret))}, k.secret...)
	for _, id := range k.ids {
		b = append(b, id[:]...)
	}
	e := Entry{ID: keyringID, Rev: NewRev(), State: Reserved}
	e.put(record{answer: b})
	return e
}

func keyringOf(e Entry) (k keyring, err error) {
	r, err := e.record()
	if err != nil {
		return k, err
	}
	b := r.answer
	if len(b) == 0 || len(b) < 1+int(b[0]) || (len(b)-1-int(b[0]))%len(keyID{}) != 0 {
		return k, fmt.Errorf("%w: keyring is malformed", ErrUnreadable)
	}
	if n := int(b[0]); n > 0 {
		k.secret = bytes.Clone(b[1 : 1+n])
	}
	for id := range slices.Chunk(b[1+int(b[0]):], len(keyID{})) {
		k.ids = append(k.ids, keyID(id))
	}
	return k, nil
}
