package idemhttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// mode returns what a configuration names.
func mode(t testing.TB, name string, exclude, selected []string) idemhttp.FingerprintFunc {
	t.Helper()
	f, err := idemhttp.ParseFingerprint(name, exclude, selected)
	if err != nil {
		t.Fatalf("ParseFingerprint(%q, %q, %q): %v", name, exclude, selected, err)
	}
	return f
}

// A pair is two bodies under one key, and whether the second is a retry of the first.
type pair struct {
	name          string
	first, second string
	same          bool
}

// try sends both bodies of each pair as a JSON document.
func try(t *testing.T, f idemhttp.FingerprintFunc, pairs []pair) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			wantRetry(t, f, asked("POST", "/a", "application/json", p.first), asked("POST", "/a", "application/json", p.second), p.same)
		})
	}
}

// wantRetry expects the second request to be answered with what the first was, or to be refused.
func wantRetry(t *testing.T, f idemhttp.FingerprintFunc, first, second func() *http.Request, same bool) {
	t.Helper()
	l := newLab(t, setup{guard: idemhttp.Options{Fingerprint: f}}, charged)
	wantCharged(t, "first", l.do(first()), false)
	if got := l.do(second()); same {
		wantCharged(t, "second", got, true)
	} else {
		wantProblem(t, "second", got, http.StatusUnprocessableEntity, problem.KeyReused)
	}
	wantCharged(t, "the first again", l.do(first()), true)
	l.wantRuns(t, 1)
}

// deep is a value inside of n arrays.
func deep(n int, value string) string { return strings.Repeat("[", n) + value + strings.Repeat("]", n) }

