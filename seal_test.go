package retrysafe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Sealed answers, byte by byte: what goes in comes out, in its own entry, and nothing else does.

// answerSecret returns an answer key.
func answerSecret(seed byte) []byte { return bytes.Repeat([]byte{seed}, AnswerKey) }

// ringOf returns the keys of a process.
func ringOf(t testing.TB, seeds ...byte) answerKeys {
	t.Helper()
	var secrets [][]byte
	for _, seed := range seeds {
		secrets = append(secrets, answerSecret(seed))
	}
	keys, err := newAnswerKeys(secrets, nil)
	if err != nil {
		t.Fatalf("newAnswerKeys: %v", err)
	}
	return keys
}

// sealedEntry is an entry that keeps answer sealed by keys.
func sealedEntry(keys answerKeys, answer []byte) Entry {
	e := Entry{ID: ID{1}, State: Completed, Epoch: 1 << 50, Due: time.Hour, TTL: 2 * time.Hour}
	rec := record{policy: Policy{Lease: time.Minute, Retention: time.Hour}, answer: answer}
	keys.seal(&e, &rec)
	e.put(rec)
	return e
}

// answerIn is the answer that e keeps, as who has these keys reads it.
func answerIn(e Entry, keys answerKeys) ([]byte, error) {
	rec, err := e.record()
	if err != nil {
		return nil, err
	}
	return rec.answer, keys.open(&e, &rec)
}

func TestSealedAnswerComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 80), rapid.IntRange(0, 1<<16)).Draw(t, "size")
		answer := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size)
		kept := bytes.Clone(answer)
		seeds := rapid.Permutation([]byte{1, 2, 3}).Draw(t, "keys")
		var keys answerKeys
		for _, seed := range seeds {
			k, err := newAnswerKey(answerSecret(seed))
			if err != nil {
				t.Fatalf("newAnswerKey: %v", err)
			}
			keys = append(keys, k)
		}
		e := sealedEntry(keys[rapid.IntRange(0, 2).Draw(t, "sealed with"):], answer)
		body := bytes.Clone(e.Body)
		for range 2 {
			got, err := answerIn(e, keys)
			if err != nil || got == nil || !bytes.Equal(got, kept) {
				t.Fatalf("an answer of %d bytes came back as %d, nil %v, %v", size, len(got), got == nil, err)
			}
			clear(got) // it is the caller's
		}
		if !bytes.Equal(e.Body, body) || !bytes.Equal(answer, kept) {
			t.Fatal("what was sealed, or what it was opened from, was written to")
		}
	})
}

// TestWhatIsSealed: an answer that is there, with keys. Whether there is one is no secret, and its length is not hidden.
func TestWhatIsSealed(t *testing.T) {
	tests := []struct {
		name   string
		keys   answerKeys
		answer []byte
		sealed bool
	}{
		{"answer", ringOf(t, 1), []byte("paid"), true},
		{"empty answer", ringOf(t, 1), []byte{}, true},
		{"no answer", ringOf(t, 1), nil, false},
		{"answer, no keys", nil, []byte("paid"), false},
	}
	for _, tt := range tests {
		e := sealedEntry(tt.keys, tt.answer)
		rec, err := e.record()
		if err != nil || rec.sealed != tt.sealed || (rec.answer == nil) != (tt.answer == nil) {
			t.Errorf("%s: sealed %v, %q, %v, want sealed %v", tt.name, rec.sealed, rec.answer, err, tt.sealed)
		}
		if want := len(tt.answer) + len(keyID{}) + 12 + 16; tt.sealed && len(rec.answer) != want {
			t.Errorf("%s: takes %d bytes, want %d: key id, nonce, answer, tag", tt.name, len(rec.answer), want)
		}
		if tt.sealed && bytes.Equal(e.Body, sealedEntry(tt.keys, tt.answer).Body) {
			t.Errorf("%s: sealed twice alike, which tells who repeats himself", tt.name)
		}
	}
}

// TestSealBindsItsEntry: put into another entry, or into a later life of its own, an answer does not open, though the
// checksum is right.
func TestSealBindsItsEntry(t *testing.T) {
	keys := ringOf(t, 1)
	tests := []struct {
		name   string
		change func(e *Entry)
		opens  bool
	}{
		{"id", func(e *Entry) { e.ID[31]++ }, false},
		{"epoch", func(e *Entry) { e.Epoch++ }, false},
		{"epoch left to the stamp", func(e *Entry) { e.Epoch = 0 }, false},
		{"state", func(e *Entry) { e.State = UnknownAnswered }, false},
		{"rev", func(e *Entry) { e.Rev[0]++ }, true},
		{"stamp", func(e *Entry) { e.Stamp = e.Stamp.Add(time.Hour) }, true},
		{"due and memory", func(e *Entry) { e.Due, e.TTL = time.Minute, time.Minute }, true},
		{"epoch written out", func(e *Entry) { e.Stamp, e.Epoch = time.UnixMicro(e.Epoch), 0 }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := sealedEntry(keys, []byte("paid"))
			rec, err := e.record()
			if err != nil {
				t.Fatalf("record: %v", err)
			}
			tt.change(&e)
			e.put(rec)
			answer, err := answerIn(e, keys)
			if tt.opens && (err != nil || string(answer) != "paid") || !tt.opens && !errors.Is(err, ErrUnreadable) {
				t.Errorf("%s changed: %q, %v, want it to open: %v", tt.name, answer, err, tt.opens)
			}
		})
	}
}

