package idemhttp

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/internal/sfv"
)

// A Preset is the dialect of idempotency keys that an API speaks: what a key looks like, and how a refusal does.
type Preset uint8

// The presets.
const (
	// IETF takes keys as draft-07 writes them, quoted, and as most clients do, bare. Refusals are problem details.
	IETF Preset = iota
	// IETFStrict takes quoted keys only (draft-07, 2.1).
	IETFStrict
	// Stripe takes the header byte for byte: what are quotes to the others is part of the key. A key used for another
	// request gets 400, and that and the 409 of a request in flight have the shape of Stripe's errors. Unless
	// Options.Policy says otherwise, a key is forgotten with its answer. All else is as with IETF.
	Stripe
)

var presetNames = [...]string{"ietf", "ietf-strict", "stripe"}

// String returns the preset's name, as configurations write it.
func (p Preset) String() string { return presetNames[min(int(p), len(presetNames)-1)] }

// ParsePreset reads what String wrote. "" is IETF.
func ParsePreset(name string) (Preset, error) {
	if name == "" {
		return IETF, nil
	}
	for i, known := range presetNames {
		if name == known {
			return Preset(i), nil
		}
	}
	return 0, fmt.Errorf("preset %q: want one of %s", name, strings.Join(presetNames[:], ", "))
}

// unquote reads a key as the preset writes it. why is a sentence for the caller, which never repeats what was sent.
func (p Preset) unquote(field string) (key, why string) {
	switch quoted := strings.HasPrefix(field, `"`); {
	case p == Stripe:
		return printable(field, "")
	case quoted: // a Structured Field String (RFC 9651, 4.2.5)
		key, err := sfv.ParseString(field)
		if err != nil {
			return "", fmt.Sprintf("The key is not a valid quoted string: %v.", err)
		}
		return key, ""
	case p == IETFStrict && field != "":
		return "", `The key must be a quoted string, like "8e03978e-40d5".`
	}
	// Byte for byte: no structured parser may touch a bare key, or 007 would become 7.
	return printable(field, `",\`)
}

// printable passes a bare key of printable ASCII, without the characters that only a quoted one can hold.
func printable(field, quotedOnly string) (key, why string) {
	for i := range len(field) {
		switch c := field[i]; {
		case c < ' ' || c > '~':
			return "", "A key can hold printable ASCII only."
		case strings.IndexByte(quotedOnly, c) >= 0:
			return "", fmt.Sprintf("An unquoted key cannot hold the character %q: quote the key.", c)
		}
	}
	return field, ""
}

// shape is the form in which the preset tells a caller of a refusal.
func (p Preset) shape(a problem.Answer) problem.Answer {
	if p == Stripe && (a.Code == problem.KeyReused || a.Code == problem.InFlight) {
		a.Shape = problem.StripeShape
	}
	return a
}

// remember is how long a key is remembered by a preset after its answer is gone, where nobody says it.
func (p Preset) remember(d time.Duration) time.Duration {
	if p == Stripe {
		return 0
	}
	return d
}
