package idemhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

const refused = "\x00" // stands for no key: the field is refused

// The syntax of the header: a String of RFC 9651 (draft-07, 2.1), or, unless Strict, a bare key byte for byte.
func TestKeySyntax(t *testing.T) {
	long := strings.Repeat("k", 255)
	tests := []struct {
		name    string
		field   string
		lenient string // the key that the field carries
		strict  string
	}{
		{"draft example, UUID", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"draft example, letters", `"clkyoesmbgybucifusbbtdsbohtyuuwz"`, "clkyoesmbgybucifusbbtdsbohtyuuwz", "clkyoesmbgybucifusbbtdsbohtyuuwz"},
		{"quoted", `"k"`, "k", "k"},
		{"quoted, with a parameter", `"k";p=1`, "k", "k"},
		{"quoted, with parameters of all types", `"k";a;b=?1;c=2.5;d="x";e=tok;f=:AA==:`, "k", "k"},
		{"quoted, spaces around", `  "k"  `, "k", "k"},
		{"quoted, escapes", `"a\"b\\c"`, `a"b\c`, `a"b\c`},
		{"KP-2 quoted, comma", `"order-1,attempt-2"`, "order-1,attempt-2", "order-1,attempt-2"},
		{"quoted, space within", `"a b"`, "a b", "a b"},
		{"quoted, space at its ends", `" k "`, " k ", " k "},
		{"KP-4 quoted, empty", `""`, refused, refused},
		{"quoted, empty, with a parameter", `"";p=1`, refused, refused},
		{"KP-7 quoted, 255 bytes", `"` + long + `"`, long, long},
		{"KP-7 quoted, 256 bytes", `"` + long + `k"`, refused, refused},
		{"length counts after decoding", `"` + strings.Repeat(`\"`, 255) + `"`, strings.Repeat(`"`, 255), strings.Repeat(`"`, 255)},
		{"quote not closed", `"k`, refused, refused},
		{"only a quote", `"`, refused, refused},
		{"escape of nothing", `"k\`, refused, refused},
		{"escape of a letter", `"\k"`, refused, refused},
		{"bytes after the item", `"k" x`, refused, refused},
		{"KP-1 joined by a proxy, equal", `"k", "k"`, refused, refused},
		{"KP-1 joined by a proxy, different", `"a", "b"`, refused, refused},
		{"parameter cut short", `"k";`, refused, refused},
		{"quoted, control byte", "\"a\tb\"", refused, refused},
		{"quoted, not ASCII", `"é"`, refused, refused},
		{"quoted, DEL", "\"\x7f\"", refused, refused},

		{"UUID that begins with a digit", "8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324", refused},
		{"UUID that begins with a letter", "c0ffee00-40d5-43e8-bc93-6894a57f9324", "c0ffee00-40d5-43e8-bc93-6894a57f9324", refused},
		{"stripe-go's own", "1700000000123456789_aB-x_9", "1700000000123456789_aB-x_9", refused},
		{"Stainless", "stainless-go-8e03978e-40d5", "stainless-go-8e03978e-40d5", refused},
		{"Open Banking sample", "FRESCO.21302.GFX.20", "FRESCO.21302.GFX.20", refused},
		{"number with zeros", "007", "007", refused},
		{"date look-alike", "@123", "@123", refused},
		{"boolean look-alike", "?1", "?1", refused},
		{"bytes look-alike", ":AA==:", ":AA==:", refused},
		{"parameter look-alike", "k;p=1", "k;p=1", refused},
		{"Razorpay's, with spaces", "a b  c", "a b  c", refused},
		{"spaces and tabs around", " \t k\t ", "k", refused},
		{"apostrophes", "'k'", "'k'", refused},
		{"KP-7 255 bytes", long, long, refused},
		{"KP-7 256 bytes", long + "k", refused, refused},
		{"KP-7 200 letters of two bytes", strings.Repeat("é", 200), refused, refused},
		{"KP-8 64 KiB", strings.Repeat("k", 64<<10), refused, refused},
		{"KP-4 empty", "", refused, refused},
		{"KP-4 blank", " \t ", refused, refused},
		{"KP-1 equal lines joined", "k, k", refused, refused},
		{"KP-2 comma", "order-1,attempt-2", refused, refused},
		{"quote within", `a"b`, refused, refused},
		{"quote at the end", `k"`, refused, refused},
		{"backslash", `a\b`, refused, refused},
		{"control byte", "a\x01b", refused, refused},
		{"NUL", "a\x00b", refused, refused},
		{"DEL", "a\x7fb", refused, refused},
		{"not ASCII", "clé", refused, refused},
		{"not UTF-8", "a\xffb", refused, refused},
	}
	for _, tt := range tests {
		for _, mode := range []struct {
			name   string
			preset idemhttp.Preset
			want   string
		}{{"lenient", idemhttp.IETF, tt.lenient}, {"strict", idemhttp.IETFStrict, tt.strict}} {
			t.Run(tt.name+", "+mode.name, func(t *testing.T) {
				l := newLab(t, setup{guard: idemhttp.Options{Preset: mode.preset}}, charged)
				got := l.do(post(tt.field))
				if mode.want != refused {
					wantCharged(t, "request", got, false)
					if r := l.stands(t, mode.want); r.State != retrysafe.Completed {
						t.Errorf("%v stands under %q, want the charge; the store holds %q", r.State, mode.want, l.store.dump(t))
					}
					return
				}
				wantProblem(t, "request", got, 400, problem.KeyInvalid)
				if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
					t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
				}
			})
		}
	}
}

