package idemhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/jsonptr"
)

// fingerprintOf is what f sees in a request with that body.
func fingerprintOf(t *testing.T, f idemhttp.FingerprintFunc, mediaType string, body []byte) retrysafe.Fingerprint {
	t.Helper()
	got, err := f(request("POST", "/a", "", "Content-Type", mediaType), body)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return got
}

// canonical is what the library for JSON makes of a text, with the literals of its numbers; ok is false where
// CanonicalJSON takes it byte for byte.
func canonical(text []byte) (form string, ok bool) {
	b, err := jsontext.AppendFormat(nil, text, jsontext.ReorderRawObjects(true))
	return string(b), err == nil && depth(text) <= 64
}

func depth(text []byte) (deepest int) {
	for d := jsontext.NewDecoder(bytes.NewReader(text)); ; deepest = max(deepest, d.StackDepth()) {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
	}
}

// rewritten writes the text in another way: members the other way round, each character of a string as an escape, with
// space wherever it may stand. The scalar with that number, from 0, names of members apart, becomes another one.
func rewritten(d *jsontext.Decoder, change *int) string {
	switch kind := d.PeekKind(); kind {
	case '{', '[':
		return rewrittenAll(d, kind, change)
	case '"':
		t, _ := d.ReadToken()
		*change--
		if *change == -1 {
			return escaped(t.String() + "x")
		}
		return escaped(t.String())
	default:
		v, _ := d.ReadValue()
		*change--
		switch {
		case *change != -1:
			return string(v)
		case kind == '0':
			return string(v[:len(v)-1]) + "1" + string(v[len(v)-1]) // one digit more, before the last
		}
		return map[jsontext.Kind]string{'n': "false", 't': "null", 'f': "true"}[kind]
	}
}

func rewrittenAll(d *jsontext.Decoder, kind jsontext.Kind, change *int) string {
	var all []string
	for d.ReadToken(); d.PeekKind() != '}' && d.PeekKind() != ']'; {
		name := ""
		if kind == '{' {
			t, _ := d.ReadToken()
			name = escaped(t.String()) + " :\t"
		}
		all = append(all, name+rewritten(d, change))
	}
	end, _ := d.ReadToken()
	if kind == '{' {
		slices.Reverse(all)
	}
	return kind.String()[:1] + "\n" + strings.Join(all, " ,\r\n") + " " + end.String()
}

func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

// FuzzCanonicalJSON holds CanonicalJSON against the library: two texts are one if and only if it writes them alike, or
// they are the same bytes. Written in another way a text stays what it is; with another value somewhere it does not.
func FuzzCanonicalJSON(f *testing.F) {
	f.Add([]byte(`{"b":[1.0,true,{"y":null,"x":"\u00e9"}],"a":-0}`), []byte(`{"a":-0,"b":[1.0,true,{"x":"é","y":null}]}`), uint8(2))
	f.Add([]byte(`{"a":1,"\u0061":2}`), []byte(`{"a":2,"a":1}`), uint8(0))
	f.Add([]byte(`"\ud800"`), []byte("\"\xff\""), uint8(0))
	f.Add([]byte(`{"a":1}`), []byte(`{"a":1,}`), uint8(0))
	f.Fuzz(func(t *testing.T, one, two []byte, n uint8) {
		json := mode(t, "json", nil, nil)
		see := func(text []byte) retrysafe.Fingerprint { return fingerprintOf(t, json, "application/json", text) }
		form, ok := canonical(one)
		form2, ok2 := canonical(two)
		if same := bytes.Equal(one, two) || ok && ok2 && form == form2; same != (see(one) == see(two)) {
			t.Fatalf("%q and %q are one: %v, by the library %v", one, two, !same, same)
		}
		if !ok {
			if see(one) == see(append(bytes.Clone(one), ' ')) {
				t.Fatalf("%q is no JSON, and a byte of it does not count", one)
			}
			return
		}
		change := 1 << 30
		again := rewritten(jsontext.NewDecoder(bytes.NewReader(one)), &change)
		if see(one) != see([]byte(again)) {
			t.Fatalf("%q written as %q is another", one, again)
		}
		scalars := 1<<30 - change
		if scalars == 0 {
			return
		}
		change = int(n) % scalars
		if other := rewritten(jsontext.NewDecoder(bytes.NewReader(one)), &change); see(one) == see([]byte(other)) {
			t.Fatalf("%q and %q are one", one, other)
		}
	})
}

