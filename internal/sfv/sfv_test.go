package sfv

import (
	"strings"
	"testing"
)

func TestParseStringAccepts(t *testing.T) {
	long := strings.Repeat("k", 1024) // the least that every parser must take, RFC 9651, 3.3.3
	tests := []struct{ name, field, want string }{
		{"uuid of the draft", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"letters of the draft", `"clkyoesmbgybucifusbbtdsbohtyuuwz"`, "clkyoesmbgybucifusbbtdsbohtyuuwz"},
		{"string of the RFC", `"hello world"`, "hello world"},
		{"empty string", `""`, ""},
		{"only spaces inside", `"  "`, "  "},
		{"every unescaped byte", `" !#$%&'()*+,-./09:;<=>?@AZ[]^_` + "`az{|}~\"", " !#$%&'()*+,-./09:;<=>?@AZ[]^_`az{|}~"},
		{"escaped quotes", `"foo \"bar\""`, `foo "bar"`},
		{"escaped backslash", `"a\\b"`, `a\b`},
		{"escaped backslash last", `"a\\"`, `a\`},
		{"only escapes", `"\"\\\""`, `"\"`},
		{"case is kept", `"AbC"`, "AbC"},
		{"comma inside quotes", `"order-1,attempt-2"`, "order-1,attempt-2"},
		{"two halves joined into one", `"foo, bar"`, "foo, bar"},
		{"digits stay text", `"007"`, "007"},
		{"spaces before", `   "k"`, "k"},
		{"spaces after", `"k"   `, "k"},
		{"1,024 characters", `"` + long + `"`, long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseString(tt.field)
			if err != nil || got != tt.want {
				t.Errorf("ParseString(%q) = %q, %v; want %q", tt.field, got, err, tt.want)
			}
		})
	}
}

