package load

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
)

const keySize = 36 // characters of a UUID

// A request is the bytes of one request, prepared once. Its key, where it has one,
// is a part of them that is written over before every sending.
type request struct {
	bytes, key []byte
}

func newRequest(p Plan, t target) request {
	var b strings.Builder
	b.WriteString(p.Method + " " + t.path + " HTTP/1.1\r\n")
	b.WriteString("Host: " + t.host + "\r\n")
	keyAt := 0
	if p.Mode != Plain {
		name, quote := "Idempotency-Key", `"` // it is a String of RFC 8941 there
		if p.KeyHeader != "" {
			name, quote = p.KeyHeader, ""
		}
		b.WriteString(name + ": " + quote)
		keyAt = b.Len()
		b.WriteString(strings.Repeat("0", keySize) + quote + "\r\n")
	}
	content := ""
	if p.Method != "GET" {
		content = body(p.BodySize)
		b.WriteString("Content-Type: application/json\r\n")
		b.WriteString("Content-Length: " + strconv.Itoa(len(content)) + "\r\n")
	}
	b.WriteString("\r\n" + content)
	r := request{bytes: []byte(b.String())}
	if p.Mode != Plain {
		r.key = r.bytes[keyAt : keyAt+keySize]
	}
	return r
}

// body returns a JSON object of exactly size bytes.
func body(size int) string {
	return `{"pad":"` + strings.Repeat("x", size-MinBodySize) + `"}`
}

// newRandom returns a generator whose stream no other one repeats.
func newRandom() *rand.ChaCha8 {
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails: it ends the program instead
	return rand.NewChaCha8(seed)
}

// writeUUID writes a random UUID (RFC 9562, 5.4) over the keySize bytes of dst.
func writeUUID(dst []byte, random *rand.ChaCha8) {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], random.Uint64())
	binary.LittleEndian.PutUint64(id[8:], random.Uint64())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of the RFC
	hex.Encode(dst, id[:4])
	dst[8] = '-'
	hex.Encode(dst[9:], id[4:6])
	dst[13] = '-'
	hex.Encode(dst[14:], id[6:8])
	dst[18] = '-'
	hex.Encode(dst[19:], id[8:10])
	dst[23] = '-'
	hex.Encode(dst[24:], id[10:])
}

// newKeySet returns n random keys, one behind the other.
func newKeySet(n int) []byte {
	random := newRandom()
	set := make([]byte, n*keySize)
	for at := 0; at < len(set); at += keySize {
		writeUUID(set[at:at+keySize], random)
	}
	return set
}