// TestSealFindsEveryChangedBit, and every cut, under a checksum that is right.
func TestSealFindsEveryChangedBit(t *testing.T) {
	keys := ringOf(t, 1, 2)
	sound := sealedEntry(keys, []byte("paid"))
	rec, err := sound.record()
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	refused := func(what string, answer []byte) {
		e, bad := sound, rec
		bad.answer = answer
		e.put(bad)
		if got, err := answerIn(e, keys); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %q, %v, want %v", what, got, err, ErrUnreadable)
		}
	}
	for i := range 8 * len(rec.answer) {
		answer := bytes.Clone(rec.answer)
		answer[i/8] ^= 1 << (i % 8)
		refused(fmt.Sprint("bit ", i), answer)
	}
	for n := range rec.answer {
		refused(fmt.Sprint("cut to ", n), rec.answer[:n])
	}
	refused("a byte more", append(bytes.Clone(rec.answer), 0))
}

// TestKeyThatIsNotConfigured is named, so that it can be looked for; the answer is not.
func TestKeyThatIsNotConfigured(t *testing.T) {
	sealing := ringOf(t, 1)
	e := sealedEntry(sealing, []byte("paid"))
	for name, keys := range map[string]answerKeys{"none": nil, "another": ringOf(t, 2), "others": ringOf(t, 2, 3)} {
		_, err := answerIn(e, keys)
		if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), fmt.Sprintf("%x, which is not configured", sealing[0].id)) {
			t.Errorf("%s: %v, want it to say which key is missing", name, err)
		}
	}
	if answer, err := answerIn(e, ringOf(t, 3, 2, 1)); err != nil || string(answer) != "paid" {
		t.Errorf("behind two others: %q, %v, want it opened", answer, err)
	}
}

// TestAnswerKeyIDs tell keys apart, and an answer key from a fingerprint key of the same bytes.
func TestAnswerKeyIDs(t *testing.T) {
	keys := ringOf(t, 1, 2)
	if keys[0].id == keys[1].id || keys[0].id == newSealKey(answerSecret(1)).id {
		t.Error("two keys have one id")
	}
	if got, want := hex.EncodeToString(keys[0].id[:]), "6693eecedf7512be"; got != want {
		t.Errorf("id of a key is %s, want %s: it is part of the format", got, want)
	}
}

func TestAnswerKeysAreRefused(t *testing.T) {
	tests := []struct {
		name         string
		answers      [][]byte
		fingerprints [][]byte
		want         string // "" is accepted
	}{
		{"none", nil, [][]byte{answerSecret(1)}, ""},
		{"two", [][]byte{answerSecret(1), answerSecret(2)}, [][]byte{answerSecret(3)}, ""},
		{"a list without one", [][]byte{}, nil, "AnswerKeys is empty"},
		{"no bytes", [][]byte{answerSecret(1), nil}, nil, "answer key 2 has 0 bytes: want 32"},
		{"a byte short", [][]byte{make([]byte, AnswerKey-1)}, nil, "answer key 1 has 31 bytes"},
		{"a byte long", [][]byte{make([]byte, AnswerKey+1)}, nil, "answer key 1 has 33 bytes"},
		{"of another AES", [][]byte{make([]byte, 16)}, nil, "answer key 1 has 16 bytes"},
		{"a fingerprint key", [][]byte{answerSecret(1), answerSecret(2)}, [][]byte{answerSecret(3), answerSecret(2)}, "answer key 2 is a fingerprint key too"},
	}
	for _, tt := range tests {
		_, err := newAnswerKeys(tt.answers, tt.fingerprints)
		if refused := errors.Is(err, ErrInvalid); refused != (tt.want != "") || refused && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// goldenSealed is the body of an entry that this version sealed with a key of ones. It stays readable.
const goldenSealed = "010bde583e0500809c9c3980909de91a000000000000000000000000000000000000000000000000000000000000006693eecedf7512be" +
	"be8e83d10868a88d274fe9ba4030312be068269600a5f351d2ee91553d463d0a9029a550aa7e5c"

func TestGoldenSealedEntry(t *testing.T) {
	body, err := hex.DecodeString(goldenSealed)
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{ID: ID{1}, State: Completed, Epoch: 1 << 50, Due: time.Hour, TTL: 2 * time.Hour, Body: body}
	if answer, err := answerIn(e, ringOf(t, 2, 1)); err != nil || string(answer) != "paid 10 EUR" {
		t.Errorf("the golden entry: %q, %v, want its answer", answer, err)
	}
}

// FuzzOpenAnswer: no bytes make open panic, and what opens was sealed here.
func FuzzOpenAnswer(f *testing.F) {
	keys := ringOf(f, 1, 2)
	for _, answer := range []string{"", "paid", strings.Repeat("x", 300)} {
		e := sealedEntry(keys, []byte(answer))
		rec, err := e.record()
		if err != nil {
			f.Fatalf("record: %v", err)
		}
		f.Add(rec.answer, e.Epoch)
		f.Add(rec.answer[:len(rec.answer)-1], e.Epoch)
		f.Add(rec.answer, e.Epoch+1)
	}
	f.Add([]byte{}, int64(0))
	f.Add(keys[0].id[:], int64(1))
	f.Fuzz(func(t *testing.T, kept []byte, epoch int64) {
		e := Entry{ID: ID{1}, State: Completed, Epoch: epoch, Stamp: time.UnixMicro(1)}
		rec := record{sealed: true, answer: append([]byte{}, kept...)}
		e.put(rec)
		got, err := answerIn(e, keys)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Errorf("open: %v, want %v", err, ErrUnreadable)
			}
			return
		}
		// Who finds bytes that open has either a seed above or the key.
		known := []string{"", "paid", "paid 10 EUR", strings.Repeat("x", 300)} // and in the golden entry
		if epoch != 1<<50 || !slices.Contains(known, string(got)) {
			t.Errorf("% x opens at epoch %d as %q", kept, epoch, got)
		}
	})
}
