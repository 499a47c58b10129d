package idemhttp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/jsonptr"
)

// CanonicalJSON returns a FingerprintFunc for JSON bodies in which the order of members, space between tokens and the
// way a string is escaped do not count. All else does: a number is its literal, so that 1.0 is not 1 and no two integers
// are rounded into one; null is not absent; the order of elements. The members and elements that exclude points to
// (RFC 6901) are left out, whatever they hold and however often they stand there.
//
// A body counts byte for byte if it does not say that it is JSON, or says that it is encoded, and if two readers could
// make two things of it: it is not one JSON value in UTF-8, half a pair of surrogates stands in it, an object names a
// member twice, or it is nested more than 64 deep. Such a body never equals one that is read as JSON.
func CanonicalJSON(exclude ...string) (FingerprintFunc, error) {
	pointers, tree, err := parsePointers(exclude)
	if err != nil {
		return nil, fmt.Errorf("idemhttp: canonical JSON: exclude: %w", err)
	}
	return jsonFingerprint("json", pointers, func(c *canon, body []byte) ([]byte, error) { return c.document(body, tree) }), nil
}

// SelectedJSON returns a FingerprintFunc for JSON bodies of which only the members and elements count that pointers lead
// to (RFC 6901), each as CanonicalJSON sees it; absent is not null. Bodies that are no clear JSON count byte for byte, as
// they do there, and so does one that has none of them: a pointer to nowhere does not make all requests one.
func SelectedJSON(pointers ...string) (FingerprintFunc, error) {
	pointers, tree, err := parsePointers(pointers)
	if err == nil && len(pointers) == 0 {
		err = errors.New("want at least one JSON pointer, like /amount")
	}
	if err != nil {
		return nil, fmt.Errorf("idemhttp: selected JSON: %w", err)
	}
	return jsonFingerprint("selected", pointers, func(c *canon, body []byte) ([]byte, error) { return c.selection(body, tree, len(pointers)) }), nil
}

// jsonFingerprint digests what read makes of JSON bodies, and others byte for byte: those that are not declared as JSON
// as RawFingerprint does, those that read refuses under a tag of their own.
func jsonFingerprint(mode string, pointers []string, read func(*canon, []byte) ([]byte, error)) FingerprintFunc {
	tag, asSent := tagOf(mode, pointers), tagOf(mode+", as sent", pointers)
	return func(r *http.Request, body []byte) (retrysafe.Fingerprint, error) {
		if !declaresJSON(r.Header) {
			return RawFingerprint(r, body)
		}
		c := canons.Get().(*canon)
		defer c.close()
		payload, err := read(c, body)
		if err != nil {
			return digest(asSent, r, body), nil
		}
		return digest(tag, r, payload), nil
	}
}

// declaresJSON tells whether a body says of itself that it is JSON (RFC 8259, 11; RFC 6839, 3.1) as it stands there, not
// compressed.
func declaresJSON(h http.Header) bool {
	t, _, _ := strings.Cut(mediaType(h["Content-Type"]), ";")
	return (t == "application/json" || strings.HasSuffix(t, "+json")) && len(h["Content-Encoding"]) == 0
}

// A branch is a place in a document that pointers lead through, or to. Nil is every other place.
type branch struct {
	next map[string]*branch // by the name of a member, or the index of an element
	end  int                // the number of the pointer that leads here, from 1; 0 for none
}

// ends tells whether a pointer leads here.
func (b *branch) ends() bool { return b != nil && b.end != 0 }

// member follows the pointers into the member whose name is written as quoted.
func (b *branch) member(quoted []byte) *branch {
	if b == nil {
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return b.next[string(quoted[1:len(quoted)-1])]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // it was read as a string: it is one
	return b.next[string(name)]
}

// element follows the pointers into the element of that index, which RFC 6901 has written without leading zeros.
func (b *branch) element(i int) *branch {
	if b == nil {
		return nil
	}
	return b.next[strconv.Itoa(i)]
}

// maxPointers bounds the pointers of one mode.
const maxPointers = 100

// parsePointers returns the pointers in order, each once, and the tree that they make up.
func parsePointers(texts []string) (pointers []string, tree *branch, err error) {
	pointers = slices.Compact(slices.Sorted(slices.Values(texts)))
	if len(pointers) == 0 {
		return nil, nil, nil
	}
	if len(pointers) > maxPointers {
		return nil, nil, fmt.Errorf("%d JSON pointers: want at most %d", len(pointers), maxPointers)
	}
	tree = &branch{}
	for i, text := range pointers {
		p, err := jsonptr.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		if len(p) == 0 {
			return nil, nil, errors.New("the empty JSON pointer is the whole body: want one like /amount")
		}
		if !tree.grow(p, i+1) {
			return nil, nil, fmt.Errorf("JSON pointer %q leads into what another one covers: give one of them", text)
		}
	}
	return pointers, tree, nil
}

// grow adds a pointer, unless it leads to or into a place where another one ends. Those that end above come first: they
// are sorted.
func (b *branch) grow(p jsonptr.Pointer, number int) bool {
	for _, token := range p {
		if b.end != 0 {
			return false
		}
		next := b.next[token]
		if next == nil {
			next = &branch{}
			if b.next == nil {
				b.next = map[string]*branch{}
			}
			b.next[token] = next
		}
		b = next
	}
	b.end = number
	return true
}
