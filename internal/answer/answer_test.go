package answer_test

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/answer"
)

var whole = answer.Answer{Status: 201, Header: http.Header{"Location": {"/charges/1"}, "Link": {"</1>; rel=next", "</2>; rel=prev"}, "Etag": {""}}, Body: []byte("{\"id\":1}\x00\xff")}

// What is read is what was written, to the byte.
func TestRoundTrip(t *testing.T) {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	for _, tt := range []struct {
		name string
		a    answer.Answer
	}{
		{"headers and body", whole},
		{"status only", answer.Answer{Status: 204}},
		{"the least status", answer.Answer{Status: 200}},
		{"the greatest status", answer.Answer{Status: 999}},
		{"every byte", answer.Answer{Status: 200, Body: everyByte}},
		{"a body that looks like headers", answer.Answer{Status: 200, Header: http.Header{"A": {"b"}}, Body: []byte("\x01A\x01b")}},
		{"a large body", answer.Answer{Status: 200, Body: bytes.Repeat([]byte("x"), 1<<20)}},
		{"a long value", answer.Answer{Status: 200, Header: http.Header{"Link": {strings.Repeat("v", 1<<16)}}}},
		{"many lines", answer.Answer{Status: 200, Header: http.Header{"Vary": slices.Repeat([]string{"a", "b"}, 100)}}},
		{"a value that is not ASCII", answer.Answer{Status: 200, Header: http.Header{"Content-Disposition": {"filename=\"\xe9\xc3\xa9\""}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answer.Decode(tt.a.Encode())
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if got.Status != tt.a.Status || !bytes.Equal(got.Body, tt.a.Body) || !equal(got.Header, tt.a.Header) {
				t.Errorf("got %d %v %.40q, want %d %v %.40q", got.Status, got.Header, got.Body, tt.a.Status, tt.a.Header, tt.a.Body)
			}
		})
	}
}

// equal tells whether two headers say the same: a name without lines says nothing.
func equal(a, b http.Header) bool {
	for _, names := range []http.Header{a, b} {
		for name := range names {
			if !slices.Equal(a[name], b[name]) {
				return false
			}
		}
	}
	return true
}

func TestEqualAnswersHaveEqualBytes(t *testing.T) {
	want := whole.Encode()
	for range 50 { // maps are walked in another order each time
		if got := (answer.Answer{Status: whole.Status, Header: whole.Header.Clone(), Body: whole.Body}).Encode(); !bytes.Equal(got, want) {
			t.Fatalf("got %q, then %q", want, got)
		}
	}
}

// EncodeOnly keeps the headers that are named, in that order, and no other.
func TestEncodeOnly(t *testing.T) {
	var lines []string
	_, body, err := answer.DecodeLines(whole.EncodeOnly([]string{"Location", "X-Absent", "Link"}), func(name, value string) { lines = append(lines, name+": "+value) })
	want := []string{"Location: /charges/1", "Link: </1>; rel=next", "Link: </2>; rel=prev"}
	if err != nil || !slices.Equal(lines, want) || !bytes.Equal(body, whole.Body) {
		t.Errorf("got lines %q, body %q, %v, want lines %q", lines, body, err, want)
	}
}

// What no server could send is refused on the way in and on the way out.
func TestCheckRefuses(t *testing.T) {
	header := func(name, value string) http.Header { return http.Header{name: {"fine", value}} }
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		fine   bool
	}{
		{"nothing wrong", 200, header("X-Fine", "v"), true},
		{"an empty value", 200, header("X-Fine", ""), true},
		{"a tab within", 200, header("X-Fine", "a\tb"), true},
		{"no headers", 599, nil, true},
		{"status 0", 0, nil, false},
		{"status 199", 199, nil, false},
		{"an informational status", 103, nil, false},
		{"status 1000", 1000, nil, false},
		{"a negative status", -1, nil, false},
		{"a status that wraps around", 1<<32 + 200, nil, false},
		{"an empty name", 200, header("", "v"), false},
		{"a space in the name", 200, header("X Y", "v"), false},
		{"a colon in the name", 200, header("X:", "v"), false},
		{"a line break in the name", 200, header("X\r\nY", "v"), false},
		{"a letter that is not ASCII in the name", 200, header("Xé", "v"), false},
		{"a line break in the value", 200, header("X", "a\r\nSet-Cookie: b"), false},
		{"a bare CR", 200, header("X", "a\rb"), false},
		{"a bare LF", 200, header("X", "a\nb"), false},
		{"NUL", 200, header("X", "a\x00b"), false},
		{"DEL", 200, header("X", "a\x7fb"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := answer.Answer{Status: tt.status, Header: tt.header, Body: []byte("body")}
			got := a.Check()
			_, decoded := answer.Decode(a.Encode())
			for what, err := range map[string]error{"Check": got, "Decode": decoded} {
				if tt.fine && err != nil || !tt.fine && !errors.Is(err, answer.ErrMalformed) {
					t.Errorf("%s: %v, want it taken: %v", what, err, tt.fine)
				}
				if err != nil && strings.ContainsAny(err.Error(), "\r\n\x00") {
					t.Errorf("%s: the error repeats what is wrong: %q", what, err)
				}
			}
			if err := a.CheckOnly([]string{"X-Other"}); (err == nil) != (tt.status >= 200 && tt.status <= 999) {
				t.Errorf("CheckOnly of another header: %v", err)
			}
		})
	}
}

