package sfv

import (
	"strconv"
	"strings"
)

// A scanner walks over one field value: in[:at] is consumed. Its methods consume
// what they name or return an error and leave at on the byte that was wrong.
type scanner struct {
	in string
	at int
}

func (s *scanner) done() bool { return s.at == len(s.in) }

// next reports whether the next byte is one of set, without consuming it.
func (s *scanner) next(set string) bool {
	return !s.done() && strings.IndexByte(set, s.in[s.at]) >= 0
}

// take consumes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.done() || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

// run consumes the bytes of set that follow and counts them.
func (s *scanner) run(set string) int {
	start := s.at
	for s.next(set) {
		s.at++
	}
	return s.at - start
}

// skipSpaces consumes SP only: HTTP has taken tabs off the ends already, and
// inside an Item they are not allowed.
func (s *scanner) skipSpaces() { s.run(" ") }

func (s *scanner) fail(what string) error {
	return &syntaxError{act: "parse", what: what, at: s.at}
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"

	keyStart   = lower + "*"
	keyRest    = lower + digits + "_-.*"
	tokenStart = lower + upper + "*"
	tokenRest  = lower + upper + digits + "!#$%&'*+-.^_`|~" + ":/" // tchar of RFC 9110, 5.6.2, and two more
	base64     = lower + upper + digits + "+/"
	lowerHex   = digits + "abcdef"
)

// printable reports whether a String may hold c as it is or escaped: VCHAR or SP.
func printable(c byte) bool { return c >= 0x20 && c <= 0x7e }

// syntaxError is an error of one byte. It holds no part of the input.
type syntaxError struct {
	act, what string
	at        int
}

func (e *syntaxError) Error() string {
	return "sfv: " + e.act + ": " + e.what + ", at byte " + strconv.Itoa(e.at)
}
