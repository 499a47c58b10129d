package retrysafe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The codec of what the core keeps in an entry (rule 6): what it wrote comes back, and it believes nothing else.

// records is one of each kind, and the ends of every field.
func records() map[string]record {
	policy := Policy{OnLeaseEnd: Recover, Lease: 30 * time.Second, Retention: 24 * time.Hour, Remember: 720 * time.Hour}
	twoStep := policy
	twoStep.TwoStep = true
	longest := time.Duration(math.MaxInt64 / 1000 * 1000)
	return map[string]record{
		"empty":           {},
		"claim":           {policy: policy, nonce: Rev{1, 2, 3}, keyID: keyID{4, 5, 6}, attempts: 1},
		"answer":          {policy: policy, answer: []byte("paid"), started: 1, heard: 2, replays: 300},
		"empty answer":    {policy: policy, answer: []byte{}},
		"sealed answer":   {policy: policy, sealed: true, answer: []byte("key id, nonce, box, tag")},
		"two-step":        {policy: twoStep, nonce: Rev{1}, attempts: 1},
		"acted":           {policy: twoStep, acted: true, nonce: Rev{1}, attempts: 1},
		"acted, answer":   {policy: twoStep, acted: true, answer: []byte("paid")},
		"answer not kept": {policy: policy, notKept: true},
		"partly kept":     {policy: policy, notKept: true, answer: []byte("status 200")},
		"unknown":         {policy: policy, reason: "lease over"},
		"ends of fields": {policy: Policy{Lease: longest, Retention: longest, Remember: longest}, started: math.MinInt64, heard: math.MaxInt64,
			attempts: math.MaxUint64, replays: math.MaxUint64, reason: strings.Repeat("é", 1000), answer: bytes.Repeat([]byte{0xff}, 1<<14)},
		"history": {policy: policy, history: []Decision{
			{At: time.UnixMicro(1), By: "ann", Why: "asked the bank", Did: "released", From: Unknown},
			{At: time.UnixMicro(-1), By: "", Why: strings.Repeat("x", 300), Did: "forgot", From: 200},
		}},
	}
}

// entryOf returns an entry with a field of each kind and r in it.
func entryOf(r record) Entry {
	e := Entry{ID: ID{1}, Rev: Rev{2}, State: Completed, Epoch: 1 << 50, Fingerprint: Fingerprint{3}, Due: time.Hour, TTL: 2 * time.Hour}
	e.put(r)
	return e
}

func TestRecordComesBack(t *testing.T) {
	for name, r := range records() {
		e := entryOf(r)
		got, err := e.record()
		if err != nil {
			t.Errorf("%s: record: %v", name, err)
			continue
		}
		if diff := cmp.Diff(r, got, cmp.AllowUnexported(record{})); diff != "" {
			t.Errorf("%s: what came back differs (-want +got):\n%s", name, diff)
		}
		if (got.answer == nil) != (r.answer == nil) {
			t.Errorf("%s: nil and empty answers are confused", name)
		}
	}
}

