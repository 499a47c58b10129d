package idemhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/internal/sfv"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// guards returns a lenient and a strict guard of charged on one fresh store.
func guards(t *testing.T) (lenient, strict http.Handler, e *retrysafe.Executor) {
	t.Helper()
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := idemhttp.New(e, idemhttp.SharedScope, nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := idemhttp.New(e, idemhttp.SharedScope, &idemhttp.Options{Preset: idemhttp.IETFStrict})
	if err != nil {
		t.Fatal(err)
	}
	return one.Handler(http.HandlerFunc(charged)), two.Handler(http.HandlerFunc(charged)), e
}

// FuzzKeyField sends any bytes as the header's value: it is one key or it is refused, whatever they are; quoting a key
// changes nothing; strict takes no more than lenient; a key that is taken is found under its own bytes.
func FuzzKeyField(f *testing.F) {
	for _, field := range []string{"k", `"k"`, `"k";p=1`, `"a\"b"`, "007", "a,b", "", `""`, `"`, " k ", "\x00", "é", `"k" x`, strings.Repeat("k", 256)} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		lenient, strict, e := guards(t)
		got := answered(lenient, post(field))
		hard := answered(strict, post(field))
		if got.status == 400 {
			wantProblem(t, "lenient", got, 400, problem.KeyInvalid)
			wantProblem(t, "strict", hard, 400, problem.KeyInvalid)
			return
		}
		key := strings.Trim(field, " \t")
		if strings.HasPrefix(key, `"`) {
			var err error
			if key, err = sfv.ParseString(key); err != nil {
				t.Fatalf("field %q is taken, and is no string: %v", field, err)
			}
			wantCharged(t, "strict", hard, true)
		} else {
			wantProblem(t, "strict", hard, 400, problem.KeyInvalid)
		}
		if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("field %q is taken as key %q", field, key)
		}
		if r, err := e.Inspect(t.Context(), idOf(key)); err != nil || r.Key != key {
			t.Fatalf("field %q stands under %q: %v", field, r.Key, err)
		}
		quoted, err := sfv.Quote(key)
		if err != nil {
			t.Fatalf("key %q cannot be quoted: %v", key, err)
		}
		wantCharged(t, "quoted, strict", answered(strict, post(quoted)), true)
	})
}

// FuzzContentType sends any bytes as the media type: nothing breaks, and a retry with the same bytes is a retry.
func FuzzContentType(f *testing.F) {
	for _, field := range []string{"", "application/json", "Application/JSON; charset=UTF-8", "multipart/form-data; boundary=X", "text/;;", `a/b; charset="`, "a/b; charset*=utf-8''x", ";", "a/b;charset=\x00"} {
		f.Add(field, field)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		lenient, _, _ := guards(t)
		send := func(mediaType string) reply {
			r := post("k")
			r.Header["Content-Type"] = []string{mediaType}
			return answered(lenient, r)
		}
		wantCharged(t, "first", send(one), false)
		wantCharged(t, "again", send(one), true)
		other := send(two)
		if other.status != 422 {
			wantCharged(t, "an equal type", other, true)
			wantSameType(t, one, two)
		}
	})
}

// wantSameType expects two fields that pass for one to share their type, as far as anyone can read it.
func wantSameType(t *testing.T, one, two string) {
	t.Helper()
	base := func(field string) string {
		t, _, _ := strings.Cut(strings.ToLower(field), ";")
		return strings.TrimSpace(t)
	}
	if base(one) != base(two) {
		t.Errorf("%q passes for %q", two, one)
	}
}