func TestCanonicalJSON(t *testing.T) {
	try(t, mode(t, "json", nil, nil), []pair{
		{"FP-1 members in another order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"FP-1 members in another order, far inside", `[{"a":[{"x":1,"y":{"p":1,"q":2}}],"b":2}]`, `[{"b":2,"a":[{"y":{"q":2,"p":1},"x":1}]}]`, true},
		{"FP-1 values change places with their names' order", `{"a":1,"b":2}`, `{"b":1,"a":2}`, false},
		{"FP-1 a name at two depths", `{"a":{"a":1},"b":2}`, `{"b":2, "a":{"a":1}}`, true},
		{"FP-1 members inside come before those outside", `{"y":{"b":1,"a":2},"x":3}`, `{"x":3,"y":{"a":2,"b":1}}`, true},
		{"FP-1 another value there", `{"y":{"b":1,"a":2},"x":3}`, `{"x":4,"y":{"a":2,"b":1}}`, false},
		{"FP-4 another space", `{"a":1}`, "\r\n{\t\"a\" : 1 } ", true},
		{"FP-4 space in a string", `{"a":"b c"}`, `{"a":"b  c"}`, false},

		{"FP-5 integers that are one float64", `{"amount":9007199254740992}`, `{"amount":9007199254740993}`, false},
		{"FP-5 integers beyond int64", `{"amount":9223372036854775808}`, `{"amount":9223372036854775809}`, false},
		{"FP-5 integers beyond uint64", `{"amount":18446744073709551616}`, `{"amount":18446744073709551617}`, false},
		{"FP-5 fractions that are one float64", `[0.1]`, `[0.10000000000000001]`, false},
		{"FP-5 beyond float64", `[1e400]`, `[1e401]`, false},
		{"FP-5 a number is its literal", `{"amount":1.0}`, `{"amount":1}`, false},
		{"FP-5 an exponent", `100`, `1e2`, false},
		{"FP-5 minus zero", `0`, `-0`, false},

		{"FP-7 a doubled member", `{"amount":1,"amount":100}`, `{"amount":100}`, false},
		{"FP-7 a doubled member in another order", `{"amount":1,"amount":100}`, `{"amount":100,"amount":1}`, false},
		{"FP-7 a member doubled by an escape", `{"amount":1,"\u0061mount":100}`, `{"\u0061mount":100,"amount":1}`, false},
		{"FP-7 a doubled member, byte for byte", `{"amount":1,"amount":100}`, `{"amount":1,"amount":100}`, true},
		{"FP-7 a doubled member far inside, another space", `[{"b":{"c":1,"c":1}}]`, `[{"b":{"c":1,"c":1} }]`, false},
		{"FP-7 half a pair of surrogates", `"\ud800"`, `"\ud801"`, false},
		{"FP-7 half a pair of surrogates, another space", `{"\ud800":1}`, `{"\ud800": 1}`, false},
		{"FP-7 not UTF-8", "\"\xff\"", "\"\xfe\"", false},
		{"FP-7 not a number", `{"a":NaN}`, `{"a": NaN}`, false},
		{"FP-7 two values", `{"a":1}{"b":1}`, `{"a":1} {"b":1}`, false},
		{"FP-7 more behind the value", `{"a":1}`, `{"a":1}]`, false},
		{"FP-7 a byte order mark", "\ufeff{\"a\":1}", `{"a":1}`, false},
		{"FP-7 nested as deep as may be", deep(64, `1`), deep(64, ` 1`), true},
		{"FP-7 nested too deep", deep(65, `1`), deep(65, ` 1`), false},
		{"FP-7 nested as deep as a stack", deep(1<<20, `1`), deep(1<<20, `2`), false},
		{"FP-7 cut off", `{"a":1`, `{"a":1 `, false},
		{"nothing", ``, ` `, false},
		{"what is no JSON looks like the form that is digested", `{"a":1}`, `{"a":1,}`, false},
		{"what is no JSON looks like the form that is digested, elements", `[1]`, `[1,]`, false},

		{"an escape that need not be", `{"\u0061":"\u00e9\/\ud83d\ude00"}`, `{"a":"é/😀"}`, true},
		{"an escape in other letters", `"\u00E9\u000a"`, `"\u00e9\n"`, true},
		{"an escaped backslash", `"\\u0061"`, `"a"`, false},
		{"an escaped quotation mark", `{"a\":1,\"b":1}`, `{"a":1,"b":1}`, false},
		{"letters that look alike", `"é"`, "\"e\u0301\"", false},
		{"FP-17 null is not absent", `{"memo":null}`, `{}`, false},
		{"null is no string", `null`, `"null"`, false},
		{"a string is no number", `{"a":"1"}`, `{"a":1}`, false},
		{"elements in another order", `[1,2]`, `[2,1]`, false},
		{"one element for two", `[1,2]`, `[12]`, false},
		{"borders of elements", `[1,[2]]`, `[[1,2]]`, false},
		{"an object is no array", `[]`, `{}`, false},
		{"case of a name", `{"a":1}`, `{"A":1}`, false},
	})
}

func TestCanonicalJSONWithoutSomeMembers(t *testing.T) {
	try(t, mode(t, "json", []string{"/context", "/meta/trace", "/items/0/id", "/a~1b", "/é", "/list/1", "/01"}, nil), []pair{
		{"FP-17 another value", `{"amount":1,"context":"a"}`, `{"context":{"b":[1]},"amount":1}`, true},
		{"FP-17 null, absent", `{"amount":1,"context":null}`, `{"amount":1}`, true},
		{"FP-17 another amount", `{"amount":1,"context":"a"}`, `{"amount":2,"context":"a"}`, false},
		{"FP-17 null elsewhere is not absent", `{"memo":null}`, `{}`, false},
		{"doubled", `{"context":1,"amount":1,"context":2}`, `{"amount":1}`, true},
		{"doubled inside", `{"context":{"a":1,"a":2}}`, `{"context":{"a":3}}`, true},
		{"one doubled that counts", `{"context":1,"amount":1,"amount":1}`, `{"context":2,"amount":1,"amount":1}`, false},
		{"no JSON inside", `{"context":nil}`, `{"context":NaN}`, false},
		{"its name is escaped", `{"\u0063ontext":1}`, `{"context":2}`, true},
		{"the same name elsewhere", `{"a":{"context":1}}`, `{"a":{"context":2}}`, false},
		{"a member of a member", `{"meta":{"trace":1,"kind":"k"}}`, `{"meta":{"kind":"k","trace":2}}`, true},
		{"what stands beside it", `{"meta":{"trace":1,"kind":"k"}}`, `{"meta":{"trace":1,"kind":"l"}}`, false},
		{"an object without it is not absent", `{"meta":{"trace":1}}`, `{}`, false},
		{"no object where it would stand", `{"meta":1}`, `{"meta":2}`, false},
		{"a member of an element", `{"items":[{"id":1,"n":1}]}`, `{"items":[{"id":2,"n":1}]}`, true},
		{"the same of another element", `{"items":[0,{"id":1}]}`, `{"items":[0,{"id":2}]}`, false},
		{"an element", `{"list":[1,2,3]}`, `{"list":[1,4,3]}`, true},
		{"the element behind it", `{"list":[1,2,3]}`, `{"list":[1,2,4]}`, false},
		{"a slash in the name", `{"a/b":1}`, `{"a/b":2}`, true},
		{"a name beyond ASCII", `{"\u00e9":1}`, `{"é":2}`, true},
	})
	try(t, mode(t, "json", []string{"/01"}, nil), []pair{
		{"an index with a zero before it", `[1,2]`, `[1,3]`, false},
		{"a name that looks like it", `{"01":2}`, `{"01":3}`, true},
	})
}

func TestSelectedJSON(t *testing.T) {
	try(t, mode(t, "selected", nil, []string{"/amount", "/to/iban", "/items/1"}), []pair{
		{"FP-13, FP-14 another memo", `{"amount":1,"memo":"a"}`, `{"memo":"b","amount":1}`, true},
		{"FP-13 another amount", `{"amount":1,"memo":"a"}`, `{"amount":2,"memo":"a"}`, false},
		{"FP-5 another big amount", `{"amount":9007199254740992}`, `{"amount":9007199254740993}`, false},
		{"null is not absent", `{"amount":1,"to":{"iban":null}}`, `{"amount":1,"to":{}}`, false},
		{"absent in several ways", `{"amount":1,"to":{}}`, `{"amount":1,"to":[2]}`, true},
		{"the value of one under another", `{"amount":1,"items":[0]}`, `{"items":[0,1]}`, false},
		{"an object in another order", `{"amount":{"a":1,"b":2}}`, `{"amount":{"b":2, "a":1}}`, true},
		{"an element", `{"items":[1,2,3]}`, `{"items":[3,2,1,0]}`, true},
		{"another element", `{"items":[1,2,3]}`, `{"items":[2,1,3]}`, false},
		{"FP-7 doubled", `{"amount":1,"amount":100}`, `{"amount":100}`, false},
		{"FP-7 doubled on the way", `{"to":{"iban":1},"to":{"iban":2}}`, `{"to":{"iban":2},"to":{"iban":1}}`, false},
		{"FP-7 more behind the value", `{"amount":1}`, `{"amount":1}1`, false},
		{"none is there", `{"memo":1}`, `{"memo":2}`, false},
		{"none is there, byte for byte", `{"memo":1}`, `{"memo":1}`, true},
		{"not an object", `7`, `8`, false},
	})
}

// FP-8, FP-10, FP-22: no mode looks at the body alone, and JSON is what says that it is.
func TestEveryModeBindsTheRest(t *testing.T) {
	const one, two = `{"a":1,"b":2}`, `{"b":2,"a":1}`
	for _, f := range []idemhttp.FingerprintFunc{mode(t, "json", nil, nil), mode(t, "selected", nil, []string{"/a"})} {
		for _, tt := range []struct {
			name          string
			first, second func() *http.Request
			same          bool
		}{
			{"the same", asked("POST", "/a?q=1", "application/json", one), asked("POST", "/a?q=1", "application/json", two), true},
			{"a charset", asked("POST", "/a", "application/JSON; charset=utf-8", one), asked("POST", "/a", "application/json;charset=UTF-8", two), true},
			{"a type that is JSON", asked("POST", "/a", "application/vnd.bank+json", one), asked("POST", "/a", "application/vnd.bank+json", two), true},
			{"another type that is JSON", asked("POST", "/a", "application/json", one), asked("POST", "/a", "application/vnd.bank+json", one), false},
			{"a type that is none", asked("POST", "/a", "text/plain", one), asked("POST", "/a", "text/plain", two), false},
			{"no type", asked("POST", "/a", "", one), asked("POST", "/a", "", two), false},
			{"FP-8 another method", asked("POST", "/a", "application/json", one), asked("PATCH", "/a", "application/json", one), false},
			{"FP-8 another path", asked("POST", "/charges", "application/json", one), asked("POST", "/refunds", "application/json", one), false},
			{"FP-10 another query", asked("POST", "/a?q=1", "application/json", one), asked("POST", "/a?q=2", "application/json", one), false},
			{"FP-22 it says that it is compressed", asked("POST", "/a", "application/json", one, "Content-Encoding", "gzip"), asked("POST", "/a", "application/json", two, "Content-Encoding", "gzip"), false},
			{"FP-22 another gzip level", gzipped(t, 1), gzipped(t, 9), false},
			{"FP-22 the same gzip level", gzipped(t, 1), gzipped(t, 1), true},
		} {
			t.Run(tt.name, func(t *testing.T) { wantRetry(t, f, tt.first, tt.second, tt.same) })
		}
	}
}

func gzipped(t *testing.T, level int) func() *http.Request {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(`{"a":1,"b":2,"memo":"` + strings.Repeat("again and ", 20) + `"}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return asked("POST", "/a", "application/json", b.String(), "Content-Encoding", "gzip")
}

func TestNoFingerprint(t *testing.T) {
	wantRetry(t, mode(t, "off", nil, nil), asked("POST", "/charges", "t/t", "a"), asked("PATCH", "/refunds?q", "u/u", "b"), true)
}

// What a key was used with survives an update: these are the bytes that stand in stores, sealed.
func TestRawFingerprintNeverChanges(t *testing.T) {
	const want = "484227bee995d5dd8d6837e9a3534a656220f03b1b23327397c49e4f0503383b"
	r := request("POST", "/charges/%7Bid%7D?a=1&b", "", "Content-Type", `Application/JSON; charset="UTF-8"; trace=1`)
	got, err := idemhttp.RawFingerprint(r, []byte(`{"amount":1}`))
	if err != nil || hex.EncodeToString(got[:]) != want {
		t.Errorf("RawFingerprint = %x, %v, want %s", got, err, want)
	}
	parts := ""
	for _, part := range []string{"POST", "/charges/%7Bid%7D", "a=1&b", "application/json;charset=utf-8"} {
		parts += strings.Repeat("\x00", 7) + string(rune(len(part))) + part
	}
	if plain := sum(parts + `{"amount":1}`); plain != got {
		t.Errorf("RawFingerprint = %x, want %x: the digest of the parts behind their lengths, and the body", got, plain)
	}
}

// No two modes see one thing in a request that they read, so that nobody gets another one's answer after a change of the
// configuration. Bodies of types that a mode does not read are to it what they are to raw.
func TestModesNeverMeet(t *testing.T) {
	wantApart(t, "application/json", []string{`{"a":1}`, `{"a":1,"a":1}`, `{"a":1,}`, ``}, map[string]idemhttp.FingerprintFunc{
		"raw": idemhttp.RawFingerprint, "off": idemhttp.NoFingerprint,
		"json": mode(t, "json", nil, nil), "without a": mode(t, "json", []string{"/a"}, nil), "without x": mode(t, "json", []string{"/x"}, nil), "without y": mode(t, "json", []string{"/y"}, nil),
		"only a": mode(t, "selected", nil, []string{"/a"}), "only a and x": mode(t, "selected", nil, []string{"/a", "/x"}),
	})
	wantApart(t, "multipart/form-data; boundary=b", []string{form("b", "name=a", "", "1"), "?"}, map[string]idemhttp.FingerprintFunc{
		"raw": idemhttp.RawFingerprint, "off": idemhttp.NoFingerprint, "multipart": idemhttp.Multipart(),
	})
}

func wantApart(t *testing.T, mediaType string, bodies []string, modes map[string]idemhttp.FingerprintFunc) {
	t.Helper()
	for _, body := range bodies {
		seen := map[retrysafe.Fingerprint]string{}
		for name, f := range modes {
			got, err := f(request("POST", "/a", "", "Content-Type", mediaType), []byte(body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if other, met := seen[got]; met {
				t.Errorf("%s and %s see the same in %q", name, other, body)
			}
			seen[got] = name
		}
	}
}

// The order of pointers, and one given twice, change nothing.
func TestPointersInAnyOrder(t *testing.T) {
	r, body := request("POST", "/a", "", "Content-Type", "application/json"), []byte(`{"a":1,"b":2}`)
	one, _ := mode(t, "selected", nil, []string{"/a", "/b"})(r, body)
	two, _ := mode(t, "selected", nil, []string{"/b", "/a", "/b"})(r, body)
	if one != two {
		t.Errorf("got %x and %x, want one fingerprint", one, two)
	}
}

// A FingerprintFunc that fails has nothing run; what it says stays with it.
func TestFingerprintFails(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Fingerprint: func(*http.Request, []byte) (retrysafe.Fingerprint, error) {
		return retrysafe.Fingerprint{}, errors.New("cannot read body-secret")
	}}}, charged)
	wantProblem(t, "first", l.do(post("k")), http.StatusBadRequest, problem.BodyUnreadable)
	l.wantRuns(t, 0)
	if n := l.store.calls.Load(); n != 0 {
		t.Errorf("the store was called %d times, want no claim", n)
	}
	if log := l.log.String(); strings.Contains(log, "secret") {
		t.Errorf("the log tells what was sent: %s", log)
	}
}

// A function of one's own sees the whole body, and decides.
func TestOwnFingerprint(t *testing.T) {
	try(t, func(_ *http.Request, body []byte) (retrysafe.Fingerprint, error) {
		order, _, _ := bytes.Cut(body, []byte("|"))
		return retrysafe.FingerprintOf(order), nil
	}, []pair{{"another memo", "7|a", "7|b", true}, {"another order", "7|a", "8|a", false}})
}

func TestParseFingerprintRefuses(t *testing.T) {
	for _, tt := range []struct {
		mode              string
		exclude, selected []string
		want              string
	}{
		{mode: "JSON", want: "raw, json, selected, multipart or off"},
		{mode: "raw", exclude: []string{"/a"}, want: "mode json only"},
		{mode: "selected", exclude: []string{"/a"}, selected: []string{"/b"}, want: "mode json only"},
		{mode: "json", selected: []string{"/a"}, want: "mode selected only"},
		{mode: "off", selected: []string{"/a"}, want: "mode selected only"},
		{mode: "selected", want: "at least one"},
		{mode: "json", exclude: []string{"context"}, want: "RFC 6901"},
		{mode: "json", exclude: []string{"/a~2"}, want: "RFC 6901"},
		{mode: "json", exclude: []string{""}, want: "the whole body"},
		{mode: "selected", selected: []string{"$.amount"}, want: "RFC 6901"},
		{mode: "selected", selected: []string{"/a/b", "/a"}, want: "covers"},
		{mode: "selected", selected: []string{"/a", "/a-b", "/a/b"}, want: "covers"},
		{mode: "json", exclude: strings.Split(many(101), ","), want: "at most 100"},
	} {
		if _, err := idemhttp.ParseFingerprint(tt.mode, tt.exclude, tt.selected); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseFingerprint(%q, %q, %q): %v, want %q", tt.mode, tt.exclude, tt.selected, err, tt.want)
		}
	}
}

// many is a list of n pointers.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(",/" + strconv.Itoa(i))
	}
	return b.String()[1:]
}

// Requests at the same time do not get into each other's way, and a body stays as it is for the handler.
func TestFingerprintsAtTheSameTime(t *testing.T) {
	for name, f := range map[string]idemhttp.FingerprintFunc{
		"json": mode(t, "json", []string{"/x"}, nil), "selected": mode(t, "selected", nil, []string{"/b", "/c/a"}), "multipart": idemhttp.Multipart(),
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 8 {
				n := strconv.Itoa(i)
				mediaType, body := "application/json", `{"x":1,"c":{"b":"\u0061`+n+`","a":[`+n+`]},"b":"`+strings.Repeat(n, 50*i)+`"}`
				if name == "multipart" {
					mediaType, body = "multipart/form-data; boundary=b", form("b", "name=a", "", n)
				}
				r, sent := request("POST", "/a", "", "Content-Type", mediaType), []byte(body)
				want, err := f(r, sent)
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					for range 200 {
						if got, err := f(r, sent); err != nil || got != want || string(sent) != body {
							t.Errorf("got %x, %v, want %x; the body is %s, was %s", got, err, want, sent, body)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}