// TestGoldenRecords: what was written once is read for ever, and written again byte for byte. The first is of the time
// before two-step policies.
func TestGoldenRecords(t *testing.T) {
	policy := Policy{OnLeaseEnd: Recover, Lease: 30 * time.Second, Retention: 24 * time.Hour, Remember: 720 * time.Hour}
	claim := record{policy: policy, keyID: keyID{4, 5}, nonce: Rev{6, 7}, started: 1 << 50, attempts: 2,
		history: []Decision{{At: time.UnixMicro(1), By: "ann", Why: "asked", Did: "released", From: Unknown}}}
	unmarked := record{policy: policy, keyID: keyID{4, 5}, nonce: Rev{6, 7}, started: 1 << 50, attempts: 1}
	unmarked.policy.TwoStep = true
	marked := unmarked
	marked.acted = true
	for body, want := range map[string]record{
		"01e88ae4c40002808ece1c8080bbdd83058080eaf3ef96010405000000000000060700000000000000000000000000008080808080808004" +
			"00020000010203616e6e0561736b65640872656c656173656404": claim,
		"010b36de440802808ece1c8080bbdd83058080eaf3ef96010405000000000000060700000000000000000000000000008080808080808004" +
			"0001000000": unmarked,
		"01c514c0bd1802808ece1c8080bbdd83058080eaf3ef96010405000000000000060700000000000000000000000000008080808080808004" +
			"0001000000": marked,
	} {
		e := Entry{ID: ID{1}, State: InFlight, Epoch: 1 << 50, Fingerprint: Fingerprint{3}, Due: 30 * time.Second}
		e.Body, _ = hex.DecodeString(body)
		got, err := e.record()
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); err != nil || diff != "" {
			t.Errorf("%s: %v, what is read differs (-want +got):\n%s", body, err, diff)
		}
		if e.put(want); hex.EncodeToString(e.Body) != body {
			t.Errorf("written as %x, want %s", e.Body, body)
		}
	}
}

// TestRecordRefusesEveryChangedBit of the body, and every cut of it.
func TestRecordRefusesEveryChangedBit(t *testing.T) {
	for _, name := range []string{"empty", "answer", "history", "two-step"} {
		sound := entryOf(records()[name])
		for i := range 8 * len(sound.Body) {
			e := sound
			e.Body = bytes.Clone(sound.Body)
			e.Body[i/8] ^= 1 << (i % 8)
			if _, err := e.record(); !errors.Is(err, ErrUnreadable) {
				t.Fatalf("%s: bit %d changed: %v, want %v", name, i, err, ErrUnreadable)
			}
		}
		for n := range sound.Body {
			e := sound
			e.Body = sound.Body[:n]
			if _, err := e.record(); !errors.Is(err, ErrUnreadable) {
				t.Fatalf("%s: cut to %d bytes: %v, want %v", name, n, err, ErrUnreadable)
			}
		}
	}
}

// TestRecordBindsItsEntry: the fields that decisions hang on are under the checksum.
func TestRecordBindsItsEntry(t *testing.T) {
	tests := []struct {
		name   string
		change func(e *Entry)
		sound  bool
	}{
		{"id", func(e *Entry) { e.ID[31]++ }, false},
		{"state", func(e *Entry) { e.State = Unknown }, false},
		{"epoch", func(e *Entry) { e.Epoch++ }, false},
		{"epoch negated", func(e *Entry) { e.Epoch = -e.Epoch }, false},
		{"fingerprint", func(e *Entry) { e.Fingerprint[31]++ }, false},
		{"due", func(e *Entry) { e.Due += time.Microsecond }, false},
		{"memory", func(e *Entry) { e.TTL -= time.Microsecond }, false},
		{"due and memory exchanged", func(e *Entry) { e.Due, e.TTL = e.TTL, e.Due }, false},
		{"stamp, which the store sets", func(e *Entry) { e.Stamp = time.UnixMicro(5) }, true},
		{"rev, which names the write", func(e *Entry) { e.Rev[0]++ }, true},
		{"what a store keeps in whole microseconds", func(e *Entry) { e.Due += 999 * time.Nanosecond }, true},
	}
	for _, tt := range tests {
		e := entryOf(records()["answer"])
		tt.change(&e)
		if _, err := e.record(); (err == nil) != tt.sound {
			t.Errorf("%s changed: %v, want it accepted: %v", tt.name, err, tt.sound)
		}
	}
}

// TestRecordRefusesStatesOfNothing under a checksum that is right.
func TestRecordRefusesStatesOfNothing(t *testing.T) {
	for s := range 256 {
		e := Entry{State: State(s)}
		e.put(record{})
		if _, err := e.record(); (err == nil) != (State(s) >= Free && State(s) <= Reserved) {
			t.Errorf("state %d: %v", s, err)
		}
	}
}

