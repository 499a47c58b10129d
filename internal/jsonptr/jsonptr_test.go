package jsonptr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/jsonptr"
)

const document = `{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"big":9007199254740993,"é":"\u00e9","o":{"n":{"x":null}},"f":1.0e1}`

// The pointers of RFC 6901, 5, and what is ours.
func TestFind(t *testing.T) {
	for _, tt := range []struct{ pointer, want string }{
		{"", document},
		{"/foo", `["bar","baz"]`},
		{"/foo/0", `"bar"`},
		{"/foo/1", `"baz"`},
		{"/foo/2", ""},
		{"/foo/00", ""},
		{"/foo/01", ""},
		{"/foo/-", ""},
		{"/foo/x", ""},
		{"/", `0`},
		{"/a~1b", `1`},
		{"/m~0n", `8`},
		{"/big", `9007199254740993`},
		{"/f", `1.0e1`},
		{"/é", `"\u00e9"`},
		{"/o/n/x", `null`},
		{"/o/n/y", ""},
		{"/o/n/x/y", ""},
		{"/big/0", ""},
		{"/none", ""},
	} {
		t.Run(tt.pointer, func(t *testing.T) {
			p, err := jsonptr.Parse(tt.pointer)
			if err != nil {
				t.Fatal(err)
			}
			got, err := jsonptr.Find([]byte(document), p)
			if err != nil || string(got[0]) != tt.want || (got[0] == nil) != (tt.want == "") {
				t.Errorf("Find = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestSeveralAtOnce(t *testing.T) {
	a, _ := jsonptr.Parse("/f")
	b, _ := jsonptr.Parse("/foo/1")
	got, err := jsonptr.Find([]byte(document), a, b, a)
	if err != nil || len(got) != 3 || string(got[0]) != "1.0e1" || string(got[1]) != `"baz"` || string(got[2]) != "1.0e1" {
		t.Errorf("Find = %q, %v", got, err)
	}
}

func TestNotJSON(t *testing.T) {
	p, _ := jsonptr.Parse("/a")
	for name, text := range map[string]string{
		"empty":                          "",
		"cut":                            `{"a":1`,
		"two values":                     `{"a":1}{"a":2}`,
		"a doubled name":                 `{"a":1,"a":2}`,
		"a doubled name far away":        `{"a":1,"b":{"c":[{"d":1,"d":2}]}}`,
		"a name doubled by an escape":    `{"a":1,"\u0061":2}`,
		"not UTF-8":                      "{\"a\":\"\xff\"}",
		"half a pair of surrogates":      `{"a":"\ud800"}`,
		"not a number":                   `{"a":NaN}`,
		"a comma too many":               `{"a":1,}`,
		"nested beyond what is bearable": strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		if got, err := jsonptr.Find([]byte(text), p); !errors.Is(err, jsonptr.ErrNotJSON) {
			t.Errorf("%s: Find = %q, %v, want %v", name, got, err, jsonptr.ErrNotJSON)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"a", "a/b", "#/a", "/~", "/a~2", "/~0~"} {
		if p, err := jsonptr.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %q", text, p)
		}
	}
}

// What a pointer finds in a text is what encoding/json finds at the same place, written as it stands there.
func FuzzFind(f *testing.F) {
	f.Add([]byte(document), "/foo/1")
	f.Add([]byte(`{"a":{"b":[1,2,{"c":null}]}}`), "/a/b/2/c")
	f.Add([]byte(`{"a":1,"a":2}`), "/a")
	f.Fuzz(func(t *testing.T, text []byte, pointer string) {
		p, err := jsonptr.Parse(pointer)
		if err != nil {
			return
		}
		found, err := jsonptr.Find(text, p)
		if err != nil {
			return
		}
		var at any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&at); err != nil {
			t.Fatalf("%q is found in, and encoding/json says %v", text, err)
		}
		want, ok := descend(at, p)
		if ok != (found[0] != nil) {
			t.Fatalf("%q in %q: found %q, encoding/json: %v %v", pointer, text, found[0], ok, want)
		}
		if !ok {
			return
		}
		got, _ := json.Marshal(want)
		var again any
		d = json.NewDecoder(bytes.NewReader(found[0]))
		d.UseNumber()
		if err := d.Decode(&again); err != nil {
			t.Fatalf("what was found, %q, is no JSON: %v", found[0], err)
		}
		if b, _ := json.Marshal(again); !bytes.Equal(b, got) || !bytes.Contains(text, found[0]) {
			t.Fatalf("%q in %q: found %q, want %q", pointer, text, found[0], got)
		}
	})
}

func descend(at any, p jsonptr.Pointer) (any, bool) {
	for _, token := range p {
		switch v := at.(type) {
		case map[string]any:
			next, ok := v[token]
			if !ok {
				return nil, false
			}
			at = next
		case []any:
			i := 0
			for i < len(v) && itoa(i) != token {
				i++
			}
			if i == len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

func itoa(i int) string {
	b, _ := json.Marshal(i)
	return string(b)
}
