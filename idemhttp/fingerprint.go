package idemhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// A FingerprintFunc digests what a request asks for: a retry has the fingerprint of the first, another request under
// the same key another one, and is refused. It says the same of the same request at any time and in every process. It
// gets the whole body, may neither change nor keep it, and does not touch r.Body, which has been read. Its error answers
// 400 and runs nothing; it is told to nobody, since it may repeat what was sent.
type FingerprintFunc func(r *http.Request, body []byte) (retrysafe.Fingerprint, error)

// RawFingerprint is the default: method, path and query as they came, the media type with its charset, and the bytes of
// the body.
func RawFingerprint(r *http.Request, body []byte) (retrysafe.Fingerprint, error) {
	return digest("", r, body), nil
}

// NoFingerprint has nothing count but scope and key. It is dangerous: whoever uses a key again, for another amount or at
// another path, gets the answer of the first request and is never told that the second one was not done.
func NoFingerprint(*http.Request, []byte) (retrysafe.Fingerprint, error) {
	return retrysafe.FingerprintOf([]byte("any request")), nil
}

// ParseFingerprint returns the FingerprintFunc that a configuration names: raw (or ""), json, selected, multipart or
// off. The pointers in exclude belong to json, those in selected to selected.
func ParseFingerprint(mode string, exclude, selected []string) (FingerprintFunc, error) {
	switch {
	case len(exclude) > 0 && mode != "json":
		return nil, errors.New("idemhttp: fingerprint: members can be excluded in mode json only")
	case len(selected) > 0 && mode != "selected":
		return nil, errors.New("idemhttp: fingerprint: members can be selected in mode selected only")
	}
	switch mode {
	case "", "raw":
		return RawFingerprint, nil
	case "json":
		return CanonicalJSON(exclude...)
	case "selected":
		return SelectedJSON(selected...)
	case "multipart":
		return Multipart(), nil
	case "off":
		return NoFingerprint, nil
	}
	return nil, fmt.Errorf("idemhttp: fingerprint %q: want raw, json, selected, multipart or off", mode)
}

// A hasher digests what was asked for without allocating.
type hasher struct {
	h    hash.Hash
	head []byte
	out  retrysafe.Fingerprint
}

var hashers = sync.Pool{New: func() any { return &hasher{h: sha256.New()} }}

// digest digests what was asked for, each part but the last behind its length: the tag of the mode, method, path and
// query as they came, media type, and what the mode takes of the body. Raw has no tag, and no guarded method looks like
// one.
func digest(tag string, r *http.Request, payload []byte) retrysafe.Fingerprint {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.head = h.head[:0]
	if tag != "" {
		h.head = appendPart(h.head, tag)
	}
	for _, part := range [...]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, mediaType(r.Header["Content-Type"])} {
		h.head = appendPart(h.head, part)
	}
	h.h.Reset()
	h.h.Write(h.head)
	h.h.Write(payload)
	h.h.Sum(h.out[:0])
	return h.out
}

// appendPart appends part behind its length, so that no two lists of parts are the same bytes.
func appendPart[T string | []byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

// tagOf is the tag of a mode with its pointers: another list of pointers is another mode.
func tagOf(mode string, pointers []string) string {
	b := appendPart(nil, mode)
	for _, p := range pointers {
		b = appendPart(b, p)
	}
	return string(b)
}

// mediaType is a Content-Type without the parameters that a client makes anew for each attempt, like a
// boundary. charset stays: it says what the bytes mean.
// Several lines are compared as they are.
func mediaType(lines []string) string {
	if len(lines) != 1 {
		return strings.Join(lines, "\n")
	}
	field := lines[0]
	if !strings.Contains(field, ";") {
		return strings.ToLower(strings.TrimSpace(field))
	}
	t, params, err := mime.ParseMediaType(field)
	if err != nil {
		return field
	}
	if charset := params["charset"]; charset != "" {
		t += ";charset=" + strings.ToLower(charset)
	}
	return t
}
