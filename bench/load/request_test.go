package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"testing"
)

// parseRequest reads r as a server does and fails t if it is not one whole request.
func parseRequest(t *testing.T, r request) (*http.Request, []byte) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(r.bytes))
	req, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("ReadRequest(%q): %v", r.bytes, err)
	}
	content, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("read body of %q: %v", r.bytes, err)
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Fatalf("%q has %d bytes behind its body", r.bytes, len(rest))
	}
	return req, content
}

func TestRequestIsWhatThePlanSays(t *testing.T) {
	to := target{host: "localhost:8080", path: "/charges?x=y"}
	for _, mode := range []Mode{Unique, Replay, Plain} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			for _, size := range []int{MinBodySize, 11, 128, 4096} {
				r := newRequest(Plan{Mode: mode, Method: method, BodySize: size}, to)
				req, content := parseRequest(t, r)
				if req.Method != method || req.RequestURI != to.path || req.Host != to.host {
					t.Errorf("request line of %s: got %s %s to %s", method, req.Method, req.RequestURI, req.Host)
				}
				if len(content) != size || !json.Valid(content) || req.Header.Get("Content-Type") != "application/json" {
					t.Errorf("body: got %d bytes %q of type %q; want %d bytes of JSON", len(content), content, req.Header.Get("Content-Type"), size)
				}
				if _, has := req.Header["Idempotency-Key"]; has != (mode != Plain) {
					t.Errorf("mode %s: has a key is %t", mode, has)
				}
			}
		}
	}
}

func TestGetHasNoBody(t *testing.T) {
	r := newRequest(Plan{Mode: Unique, Method: "GET", BodySize: 128}, target{host: "h", path: "/"})
	req, content := parseRequest(t, r)
	if len(content) > 0 || req.Header.Get("Content-Length") != "" || req.Header.Get("Idempotency-Key") == "" {
		t.Errorf("GET: got %d bytes of body, header %v; want a key and no body", len(content), req.Header)
	}
}

func TestKeysAreWrittenIntoTheRequest(t *testing.T) {
	uuid := regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$`)
	r := newRequest(Plan{Mode: Unique, Method: "POST", BodySize: 128}, target{host: "h", path: "/"})
	seen := map[string]bool{}
	set := append(newKeySet(500), newKeySet(500)...)
	for at := 0; at < len(set); at += keySize {
		copy(r.key, set[at:])
		req, _ := parseRequest(t, r)
		key := req.Header.Get("Idempotency-Key")
		if !uuid.MatchString(key) {
			t.Fatalf("key %s is no quoted random UUID", key)
		}
		seen[key] = true
	}
	if len(seen) != 1000 {
		t.Errorf("two sets of 500 keys hold %d different ones", len(seen))
	}
}

func TestOtherHeaderCarriesTheKeyWithoutQuotes(t *testing.T) {
	r := newRequest(Plan{Mode: Unique, Method: "POST", KeyHeader: "X-Request-Id", BodySize: 128}, target{host: "h", path: "/"})
	copy(r.key, newKeySet(1))
	req, _ := parseRequest(t, r)
	if key := req.Header.Get("X-Request-Id"); key != string(r.key) || req.Header.Get("Idempotency-Key") != "" {
		t.Errorf("X-Request-Id is %q, Idempotency-Key %q; want the key %q alone", key, req.Header.Get("Idempotency-Key"), r.key)
	}
}
