package sfv

import (
	"strings"
	"testing"
)

// parameters are what may follow a String.
type parameters struct{ name, params string }

func (p parameters) check(t *testing.T) {
	field := ` "k"` + p.params + ` `
	got, err := ParseString(field)
	if err != nil || got != "k" {
		t.Errorf("ParseString(%q) = %q, %v; want k", field, got, err)
	}
}

func TestParametersAreReadAndDropped(t *testing.T) {
	longKey := strings.Repeat("k", 64) // the least that every parser must take, RFC 9651, 3.1.2
	many := strings.Repeat(";p", 256)  // likewise
	for _, tt := range []parameters{
		{"all types at once", `;v=1;a;b=?1;c=:AA==:;d=@123;e=%"f%c3%bc"`},
		{"no value", `;a`},
		{"spaces before keys", `;  a;   b=1`},
		{"the same key twice", `;a=1;a=2`},
		{"key of every kind of byte", `;*a-0_.*`},
		{"key of one star", `;*`},
		{"64 characters of key", `;` + longKey},
		{"256 parameters", many},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestParametersOfAllTypesAreRead(t *testing.T) {
	token := strings.Repeat("t", 512)      // likewise, 3.3.4
	octets := strings.Repeat("AAAA", 5462) // likewise 16,384 octets, 3.3.5
	for _, tt := range []parameters{
		{"integer", `;v=42`},
		{"leading zeros", `;v=-00042`},
		{"negative zero", `;v=-0`},
		{"integer of 15 digits", `;v=-999999999999999`},
		{"decimal", `;v=4.5`},
		{"longest decimal", `;v=-123456789012.123`},
		{"string", `;v="a;b=\"c\\\", d"`},
		{"empty string", `;v=""`},
		{"token of the RFC", `;v=foo123/456`},
		{"token of every kind of byte", ";v=aZ9!#$%&'*+-.^_`|~:/"},
		{"token that starts with a star", `;v=*`},
		{"512 characters of token", `;v=` + token},
		{"byte sequence of the RFC", `;v=:cHJldGVuZCB0aGlzIGlzIGJpbmFyeSBjb250ZW50Lg==:`},
		{"empty byte sequence", `;v=::`},
		{"16,384 octets", `;v=:` + octets + `:`},
		{"padding left out, one", `;v=:aGVsbG8:`},
		{"padding left out, two", `;v=:AA:`},
		{"pad bits that are not zero", `;v=:iZ==:`},
		{"plus and slash", `;v=:+/+/:`},
		{"false", `;v=?0`},
		{"date of the RFC", `;v=@1659578233`},
		{"date before 1970", `;v=@-62135596800`},
		{"display string of the RFC", `;v=%"This is intended for display to %c3%bcsers."`},
		{"empty display string", `;v=%""`},
		{"display string of ASCII", `;v=%" !#$&'()*+,-./09:;<=>?@AZ[\]^_` + "`az{|}~%22%25\""},
		{"display string with NUL", `;v=%"%00"`},
		{"display string with byte order mark", `;v=%"BOM: %ef%bb%bf"`},
		{"display string with replacement character", `;v=%"%ef%bf%bd"`},
		{"display string with four bytes", `;v=%"%f0%9f%98%80"`},
		{"display string with last code point", `;v=%"%f4%8f%bf%bf"`},
	} {
		t.Run(tt.name, tt.check)
	}
}

// A refusal is parameters and how the error must end. The String before them
// is 3 bytes long.
type refusal struct{ name, params, want string }

func (r refusal) check(t *testing.T) { checkRefused(t, `"k"`+r.params, r.want) }

func TestBadParametersAreRefused(t *testing.T) {
	for _, tt := range []refusal{
		{"semicolon last", `;`, "parameter has no valid key, at byte 4"},
		{"space before semicolon", ` ;a`, "unexpected byte after the item, at byte 4"},
		{"tab after semicolon", ";\ta", "parameter has no valid key, at byte 4"},
		{"upper case key", `;A=1`, "parameter has no valid key, at byte 4"},
		{"upper case inside key", `;aB=1`, "unexpected byte after the item, at byte 5"},
		{"key that starts with a digit", `;1=a`, "parameter has no valid key, at byte 4"},
		{"key without name", `;=1`, "parameter has no valid key, at byte 4"},
		{"space before equals", `;a =1`, "unexpected byte after the item, at byte 6"},
		{"space after equals", `;a= 1`, "of no known type, at byte 6"},
		{"value missing", `;a=`, "of no known type, at byte 6"},
		{"value missing before the next", `;a=;b`, "of no known type, at byte 6"},
		{"inner list", `;a=(1)`, "of no known type, at byte 6"},
		{"comma after", `;a=1,`, "unexpected byte after the item, at byte 7"},
		{"open string", `;a="b`, "string has no closing quote, at byte 8"},
		{"string that is not ASCII", `;a="é"`, "byte in string is not printable ASCII, at byte 7"},
		{"token with at sign", `;a=b@c`, "unexpected byte after the item, at byte 7"},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestBadNumbersBooleansAndDatesAreRefused(t *testing.T) {
	for _, tt := range []refusal{
		{"minus alone", `;a=-`, "number has no digits, at byte 7"},
		{"minus before letter", `;a=-a2`, "number has no digits, at byte 7"},
		{"two signs", `;a=--1`, "number has no digits, at byte 7"},
		{"plus sign", `;a=+1`, "of no known type, at byte 6"},
		{"integer of 16 digits", `;a=1234567890123456`, "more than 15 digits, at byte 22"},
		{"decimal of 13 digits", `;a=1234567890123.1`, "more than 12 digits before the point, at byte 20"},
		{"decimal of 16 digits", `;a=1234567890123456.1`, "more than 15 digits, at byte 22"},
		{"point last", `;a=1.`, "not 1 to 3 digits after the point, at byte 8"},
		{"point first", `;a=.1`, "of no known type, at byte 6"},
		{"four digits of fraction", `;a=1.1234`, "not 1 to 3 digits after the point, at byte 12"},
		{"two points", `;a=1.5.4`, "unexpected byte after the item, at byte 9"},
		{"exponent", `;a=1e3`, "unexpected byte after the item, at byte 7"},
		{"question mark alone", `;a=?`, "boolean is neither 0 nor 1, at byte 7"},
		{"boolean in letters", `;a=?T`, "boolean is neither 0 nor 1, at byte 7"},
		{"boolean two", `;a=?2`, "boolean is neither 0 nor 1, at byte 7"},
		{"boolean of two digits", `;a=?10`, "unexpected byte after the item, at byte 8"},
		{"date with fraction", `;a=@1659578233.12`, "date is not an integer, at byte 20"},
		{"date without number", `;a=@`, "number has no digits, at byte 7"},
		{"date with space", `;a=@ 1`, "number has no digits, at byte 7"},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestBadByteSequencesAreRefused(t *testing.T) {
	for _, tt := range []refusal{
		{"open byte sequence", `;a=:aGVsbG8=`, "no closing colon, at byte 15"},
		{"space in byte sequence", `;a=:aGVsb G8=:`, "outside base64 or no closing colon, at byte 12"},
		{"other alphabet", `;a=:_-_-:`, "outside base64 or no closing colon, at byte 7"},
		{"padding first", `;a=:=aGVsbG8=:`, "outside base64 or no closing colon, at byte 8"},
		{"padding inside", `;a=:a=GVsbG8=:`, "outside base64 or no closing colon, at byte 9"},
		{"lone character", `;a=:A:`, "not whole base64, at byte 8"},
		{"half of the padding", `;a=:AA=:`, "not whole base64, at byte 10"},
		{"too much padding", `;a=:AAA==:`, "not whole base64, at byte 12"},
		{"only padding", `;a=:====:`, "not whole base64, at byte 11"},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestBadDisplayStringsAreRefused(t *testing.T) {
	for _, tt := range []refusal{
		{"percent alone", `;a=%`, "display string has no opening quote, at byte 7"},
		{"display string unquoted", `;a=%foo`, "display string has no opening quote, at byte 7"},
		{"open display string", `;a=%"foo`, "display string has no closing quote, at byte 11"},
		{"upper case hex", `;a=%"f%C3%BC"`, "two lower case hex digits, at byte 10"},
		{"half an octet", `;a=%"foo %a"`, "two lower case hex digits, at byte 14"},
		{"half an octet at the end", `;a=%"foo %a`, "two lower case hex digits, at byte 14"},
		{"percent at the end", `;a=%"%`, "two lower case hex digits, at byte 9"},
		{"tab in display string", ";a=%\"\t\"", "byte in display string is not printable ASCII, at byte 8"},
		{"display string with raw UTF-8", `;a=%"ü"`, "byte in display string is not printable ASCII, at byte 8"},
		{"two bytes, second wrong", `;a=%"%c3%28"`, "display string is not UTF-8, at byte 13"},
		{"continuation byte first", `;a=%"%a0%a1"`, "display string is not UTF-8, at byte 10"},
		{"three bytes, second wrong", `;a=%"%e2%28%a1"`, "display string is not UTF-8, at byte 13"},
		{"four bytes, second wrong", `;a=%"%f0%28%8c%28"`, "display string is not UTF-8, at byte 13"},
		{"four bytes, third wrong", `;a=%"%f0%90%28%bc"`, "display string is not UTF-8, at byte 16"},
		{"character cut by the quote", `;a=%"%e2%82"`, "display string is not UTF-8, at byte 14"},
		{"character cut by a letter", `;a=%"%c3a"`, "display string is not UTF-8, at byte 11"},
		{"surrogate", `;a=%"%ed%a0%80"`, "display string is not UTF-8, at byte 13"},
		{"longer than needed", `;a=%"%c0%af"`, "display string is not UTF-8, at byte 10"},
		{"beyond the last code point", `;a=%"%f4%90%80%80"`, "display string is not UTF-8, at byte 13"},
	} {
		t.Run(tt.name, tt.check)
	}
}
