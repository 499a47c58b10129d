// Package jsonptr finds members of a JSON text by their pointers (RFC 6901), as they are written there: a number
// keeps its literal.
package jsonptr

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotJSON says that a text is not one JSON value in UTF-8 whose objects name each member once (RFC 7493). Of two
// members with one name, readers take either: nobody may choose between them.
var ErrNotJSON = errors.New("not one JSON value with distinct member names")

// A Pointer is a parsed pointer: the names and indexes that lead to a value. The empty one is the whole text.
type Pointer []string

// Parse reads a pointer as RFC 6901 writes it, like /order/no.
func Parse(text string) (Pointer, error) {
	if text == "" {
		return Pointer{}, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("JSON pointer %q: want it to begin with a slash, like /order_no (RFC 6901)", text)
	}
	var p Pointer
	for token := range strings.SplitSeq(text[1:], "/") {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, fmt.Errorf("JSON pointer %q: want ~0 for ~ and ~1 for / (RFC 6901)", text)
		}
		p = append(p, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return p, nil
}

// Find returns the value that each of the pointers leads to in text, nil where there is none. Errors: [ErrNotJSON].
func Find(text []byte, pointers ...Pointer) ([]jsontext.Value, error) {
	if !jsontext.Value(text).IsValid() {
		return nil, ErrNotJSON
	}
	found := make([]jsontext.Value, len(pointers))
	for i, p := range pointers {
		v, err := find(jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true)), p) // they were looked for
		if err != nil {
			return nil, ErrNotJSON
		}
		found[i] = v
	}
	return found, nil
}

// find descends to what p leads to.
func find(d *jsontext.Decoder, p Pointer) (jsontext.Value, error) {
	for _, token := range p {
		kind := d.PeekKind()
		if kind != '{' && kind != '[' {
			return nil, nil
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		enter := member
		if kind == '[' {
			enter = element
		}
		if ok, err := enter(d, token); err != nil || !ok {
			return nil, err
		}
	}
	v, err := d.ReadValue()
	return slices.Clone(v), err
}

// member stops before the value of the member of that name.
func member(d *jsontext.Decoder, name string) (ok bool, err error) {
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return false, err
		}
		if t.String() == name {
			return true, nil
		}
		if err := d.SkipValue(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// element stops before the element of that index, which is written without leading zeros (RFC 6901, 4).
func element(d *jsontext.Decoder, index string) (ok bool, err error) {
	for i := 0; d.PeekKind() != ']'; i++ {
		if fmt.Sprint(i) == index {
			return true, nil
		}
		if err := d.SkipValue(); err != nil {
			return false, err
		}
	}
	return false, nil
}
