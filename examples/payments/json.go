package payments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBody bounds every request body.
const maxBody = 64 << 10

// readJSON reads the body of r, one JSON object, into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if err := checkMedia(r); err != nil {
		return err
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return decode(body, v)
}

// readNothing takes no body, or one that says nothing. A member silently passed
// over, say the amount of a partial refund, would make the answer a wrong one.
func readNothing(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := checkMedia(r); err != nil {
		return err
	}
	return decode(body, &struct{}{})
}

// checkMedia takes JSON alone. A browser form cannot be sent as that without
// asking first, so no foreign page can charge (Fetch, 2.2.2).
func checkMedia(r *http.Request) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return plain(http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	return nil
}

// readBody reads at most maxBody bytes; a connection that sends more is closed,
// for its rest would have to be read to get at the next request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, plain(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody))
	}
	if err != nil {
		return nil, invalid("the body could not be read to its end")
	}
	return body, nil
}

// decode is stricter than encoding/json in what could be read in two ways:
// doubled names (RFC 8259, 4), names in another case, broken UTF-8.
func decode(body []byte, v any) error {
	if !utf8.Valid(body) {
		return invalid("the body is not UTF-8")
	}
	if err := checkNames(body); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(fmt.Sprintf("%s cannot be a %s", wrong.Field, wrong.Value))
	}
	if err != nil {
		return invalid(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkNames accepts one object and nothing after it, whose names are in lower
// case, as all of ours are, and each there once.
func checkNames(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return invalid("the body is not one JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.Token() // {
	seen := make(map[string]bool, len(members))
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok || dec.Decode(new(json.RawMessage)) != nil {
			return invalid("the body is not one JSON object")
		}
		if seen[name] {
			return invalid(fmt.Sprintf("the member %q is there twice", name))
		}
		if !consistsOf(name, "abcdefghijklmnopqrstuvwxyz_") {
			return invalid(fmt.Sprintf("unknown field %q", name))
		}
		seen[name] = true
	}
	return nil
}

// checkName accepts the names that clients choose for their own things, which
// also stand in paths and logs: 1 to 64 letters, digits, dots, - and _.
func checkName(field, name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	if len(name) < 1 || len(name) > 64 || !consistsOf(name, allowed) {
		return invalid(field + " must be 1 to 64 letters, digits, '.', '-' or '_'")
	}
	return nil
}

// consistsOf reports whether every character of text is one of allowed.
func consistsOf(text, allowed string) bool {
	return strings.Trim(text, allowed) == ""
}

// checkText accepts a line of free text of at most limit bytes.
func checkText(field, text string, limit int) error {
	if len(text) > limit {
		return invalid(fmt.Sprintf("%s is longer than %d bytes", field, limit))
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalid(field + " must not hold control characters")
	}
	return nil
}

// writeJSON encodes before it writes: an answer goes out whole or not at all.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	writeBody(w, status, "application/json", body)
	return nil
}

// writeBody sends a whole answer with its length, so that a cut connection is
// seen as such. A client that went away is none of our errors.
func writeBody(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