// TestRecordRefusesWhatItWouldNotWrite: a later release may give meaning to such bytes. Read and written back by this
// one they would be lost, so it fails closed (rule 6), though the checksum is right.
func TestRecordRefusesWhatItWouldNotWrite(t *testing.T) {
	payload := func(r record) []byte { return r.append(nil) }
	plain := payload(record{})
	replace := func(at int, with ...byte) []byte {
		return append(append(bytes.Clone(plain[:at]), with...), plain[at+1:]...)
	}
	tests := map[string][]byte{
		"an unknown flag":                  replace(0, 1<<5),
		"a mark without two-step":          replace(0, flagActed),
		"a seal without an answer":         replace(0, flagSealed),
		"the highest flag":                 replace(0, 1<<7),
		"an unknown end of the lease":      replace(1, byte(Recover)+1),
		"bytes behind the end":             append(bytes.Clone(plain), 1),
		"a number longer than it need be":  replace(2, 0x80, 0),
		"a time beyond what a lease holds": replace(2, binary.AppendVarint(nil, math.MaxInt64)...),
		"a history that is not there":      append(bytes.Clone(plain[:len(plain)-1]), 0xff, 0xff, 0xff, 0xff, 0x0f),
	}
	for name, body := range tests {
		e := framed(body)
		if r, err := e.record(); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %+v, %v, want %v", name, r, err, ErrUnreadable)
		}
	}
}

// framed is an entry whose body is payload under a right version and checksum.
func framed(payload []byte) Entry {
	e := Entry{ID: ID{1}, State: Completed}
	e.Body = append(binary.BigEndian.AppendUint32([]byte{recordVersion}, e.sum(payload)), payload...)
	return e
}

// FuzzRecord: no bytes make the decoder panic, and what it accepts it writes back byte for byte.
func FuzzRecord(f *testing.F) {
	for name, r := range records() {
		if name != "ends of fields" { // too long for a seed
			f.Add(r.append(nil), true)
		}
	}
	f.Add([]byte{}, false)
	f.Add([]byte{recordVersion, 0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, body []byte, frame bool) {
		e := Entry{ID: ID{1}, State: Completed, Body: body}
		if frame {
			e = framed(body)
		}
		r, err := e.record()
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Errorf("record: %v, want %v", err, ErrUnreadable)
			}
			return
		}
		again := e
		again.put(r)
		if !bytes.Equal(again.Body, e.Body) {
			t.Errorf("% x was accepted and is written back as % x", e.Body, again.Body)
		}
	})
}

// FuzzKeyring is the same for the reserved entry.
func FuzzKeyring(f *testing.F) {
	f.Add([]byte{0})
	f.Add(append(append([]byte{32}, make([]byte, 32)...), 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add([]byte{255, 1, 2, 3})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, ring []byte) {
		e := Entry{ID: keyringID, State: Reserved}
		e.put(record{answer: ring})
		k, err := keyringOf(e)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Errorf("keyringOf: %v, want %v", err, ErrUnreadable)
			}
			return
		}
		written := k.entry()
		rec, err := written.record()
		if err != nil || !bytes.Equal(rec.answer, ring) {
			t.Errorf("% x was accepted and is written back as % x, %v", ring, rec.answer, err)
		}
		if all, _ := k.sealerWith(&sealer{}); k.secret != nil && len(all.keys) != 1 {
			t.Errorf("a keyring with a key of its own gives %d keys", len(all.keys))
		}
	})
}

// TestChecksumIsCastagnoli: the polynomial is part of the format.
func TestChecksumIsCastagnoli(t *testing.T) {
	if got := crc32.Checksum([]byte("123456789"), castagnoli); got != 0xe3069283 { // RFC 3720, B.4
		t.Errorf("checksum of the test string is %#x, want 0xe3069283", got)
	}
}