// FuzzSelectedJSON holds SelectedJSON against the search that finds keys: two texts are one if and only if what is found
// in both is.
func FuzzSelectedJSON(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[0,{"d":null}]}`), []byte(`{"c":[1,{"d":null}],"a":{"b":1,"x":2}}`), "/a/b", "/c/1")
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"a":2,"a":1}`), "/a", "/b")
	f.Fuzz(func(t *testing.T, one, two []byte, p, q string) {
		selected, err := idemhttp.SelectedJSON(p, q)
		if err != nil || depth(one) > 64 || depth(two) > 64 {
			return
		}
		form, ok := found(t, one, p, q)
		form2, ok2 := found(t, two, p, q)
		same := bytes.Equal(one, two) || ok && ok2 && form == form2
		if got := fingerprintOf(t, selected, "application/json", one) == fingerprintOf(t, selected, "application/json", two); got != same {
			t.Fatalf("by %s and %s, %q and %q are one: %v, by what is found %v", p, q, one, two, got, same)
		}
	})
}

// found is what pointers lead to in a text; ok is false where SelectedJSON takes it byte for byte.
func found(t *testing.T, text []byte, pointers ...string) (forms [2]string, ok bool) {
	t.Helper()
	for i, pointer := range pointers {
		p, err := jsonptr.Parse(pointer)
		if err != nil {
			t.Fatalf("SelectedJSON has taken %q: %v", pointer, err)
		}
		values, err := jsonptr.Find(text, p)
		if err != nil {
			return forms, false
		}
		if values[0] != nil {
			forms[i], ok = canonical(values[0])
		}
	}
	return forms, ok
}

// FuzzMultipart writes a form twice, with two boundaries: it is one form, unless a byte of it is another.
func FuzzMultipart(f *testing.F) {
	f.Add("file", "a.txt", "text/plain", []byte("abc"), []byte("hi"), uint16(1), "X", "Y")
	f.Add("", "", "", []byte("--X"), []byte("\r\n--X--"), uint16(9), "X-", "X")
	f.Fuzz(func(t *testing.T, name, file, partType string, content, more []byte, at uint16, x, y string) {
		one, kind, ok := written(x, name, file, partType, content, more)
		two, kind2, ok2 := written(y, name, file, partType, content, more)
		read := idemhttp.Multipart()
		fingerprintOf(t, read, "multipart/form-data; boundary=X", content) // whatever it is: it does not panic
		if !ok || !ok2 {
			return
		}
		if fingerprintOf(t, read, kind, one) != fingerprintOf(t, read, kind2, two) {
			t.Fatalf("%q and %q are two", one, two)
		}
		changed := append(bytes.Clone(content), more...)
		if len(changed) == 0 {
			return
		}
		changed[int(at)%len(changed)] ^= 1
		other, kind3, ok := written(x, name, file, partType, changed[:len(content)], changed[len(content):])
		if ok && fingerprintOf(t, read, kind, one) == fingerprintOf(t, read, kind3, other) {
			t.Fatalf("%q and %q are one", one, other)
		}
	})
}

// written is a form of two parts; ok is false where the boundary is none, or stands inside, or a line of a head would
// be cut.
func written(boundary, name, file, partType string, content, more []byte) (body []byte, mediaType string, ok bool) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if w.SetBoundary(boundary) != nil || strings.ContainsFunc(name+file+partType, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, "", false
	}
	head := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q; filename=%q", name, file)}, "Content-Type": {partType}}
	for _, part := range []struct {
		head    textproto.MIMEHeader
		content []byte
	}{{head, content}, {textproto.MIMEHeader{"Content-Disposition": {"form-data; name=more"}}, more}} {
		p, err := w.CreatePart(part.head)
		if err != nil {
			return nil, "", false
		}
		p.Write(part.content) // into memory
	}
	w.Close()
	in := http.Request{Method: "POST", Header: http.Header{"Content-Type": {w.FormDataContentType()}}, Body: io.NopCloser(bytes.NewReader(b.Bytes()))}
	return b.Bytes(), w.FormDataContentType(), bytes.Count(b.Bytes(), []byte("--"+boundary)) == 3 && in.ParseMultipartForm(1<<20) == nil
}