// Which fields carry the same key. Identity is the key's bytes, never its spelling.
func TestKeyIdentity(t *testing.T) {
	tests := []struct {
		name          string
		first, second string
		same          bool
	}{
		{"quoted and bare", `"k"`, "k", true},
		{"bare and quoted", "k", `"k"`, true},
		{"parameters are no part of it", `"k";v=1`, `"k";v=2`, true},
		{"spaces around are no part of it", " k ", "k", true},
		{"007 is not 7", "007", "7", false},
		{"1.0 is not 1.00", "1.0", "1.00", false},
		{"KP-5 case counts", "AbC", "abc", false},
		{"KP-5 case counts in quotes", `"AbC"`, `"abc"`, false},
		{"KP-5 space within quotes counts", `"k "`, `"k"`, false},
		{"a bare parameter counts", "k;v=1", "k", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, charged)
			wantCharged(t, "first", l.do(post(tt.first)), false)
			wantCharged(t, "second", l.do(post(tt.second)), tt.same)
		})
	}
}

// KP-1: a proxy that doubles the line must not make another key of it, nor may two keys be one's choice.
func TestTwoKeyLinesAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, first, second string }{
		{"equal", "k", "k"}, {"different", "k", "j"}, {"quoted", `"k"`, `"j"`}, {"two halves of one string", `"fo`, `o"`},
		{"second empty", "k", ""}, {"first empty", "", "k"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, charged)
			wantProblem(t, "two lines", l.do(post(tt.first, "Idempotency-Key", tt.second)), 400, problem.KeyInvalid)
			if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
				t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
			}
			wantCharged(t, "one line", l.do(post("k")), false)
			l.wantRuns(t, 1)
		})
	}
}

// KP-2, KP-7: the problem says what to change, and repeats nothing of the key.
func TestProblemOfABadKeyNamesTheFault(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{MaxKey: 20}}, charged)
	for field, words := range map[string]string{
		"secret,secret":               "','",
		"secret-secret-secret-secret": "at most 20",
		"":                            "empty",
		`"secret`:                     "closing quote",
	} {
		got := l.do(post(field))
		wantProblem(t, field, got, 400, problem.KeyInvalid)
		if !strings.Contains(got.body, words) {
			t.Errorf("problem of %q does not say %q: %s", field, words, got.body)
		}
	}
}

