// Package sfv reads and writes the one Structured Field that an idempotency key
// travels in: an Item whose value is a String (RFC 9651, 3.3.3;
// draft-ietf-httpapi-idempotency-key-header-07, 2.1).
//
// The whole Item is checked, its parameters too, because a field that is only
// half understood may be two fields that were joined on the way. Values of
// parameters are dropped: none is defined, and unknown ones are no error.
//
// Reading is one pass, linear in the field's length, and keeps nothing but the
// value. A limit on that length is the caller's to set, before and after.
package sfv

import "strings"

// ParseString returns the String that field holds, without quotes and escapes.
//
// Spaces around the Item are ignored, and so are well-formed parameters. Anything
// else is an error that names the byte offset in field and never quotes from it:
// keys do not belong in logs. Several field lines are joined with ", " before they
// come here (RFC 9651, 4.2); a joined duplicate therefore fails.
//
// A value without escapes shares field's memory; nothing is allocated for it.
func ParseString(field string) (value string, err error) {
	s := scanner{in: field}
	s.skipSpaces()
	if s.done() {
		return "", s.fail("field is empty")
	}
	raw, escaped, err := s.str()
	if err != nil {
		return "", err
	}
	if err := s.parameters(); err != nil {
		return "", err
	}
	s.skipSpaces()
	if !s.done() {
		return "", s.fail("unexpected byte after the item")
	}
	if escaped {
		return unescape(raw), nil
	}
	return raw, nil
}

// Quote returns s as a String in quotes, ready to be a field value (RFC 9651,
// 4.1.6). It fails if s has a byte that a String cannot carry.
func Quote(s string) (string, error) {
	escapes := 0
	for i := range len(s) {
		if !printable(s[i]) {
			return "", &syntaxError{act: "quote", what: "byte is not printable ASCII", at: i}
		}
		if s[i] == '"' || s[i] == '\\' {
			escapes++
		}
	}
	if escapes == 0 {
		return `"` + s + `"`, nil
	}
	var b strings.Builder
	b.Grow(len(s) + escapes + 2)
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
	return b.String(), nil
}

// str consumes a String (RFC 9651, 4.2.5) and returns what stands between its
// quotes; escaped says that backslashes are still in it.
func (s *scanner) str() (raw string, escaped bool, err error) {
	if !s.take('"') {
		return "", false, s.fail("item is not a string in double quotes")
	}
	for start := s.at; !s.done(); s.at++ {
		switch c := s.in[s.at]; {
		case c == '"':
			raw = s.in[start:s.at]
			s.at++
			return raw, escaped, nil
		case c == '\\':
			s.at++ // the escaped byte
			escaped = true
			if !s.next(`"\`) {
				return "", false, s.fail("backslash escapes neither quote nor backslash")
			}
		case !printable(c):
			return "", false, s.fail("byte in string is not printable ASCII")
		}
	}
	return "", false, s.fail("string has no closing quote")
}

// unescape drops the backslash of every escape; str has checked that each has
// its byte.
func unescape(raw string) string {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' {
			i++
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}
