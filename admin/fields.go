package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// This file reads JSON objects to the letter: encoding/json alone would take "FORCE" for force, the last of two
// fields of one name, and other characters in place of broken ones.

// A field is where a field of an object goes, and what it must be.
type field struct {
	name string
	into any
	want string
}

// readFields reads a body that is one JSON object with some of the fields, each at most once and spelled
// exactly so. Null is as good as absent.
func readFields(body []byte, fields []field) error {
	if !utf8.Valid(body) { // RFC 8259, 8.1
		return invalid("The body is not UTF-8.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	err := walk(d, func(name string) error {
		for _, f := range fields {
			if f.name == name {
				return decode(d, f)
			}
		}
		return invalid("Field %q is not known here. Known are: %s.", name, names(fields))
	})
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("The body is not JSON: something follows the object.")
	}
	return nil
}

// decode reads the next value of d into f.
func decode(d *json.Decoder, f field) error {
	err := d.Decode(f.into)
	if err == nil {
		return nil
	}
	_, syntax := errors.AsType[*json.SyntaxError](err)
	if syntax || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return notJSON(err)
	}
	return invalid("Field %s: want %s.", f.name, f.want)
}

func notJSON(err error) error { return invalid("The body is not JSON: %v.", err) }

func names(fields []field) string {
	var list []string
	for _, f := range fields {
		list = append(list, f.name)
	}
	return strings.Join(list, ", ")
}

// walk reads a JSON object from d and calls visit for each name, which must read the value behind it. A name
// that stands there twice is refused.
func walk(d *json.Decoder, visit func(name string) error) error {
	start, err := d.Token()
	if err != nil {
		return notJSON(err)
	}
	if start != json.Delim('{') {
		return invalid("The decision, and the headers in it, must be JSON objects.")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return notJSON(err)
		}
		name := token.(string) // nothing else is a token there
		if seen[name] {
			return invalid("Field %q stands there twice: give it once.", name)
		}
		seen[name] = true
		if err := visit(name); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return notJSON(err)
	}
	return nil
}