// KP-11: machines can tell the refusals apart.
func TestRefusalsOfKeysHaveCodesOfTheirOwn(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Required: true}}, charged)
	wantProblem(t, "no line", l.do(request(http.MethodPost, "/charges", "")), 400, problem.KeyMissing)
	wantProblem(t, "an empty line", l.do(post("")), 400, problem.KeyInvalid)
	l.do(post("k"))
	wantProblem(t, "another request", l.do(request(http.MethodPost, "/other", "", "Idempotency-Key", "k")), 422, problem.KeyReused)
}

// KP-10: no header that a caller can send says that a request was handled before.
func TestCallersCannotClaimThatItWasDone(t *testing.T) {
	l := newLab(t, setup{}, charged)
	lines := []string{"X-Hit", "true", "Idempotent-Replayed", "true", "Idempotency-Status", "unknown"}
	wantCharged(t, "without a key", l.do(request(http.MethodPost, "/charges", "{}", lines...)), false)
	wantCharged(t, "with a key", l.do(post("k", lines...)), false)
	l.wantRuns(t, 2)
}

// Requests that are not guarded pass untouched and touch no store.
func TestUnguardedRequestsTouchNoStore(t *testing.T) {
	tests := []struct {
		name string
		o    idemhttp.Options
		r    *http.Request
	}{
		{"POST without a key", idemhttp.Options{}, request(http.MethodPost, "/", "x")},
		{"GET with a key", idemhttp.Options{}, request(http.MethodGet, "/", "", "Idempotency-Key", "k")},
		{"GET with a bad key", idemhttp.Options{}, request(http.MethodGet, "/", "", "Idempotency-Key", "a,b")},
		{"GET where a key is required", idemhttp.Options{Required: true}, request(http.MethodGet, "/", "")},
		{"HEAD with a key", idemhttp.Options{}, request(http.MethodHead, "/", "", "Idempotency-Key", "k")},
		{"HR-5 OPTIONS that asks for the key", idemhttp.Options{Required: true}, request(http.MethodOptions, "/", "", "Access-Control-Request-Headers", "idempotency-key")},
		{"TRACE with a key", idemhttp.Options{}, request(http.MethodTrace, "/", "", "Idempotency-Key", "k")},
		{"PUT with a key", idemhttp.Options{}, request(http.MethodPut, "/", "x", "Idempotency-Key", "k")},
		{"DELETE with a key", idemhttp.Options{}, request(http.MethodDelete, "/", "", "Idempotency-Key", "k")},
		{"POST where only PUT is guarded", idemhttp.Options{Methods: []string{"PUT"}}, request(http.MethodPost, "/", "x", "Idempotency-Key", "k")},
		{"a key under a name that is not configured", idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"X-Order"}}}, request(http.MethodPost, "/", "x", "Idempotency-Key", "k")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen *http.Request
			l := newLab(t, setup{guard: tt.o}, func(_ http.ResponseWriter, r *http.Request) { seen = r })
			l.do(tt.r)
			l.do(tt.r)
			l.wantRuns(t, 2)
			if seen != tt.r {
				t.Error("the handler did not get the request as it came")
			}
			if n := l.store.calls.Load(); n != 0 {
				t.Errorf("%d store calls, want none", n)
			}
		})
	}
}

// The methods that a route may guard, and the name of its header.
func TestGuardedByChoice(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    idemhttp.Options
		r    func() *http.Request
	}{
		{"PATCH by default", idemhttp.Options{}, func() *http.Request { return request("PATCH", "/", "x", "Idempotency-Key", "k") }},
		{"PUT", idemhttp.Options{Methods: []string{"PUT"}}, func() *http.Request { return request("PUT", "/", "x", "Idempotency-Key", "k") }},
		{"DELETE", idemhttp.Options{Methods: []string{"DELETE"}}, func() *http.Request { return request("DELETE", "/", "", "Idempotency-Key", "k") }},
		{"a header of another name", idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"x-order-ID"}}}, func() *http.Request { return request("POST", "/", "x", "X-Order-Id", "k") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{guard: tt.o}, charged)
			wantCharged(t, "first", l.do(tt.r()), false)
			wantCharged(t, "again", l.do(tt.r()), true)
		})
	}
}