// Every prefix of an answer that ends before its body is refused, and so is every other version.
func TestDecodeRefusesWhatWasCut(t *testing.T) {
	b := whole.Encode()
	head := len(b) - len(whole.Body)
	for n := range head {
		if a, err := answer.Decode(b[:n]); !errors.Is(err, answer.ErrMalformed) {
			t.Errorf("the first %d bytes are read as %v, %v", n, a, err)
		}
	}
	for v := range 256 {
		other := append([]byte{byte(v)}, b[1:]...)
		if _, err := answer.Decode(other); (err == nil) != (v == int(b[0])) {
			t.Errorf("version %d: %v", v, err)
		}
	}
	for _, huge := range []string{"\x01\xc8\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\xc8\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := answer.Decode([]byte(huge)); !errors.Is(err, answer.ErrMalformed) {
			t.Errorf("%q: %v", huge, err)
		}
	}
}

// What belongs to one exchange is known by its canonical name.
func TestOfOneExchange(t *testing.T) {
	for name, want := range map[string]bool{"Set-Cookie": true, "Set-Cookie2": true, "Proxy-Authenticate": true, "Proxy-Anything": true, "Ratelimit": true,
		"Ratelimit-Policy": true, "X-Ratelimit-Reset": true, "Access-Control-Expose-Headers": true, "Content-Security-Policy-Report-Only": true, "Date": true,
		"Idempotent-Replayed": true, "Retry-After": true, "Content-Type": false, "Location": false, "Etag": false, "Proxy": false, "X-Proxy-Id": false, "Datetime": false, "": false} {
		if got := answer.OfOneExchange(name); got != want {
			t.Errorf("OfOneExchange(%q) = %v, want %v", name, got, want)
		}
	}
}

// FuzzDecode reads any bytes: what is taken could be sent, lines of one name stand together as DecodeLines promises,
// and writing it again gives the same bytes: no two of them are one answer.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(whole.Encode())
	f.Add(answer.Answer{Status: 204}.Encode())
	f.Add([]byte("\x01\xc8\x01\x03\x01A\x011\x01B\x012\x01A\x013"))
	f.Add([]byte("\x01\xc8\x81\x00\x00body"))
	f.Add([]byte("\x01\xc8\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := answer.Decode(b)
		if err != nil {
			if !errors.Is(err, answer.ErrMalformed) || a.Status != 0 || a.Header != nil || a.Body != nil {
				t.Errorf("Decode(%q) = %v, %v", b, a, err)
			}
			return
		}
		if err := a.Check(); err != nil {
			t.Errorf("Decode(%q) takes what Check refuses: %v", b, err)
		}
		var names []string
		if _, _, err := answer.DecodeLines(b, func(name, _ string) { names = append(names, name) }); err != nil {
			t.Fatalf("DecodeLines(%q): %v", b, err)
		}
		names = slices.Compact(names)
		if len(names) != len(a.Header) {
			t.Errorf("Decode(%q): lines of one name stand apart: %q", b, names)
		}
		if again := a.EncodeOnly(names); !bytes.Equal(again, b) {
			t.Errorf("Decode(%q) is written again as %q", b, again)
		}
	})
}
