package sfv

import (
	"regexp"
	"strings"
	"testing"
)

// itemGrammar is the grammar of a String Item, written down a second time as one
// regular expression after the ABNF of RFC 9651, appendix C, with two things that
// the algorithms of section 4.2 add to it: hex in lower case, and UTF-8.
func itemGrammar() *regexp.Regexp {
	const (
		str     = `"(?:[ !#-\[\]-~]|\\["\\])*"`
		integer = `-?[0-9]{1,15}`
		decimal = `-?[0-9]{1,12}\.[0-9]{1,3}`
		token   = "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"
		octets  = `:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:`
		boolean = `\?[01]`
		date    = `@` + integer

		tail  = `%[89ab][0-9a-f]` // RFC 3629, 4: UTF8-tail
		utf81 = `[ !#$&-~]|%[0-7][0-9a-f]`
		utf82 = `%(?:c[2-9a-f]|d[0-9a-f])` + tail
		utf83 = `(?:%e0%[ab][0-9a-f]|%e[1-9abcef]` + tail + `|%ed%[89][0-9a-f])` + tail
		utf84 = `(?:%f0%[9ab][0-9a-f]|%f[1-3]` + tail + `|%f4%8[0-9a-f])` + tail + tail
		disp  = `%"(?:` + utf81 + `|` + utf82 + `|` + utf83 + `|` + utf84 + `)*"`

		bare  = `(?:` + str + `|` + integer + `|` + decimal + `|` + token + `|` + octets + `|` + boolean + `|` + date + `|` + disp + `)`
		param = `; *[a-z*][a-z0-9_.*-]*(?:=` + bare + `)?`
	)
	return regexp.MustCompile(`\A *(` + str + `)(?:` + param + `)* *\z`)
}

// FuzzParseString takes s both as a field and as a value. As a field, s is
// accepted when the grammar says so and only then, and what was read survives
// writing and reading again. As a value, s survives writing and reading.
func FuzzParseString(f *testing.F) {
	grammar := itemGrammar()
	unescaper := strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	f.Fuzz(func(t *testing.T, s string) {
		value, err := ParseString(s)
		match := grammar.FindStringSubmatch(s)
		if (err == nil) != (match != nil) {
			t.Fatalf("ParseString(%q): error %v; the grammar says valid: %t", s, err, match != nil)
		}
		if err == nil {
			inner := match[1][1 : len(match[1])-1]
			if want := unescaper.Replace(inner); value != want {
				t.Fatalf("ParseString(%q) = %q; want %q", s, value, want)
			}
			checkRoundTrip(t, value)
		}
		if valid := !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }); valid {
			checkRoundTrip(t, s)
		} else if quoted, err := Quote(s); err == nil {
			t.Fatalf("Quote(%q) = %q; want an error", s, quoted)
		}
	})
}

// checkRoundTrip fails t unless value can be quoted and comes back as it was.
func checkRoundTrip(t *testing.T, value string) {
	t.Helper()
	quoted, err := Quote(value)
	if err != nil {
		t.Fatalf("Quote(%q): %v", value, err)
	}
	got, err := ParseString(quoted)
	if err != nil || got != value {
		t.Fatalf("ParseString(Quote(%q)) = %q, %v", value, got, err)
	}
}
