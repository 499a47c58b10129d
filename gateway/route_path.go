package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A pattern is a path with holes, segment by segment.
type pattern struct {
	segments []segment
	rest     bool // more must follow, if only a slash
}

// A segment is what stands between two slashes: these letters, or any.
type segment struct {
	literal string // decoded
	any     bool   // but not none
}

var hole = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*)(\.\.\.)?\}$`)

func parsePattern(path string) (p pattern, err error) {
	if !strings.HasPrefix(path, "/") {
		return p, errors.New("the path must begin with a slash, like /charges/{id}")
	}
	var names []string
	texts := strings.Split(path[1:], "/")
	for i, text := range texts {
		if strings.ContainsAny(text, "?#") {
			return p, errors.New("routes match by path: leave out the query and the fragment")
		}
		found := hole.FindStringSubmatch(text)
		switch {
		case found == nil && strings.ContainsAny(text, "{}"):
			return p, errors.New("want {name} as a whole segment, or {name...} as the last")
		case found == nil:
			literal, err := url.PathUnescape(text)
			if err != nil {
				return p, errors.New("a percent sign must begin an encoded byte, like %20")
			}
			p.segments = append(p.segments, segment{literal: literal})
			continue
		case slices.Contains(names, found[1]):
			return p, fmt.Errorf("{%s} stands there twice", found[1])
		case found[2] != "" && i < len(texts)-1:
			return p, fmt.Errorf("{%s...} must be the last segment", found[1])
		case found[2] != "":
			p.rest = true
		default:
			p.segments = append(p.segments, segment{any: true})
		}
		names, texts[i] = append(names, found[1]), "x"
	}
	if why := ambiguity("/" + strings.Join(texts, "/")); why != "" {
		return p, fmt.Errorf("the path has %s: no request with such a path gets that far", why)
	}
	return p, nil
}

// matches tells whether the pattern is that of an escaped path.
func (p *pattern) matches(path string) bool {
	left, more := strings.CutPrefix(path, "/")
	for _, want := range p.segments {
		if !more {
			return false
		}
		var got string
		got, left, more = strings.Cut(left, "/")
		if !want.matches(got) {
			return false
		}
	}
	return more == p.rest
}

func (s segment) matches(text string) bool {
	if s.any {
		return text != ""
	}
	if text == s.literal || !strings.Contains(text, "%") {
		return text == s.literal
	}
	decoded, err := url.PathUnescape(text)
	return err == nil && decoded == s.literal
}

// covers tells whether every path that q matches matches p.
func (p *pattern) covers(q pattern) bool {
	if len(q.segments) < len(p.segments) {
		return false
	}
	for i, s := range p.segments {
		if of := q.segments[i]; s.any && !of.any && of.literal == "" || !s.any && s != of {
			return false
		}
	}
	return p.rest == (q.rest || len(q.segments) > len(p.segments))
}

// ambiguity says what in an escaped path a server might read as another path: "" if nothing. Servers decode letters,
// drop empty segments, go up at dot segments (RFC 3986, 6.2.2), cut parameters off, or decode twice; a rule that
// hangs on the path must not depend on which of it the upstream does.
func ambiguity(path string) string {
	if !strings.HasPrefix(path, "/") {
		return "no slash at its beginning"
	}
	if why := oddByte(path); why != "" {
		return why
	}
	for left, more := path[1:], true; more; {
		var segment string
		segment, left, more = strings.Cut(left, "/")
		switch {
		case segment == "." || segment == "..":
			return "a dot segment"
		case segment == "" && more:
			return "an empty segment"
		}
	}
	return ""
}

// oddByte is ambiguity as far as single bytes tell, encoded or not.
func oddByte(path string) string {
	beyond := false
	for i := 0; i < len(path); i++ {
		c, encoded := path[i], path[i] == '%'
		if encoded {
			b, err := url.PathUnescape(path[i:min(i+3, len(path))])
			if err != nil {
				return "a percent sign that encodes nothing"
			}
			c, i = b[0], i+2
		}
		beyond = beyond || c >= utf8.RuneSelf
		switch {
		case c < ' ' || c == 0x7f:
			return "a control character"
		case c == ';':
			return "a semicolon"
		case c == '\\':
			return "a backslash"
		case !encoded:
		case c == '/':
			return "an encoded slash"
		case isUnreserved(c):
			return "an encoded letter, digit or one of - . _ ~"
		case c == '%' && isEncodedTwice(path[i+1:]):
			return "a byte that is encoded twice"
		}
	}
	if beyond {
		if text, err := url.PathUnescape(path); err != nil || !utf8.ValidString(text) {
			return "bytes that are no UTF-8"
		}
	}
	return ""
}

// isUnreserved tells whether a byte means the same encoded and not (RFC 3986, 2.3).
func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// isEncodedTwice tells whether what follows an encoded percent sign makes it another encoded byte.
func isEncodedTwice(after string) bool {
	if len(after) < 2 {
		return false
	}
	_, err := url.PathUnescape("%" + after[:2])
	return err == nil
}
