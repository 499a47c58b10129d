package idemhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// A hasher digests what was asked for without allocating.
type hasher struct {
	h    hash.Hash
	head []byte
	out  retrysafe.Fingerprint
}

var hashers = sync.Pool{New: func() any { return &hasher{h: sha256.New()} }}

// fingerprint digests what was asked for, each part but the last behind its length: method, path and query as
// they came, media type, body bytes.
func fingerprint(r *http.Request, body []byte) retrysafe.Fingerprint {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.head = h.head[:0]
	for _, part := range [...]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, mediaType(r.Header["Content-Type"])} {
		h.head = append(binary.BigEndian.AppendUint64(h.head, uint64(len(part))), part...)
	}
	h.h.Reset()
	h.h.Write(h.head)
	h.h.Write(body)
	h.h.Sum(h.out[:0])
	return h.out
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
