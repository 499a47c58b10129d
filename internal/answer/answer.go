// Package answer is how an HTTP answer stands in a store: status, header lines, body. The entry around it
// carries the checksum.
package answer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// An Answer is what is replayed. Header lines keep their order within a name.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

const version = 1

// Encode returns a as bytes. Equal answers have equal bytes.
func (a Answer) Encode() []byte { return a.EncodeOnly(slices.Sorted(maps.Keys(a.Header))) }

// EncodeOnly is Encode with those of the headers that names lists, in that order.
func (a Answer) EncodeOnly(names []string) []byte {
	size, lines := 16+len(a.Body), 0
	for _, name := range names {
		for _, v := range a.Header[name] {
			size += len(name) + len(v) + 6
			lines++
		}
	}
	b := append(make([]byte, 0, size), version)
	b = binary.AppendUvarint(b, uint64(a.Status))
	b = binary.AppendUvarint(b, uint64(lines))
	for _, name := range names {
		for _, v := range a.Header[name] {
			b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		}
	}
	return append(b, a.Body...)
}

// ErrMalformed says that bytes are no answer.
var ErrMalformed = errors.New("stored answer is malformed")

// Decode reads what Encode wrote. The body shares b's memory.
func Decode(b []byte) (Answer, error) {
	h := http.Header{}
	status, body, err := DecodeLines(b, func(name, value string) { h[name] = append(h[name], value) })
	if err != nil {
		return Answer{}, err
	}
	return Answer{Status: status, Header: h, Body: body}, nil
}

// DecodeLines is Decode that gives each header line to line, those of one name one after the other. A header
// that could not be sent is refused: what is replayed has been checked on the way in and on the way out. On an
// error some lines may have been given.
func DecodeLines(b []byte, line func(name, value string)) (status int, body []byte, err error) {
	if len(b) == 0 || b[0] != version {
		return 0, nil, fmt.Errorf("%w: unknown version", ErrMalformed)
	}
	r := reader{b: b[1:]}
	status = int(min(r.number(), 1000))
	var room [16]string
	seen := room[:0]
	for lines := r.number(); lines > 0 && !r.bad; lines-- {
		name, value := r.name(), string(r.take())
		if err := checkLine(name, value); err != nil {
			return 0, nil, err
		}
		if len(seen) == 0 || seen[len(seen)-1] != name {
			if slices.Contains(seen, name) {
				return 0, nil, fmt.Errorf("%w: lines of one header stand apart", ErrMalformed)
			}
			seen = append(seen, name)
		}
		line(name, value)
	}
	if r.bad {
		return 0, nil, fmt.Errorf("%w: cut short", ErrMalformed)
	}
	return status, r.b, checkStatus(status)
}

// Check refuses an answer that no server could send: a status out of range, or a header that would break the
// message apart.
func (a Answer) Check() error { return a.CheckOnly(slices.Collect(maps.Keys(a.Header))) }

// CheckOnly is Check of those of the headers that names lists.
func (a Answer) CheckOnly(names []string) error {
	for _, name := range names {
		for _, v := range a.Header[name] {
			if err := checkLine(name, v); err != nil {
				return err
			}
		}
	}
	return checkStatus(a.Status)
}

func checkStatus(status int) error {
	if status < 200 || status > 999 {
		return fmt.Errorf("%w: status %d: want 200 to 999", ErrMalformed, status)
	}
	return nil
}

func checkLine(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%w: a header name is not valid", ErrMalformed)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("%w: a value of header %s is not valid", ErrMalformed, name)
	}
	return nil
}

// A reader reads from the front; bad is set once and stays.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 { // one that is longer than it need be is not ours
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

// usual are the names that nearly every answer has: they are read without an allocation.
var usual = map[string]string{"Content-Type": "Content-Type", "Location": "Location", "Etag": "Etag", "Cache-Control": "Cache-Control"}

func (r *reader) name() string {
	b := r.take()
	if name, ok := usual[string(b)]; ok {
		return name
	}
	return string(b)
}
