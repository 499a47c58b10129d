package idemhttp

import (
	"bytes"
	"encoding/binary"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// maxParts bounds the parts of a body: as many as net/http takes of a form.
const maxParts = 1000

// Multipart returns a FingerprintFunc by which a multipart/form-data body counts part by part, in order: its
// Content-Disposition, with name and filename, its Content-Type and Content-Transfer-Encoding as they were sent, and its
// content. The boundary, which clients make anew for each attempt, does not count.
//
// A form that is not whole, has no part or more than 1000, or says anything outside of its parts, counts byte for byte,
// and so does every other body.
func Multipart() FingerprintFunc {
	tag, asSent := tagOf("multipart", nil), tagOf("multipart, as sent", nil)
	return func(r *http.Request, body []byte) (retrysafe.Fingerprint, error) {
		boundary, ok := formBoundary(r.Header)
		if !ok {
			return RawFingerprint(r, body)
		}
		parts, ok := digestParts(body, boundary)
		if !ok {
			return digest(asSent, r, body), nil
		}
		return digest(tag, r, parts), nil
	}
}

// formBoundary returns the boundary of a multipart/form-data body that is not compressed, "" if it says none.
func formBoundary(h http.Header) (boundary string, ok bool) {
	lines := h["Content-Type"]
	if len(lines) != 1 || len(h["Content-Encoding"]) > 0 {
		return "", false
	}
	t, params, err := mime.ParseMediaType(lines[0])
	return params["boundary"], err == nil && t == "multipart/form-data"
}

// digestParts returns what counts of each part, behind the number of its lines and their lengths, and a digest of its
// content.
func digestParts(body []byte, boundary string) (parts []byte, ok bool) {
	if !framed(body, boundary) {
		return nil, false
	}
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	for n := 0; ; n++ {
		p, err := in.NextRawPart() // raw: what is encoded stays as it is
		if err == io.EOF {
			return parts, true
		}
		if err != nil || n == maxParts {
			return nil, false
		}
		for _, name := range []string{"Content-Disposition", "Content-Type", "Content-Transfer-Encoding"} {
			lines := p.Header[name]
			parts = binary.BigEndian.AppendUint64(parts, uint64(len(lines)))
			for _, line := range lines {
				parts = appendPart(parts, line)
			}
		}
		h.h.Reset()
		if _, err := io.Copy(h.h, p); err != nil {
			return nil, false
		}
		parts = h.h.Sum(parts)
	}
}

// framed tells whether body is nothing but parts, at least one: it begins with a delimiter and ends with the only closing one
// (RFC 2046, 5.1.1). What stood before, or behind it, one reader may pass over and another not.
func framed(body []byte, boundary string) bool {
	if boundary == "" || len(boundary) > 70 {
		return false
	}
	closing := []byte("\r\n--" + boundary + "--")
	return bytes.HasPrefix(body, []byte("--"+boundary+"\r\n")) && bytes.Count(body, closing) == 1 &&
		bytes.HasSuffix(bytes.TrimSuffix(body, []byte("\r\n")), closing)
}
