package sfv

import (
	"strings"
	"unicode/utf8"
)

// parameters consumes any number of parameters (RFC 9651, 4.2.3.2). A key that
// comes twice is no error: the last one would win.
func (s *scanner) parameters() error {
	for s.take(';') {
		s.skipSpaces()
		if !s.next(keyStart) {
			return s.fail("parameter has no valid key")
		}
		s.run(keyRest)
		if !s.take('=') {
			continue // true, 4.2.3.2 step 2.5
		}
		if err := s.bareItem(); err != nil {
			return err
		}
	}
	return nil
}

// bareItem consumes a value of any type, told by its first byte (RFC 9651, 4.2.3.1).
func (s *scanner) bareItem() error {
	if s.next("-" + digits) {
		_, err := s.number()
		return err
	}
	if s.next(tokenStart) {
		s.run(tokenRest) // 4.2.6
		return nil
	}
	if s.next(`"`) {
		_, _, err := s.str()
		return err
	}
	switch {
	case s.take(':'):
		return s.byteSequence()
	case s.take('?'):
		return s.boolean()
	case s.take('@'):
		return s.date()
	case s.take('%'):
		return s.displayString()
	}
	return s.fail("parameter value is of no known type")
}

// number consumes an Integer of at most 15 digits or a Decimal of at most 12 and
// 3 (RFC 9651, 4.2.4), and tells which.
func (s *scanner) number() (decimal bool, err error) {
	s.take('-')
	whole := s.run(digits)
	if whole == 0 {
		return false, s.fail("number has no digits")
	}
	if whole > 15 {
		return false, s.fail("integer has more than 15 digits")
	}
	if !s.take('.') {
		return false, nil
	}
	if whole > 12 {
		return true, s.fail("decimal has more than 12 digits before the point")
	}
	if fraction := s.run(digits); fraction < 1 || fraction > 3 {
		return true, s.fail("decimal has not 1 to 3 digits after the point")
	}
	return true, nil
}

// byteSequence consumes base64 and its closing colon (RFC 9651, 4.2.7). Missing
// padding and pad bits that are not zero pass, as the RFC wants; padding that is
// there must be whole.
func (s *scanner) byteSequence() error {
	chars, pads := s.run(base64), s.run("=")
	if !s.take(':') {
		return s.fail("byte sequence has a byte outside base64 or no closing colon")
	}
	if chars%4 == 1 || pads > 2 || pads > 0 && (chars+pads)%4 != 0 {
		s.at--
		return s.fail("byte sequence is not whole base64")
	}
	return nil
}

// boolean consumes what follows the question mark (RFC 9651, 4.2.8).
func (s *scanner) boolean() error {
	if s.take('0') || s.take('1') {
		return nil
	}
	return s.fail("boolean is neither 0 nor 1")
}

// date consumes the Integer after the at sign (RFC 9651, 4.2.9).
func (s *scanner) date() error {
	decimal, err := s.number()
	if err != nil {
		return err
	}
	if decimal {
		return s.fail("date is not an integer")
	}
	return nil
}

// displayString consumes what follows the percent sign (RFC 9651, 4.2.10): quoted
// ASCII in which %xx, lower case, stands for a byte of UTF-8.
func (s *scanner) displayString() error {
	if !s.take('"') {
		return s.fail("display string has no opening quote")
	}
	var char utf8Checker
	for !s.done() {
		c := s.in[s.at]
		if c == '"' && char.whole() {
			s.at++
			return nil
		}
		if !printable(c) {
			return s.fail("byte in display string is not printable ASCII")
		}
		octet, ok := s.octet()
		if !ok {
			return s.fail("percent is not followed by two lower case hex digits")
		}
		if c == '"' || !char.add(octet) {
			s.at--
			return s.fail("display string is not UTF-8")
		}
	}
	return s.fail("display string has no closing quote")
}

// octet consumes one byte of a Display String, decoded if it is percent-encoded.
func (s *scanner) octet() (octet byte, ok bool) {
	c := s.in[s.at]
	s.at++
	if c != '%' {
		return c, true
	}
	for range 2 {
		if !s.next(lowerHex) {
			return 0, false
		}
		octet = octet<<4 | byte(strings.IndexByte(lowerHex, s.in[s.at]))
		s.at++
	}
	return octet, true
}

// A utf8Checker takes text byte by byte; it holds the bytes of a character that
// is not whole yet.
type utf8Checker struct {
	buf [utf8.UTFMax]byte
	n   int
}

// add reports whether the text can still be UTF-8 after c.
func (u *utf8Checker) add(c byte) bool {
	u.buf[u.n] = c
	u.n++
	if !utf8.FullRune(u.buf[:u.n]) {
		return true
	}
	r, size := utf8.DecodeRune(u.buf[:u.n])
	valid := size == u.n && (r != utf8.RuneError || size > 1)
	u.n = 0
	return valid
}

// whole reports whether the text may end here.
func (u *utf8Checker) whole() bool { return u.n == 0 }