func TestParseStringRefuses(t *testing.T) {
	tests := []struct{ name, field, want string }{
		{"empty field", ``, "field is empty, at byte 0"},
		{"only spaces", `  `, "field is empty, at byte 2"},
		{"tab before", "\t\"k\"", "not a string in double quotes, at byte 0"},
		{"tab after", "\"k\"\t", "unexpected byte after the item, at byte 3"},
		{"single quotes", `'foo'`, "not a string in double quotes, at byte 0"},
		{"bare uuid that starts with a digit", `8e03978e-40d5-43e8-bc93-6894a57f9324`, "not a string in double quotes, at byte 0"},
		{"bare uuid that is a token", `c0ffee00-40d5-43e8-bc93-6894a57f9324`, "not a string in double quotes, at byte 0"},
		{"token", `KG5LxwFBepaKHyUD`, "not a string in double quotes, at byte 0"},
		{"integer", `007`, "not a string in double quotes, at byte 0"},
		{"date", `@123`, "not a string in double quotes, at byte 0"},
		{"boolean", `?1`, "not a string in double quotes, at byte 0"},
		{"byte sequence", `:AA==:`, "not a string in double quotes, at byte 0"},
		{"display string", `%"k"`, "not a string in double quotes, at byte 0"},
		{"inner list", `("k")`, "not a string in double quotes, at byte 0"},
		{"open string", `"foo`, "string has no closing quote, at byte 4"},
		{"one quote", `"`, "string has no closing quote, at byte 1"},
		{"escape of another byte", `"foo \,"`, "backslash escapes neither quote nor backslash, at byte 6"},
		{"escape at the end", `"foo \`, "backslash escapes neither quote nor backslash, at byte 6"},
		{"escaped closing quote", `"foo\"`, "string has no closing quote, at byte 6"},
		{"control byte", "\"a\x00b\"", "not printable ASCII, at byte 2"},
		{"line feed", "\"a\nb\"", "not printable ASCII, at byte 2"},
		{"tab inside", "\"a\tb\"", "not printable ASCII, at byte 2"},
		{"delete byte", "\"a\x7f\"", "not printable ASCII, at byte 2"},
		{"UTF-8", `"é"`, "not printable ASCII, at byte 1"},
		{"two lines joined", `"a", "b"`, "unexpected byte after the item, at byte 3"},
		{"the same line twice", `"a", "a"`, "unexpected byte after the item, at byte 3"},
		{"open half joined to a whole", `"a, "b"`, "unexpected byte after the item, at byte 5"},
		{"list with empty member", `"a",`, "unexpected byte after the item, at byte 3"},
		{"text after", `"a"b`, "unexpected byte after the item, at byte 3"},
		{"text after spaces", `  "a" b`, "unexpected byte after the item, at byte 6"},
		{"second string without comma", `"a""b"`, "unexpected byte after the item, at byte 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkRefused(t, tt.field, tt.want) })
	}
}

// checkRefused fails t unless field is refused with a text that ends in want.
func checkRefused(t *testing.T, field, want string) {
	t.Helper()
	got, err := ParseString(field)
	if err == nil || got != "" {
		t.Fatalf("ParseString(%q) = %q, %v; want an error", field, got, err)
	}
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("ParseString(%q): error %q; want it to end in %q", field, err, want)
	}
}

func TestErrorsNeverEchoTheInput(t *testing.T) {
	const secret = "zqzqzqzq"
	for _, field := range []string{
		secret,
		`"` + secret,
		`"` + secret + "\x01",
		`"a\` + secret,
		`"a"` + secret,
		`"a";k="` + secret,
		`"a";` + strings.ToUpper(secret),
	} {
		if _, err := ParseString(field); err == nil || strings.Contains(strings.ToLower(err.Error()), "zq") {
			t.Errorf("ParseString(%q): error %v; want one without the input", field, err)
		}
	}
	if _, err := Quote(secret + "\n"); err == nil || strings.Contains(err.Error(), "zq") {
		t.Errorf("Quote: error %v; want one without the input", err)
	}
}

func TestQuote(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"uuid", "8e03978e-40d5-43e8-bc93-6894a57f9324", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`},
		{"empty", "", `""`},
		{"quotes", `foo "bar"`, `"foo \"bar\""`},
		{"backslash", `a\b`, `"a\\b"`},
		{"only specials", `"\`, `"\"\\"`},
		{"first and last printable byte", " ~", `" ~"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Quote(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("Quote(%q) = %s, %v; want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestQuoteRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"control byte", "ab\x1f", "sfv: quote: byte is not printable ASCII, at byte 2"},
		{"line feed", "\n", "sfv: quote: byte is not printable ASCII, at byte 0"},
		{"delete byte", "a\x7f", "sfv: quote: byte is not printable ASCII, at byte 1"},
		{"UTF-8", "abcé", "sfv: quote: byte is not printable ASCII, at byte 3"},
		{"byte that is no UTF-8", "\xff", "sfv: quote: byte is not printable ASCII, at byte 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Quote(tt.in)
			if err == nil || got != "" || err.Error() != tt.want {
				t.Errorf("Quote(%q) = %q, %v; want error %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParseStringDoesNotAllocate(t *testing.T) {
	for _, field := range []string{
		`"8e03978e-40d5-43e8-bc93-6894a57f9324"`,
		`  "k";v=1;a;b=?1;c=:AA==:;d=@123;e=%"f%c3%bc";f="\"";g=tok  `,
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := ParseString(field); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("ParseString(%q) allocates %v times; want 0", field, allocs)
		}
	}
}

func BenchmarkParseString(b *testing.B) {
	for _, bm := range []struct{ name, field string }{
		{"uuid", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`},
		{"parameters", `"8e03978e-40d5-43e8-bc93-6894a57f9324";v=1;a;b=?1;c=:AA==:;d=@123;e=%"f%c3%bc"`},
		{"escapes", `"order \"7\", attempt 2"`},
		{"refused", `8e03978e-40d5-43e8-bc93-6894a57f9324`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = ParseString(bm.field)
			}
		})
	}
}

func BenchmarkQuote(b *testing.B) {
	for _, bm := range []struct{ name, in string }{
		{"uuid", "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"escapes", `order "7", attempt 2`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Quote(bm.in)
			}
		})
	}
}
