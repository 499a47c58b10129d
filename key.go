package retrysafe

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Key names one intended operation: the caller chose Name, and Scope says whose it is. Both are compared
// byte for byte; two scopes never see each other's names. The zero Key is refused by the Executor.
type Key struct {
	Scope string // tenant or principal, from a verified identity; never a value that the caller may choose
	Name  string // what the caller sent
	steps string // length-prefixed names given to Derive; no Name can imitate them
}

// ID returns the digest under which the store keeps the key.
func (k Key) ID() ID {
	var room [512]byte // keys and scopes of usual size hash without an allocation
	b := appendPart(room[:0], k.Scope)
	b = appendPart(b, k.Name)
	return sha256.Sum256(append(b, k.steps...))
}

// derive returns the key of a step inside the operation of k.
func (k Key) derive(name string) Key {
	k.steps = string(appendPart([]byte(k.steps), name))
	return k
}

// appendPart appends s behind its length, so that no two lists of parts have the same bytes.
func appendPart(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}

// display returns the key as operators read it, with the names of its steps behind slashes.
func (k Key) display() string {
	if k.steps == "" {
		return displayed(k.Name)
	}
	var b strings.Builder
	b.WriteString(k.Name)
	for rest := k.steps; len(rest) > 8; {
		n := binary.BigEndian.Uint64([]byte(rest[:8]))
		b.WriteString("/" + rest[8:8+n])
		rest = rest[8+n:]
	}
	return displayed(b.String())
}

// String returns a tag of the key that is safe to log: the start of its ID, never its text.
func (k Key) String() string { return "key " + k.ID().String()[:12] }

// Format is String for every verb: a key's text stays out of all of them.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue keeps the key's text out of structured logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.ID().String()[:12]) }

// maxDisplay bounds what people read of a scope or key, in bytes.
const maxDisplay = 256

// displayed returns s as text that every store and page can hold: valid UTF-8, no control characters, at
// most maxDisplay bytes. It is for people; identity is the ID alone.
func displayed(s string) string {
	if len(s) <= maxDisplay && printable(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	if len(s) <= maxDisplay {
		return s
	}
	cut := maxDisplay
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// An ID is SHA-256 of the length-prefixed scope and name: a store's primary key. It is a plain hash, so that
// a changed secret never makes known keys new.
type ID [32]byte

// String returns the ID in lower-case hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what ID.String wrote.
func ParseID(s string) (ID, error) {
	var id ID
	if n, err := hex.Decode(id[:], []byte(s[:min(len(s), 2*len(id))])); err != nil || n != len(id) || len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("retrysafe: parse id: want %d hexadecimal digits, got %d bytes", 2*len(id), len(s))
	}
	return id, nil
}
