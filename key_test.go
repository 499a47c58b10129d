package retrysafe

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Keys: compared byte for byte (rule 6), shown to people in part, and printed nowhere.

func TestIDs(t *testing.T) {
	keys := []Key{
		{}, {Name: "a"}, {Scope: "a"}, {Scope: "a", Name: "a"}, {Scope: "ab", Name: "c"}, {Scope: "a", Name: "bc"}, {Name: "abc"}, {Scope: "abc"},
		{Name: "Key-1"}, {Name: "key-1"}, {Name: "key-1 "}, {Name: " key-1"}, {Name: "kéy"}, {Name: "ke\u0301y"}, {Name: "key"}, {Name: "key\x00"},
		{Name: "\xff"}, {Name: "\ufffd"}, {Scope: "t", Name: "n"}, Key{Scope: "t", Name: "n"}.derive(""), Key{Scope: "t", Name: "n"}.derive("a"),
		Key{Scope: "t", Name: "n"}.derive("a").derive("b"), Key{Scope: "t", Name: "n"}.derive("ab"), Key{Scope: "t", Name: "na"},
		{Name: strings.Repeat("x", 1<<16)}, {Name: strings.Repeat("x", 1<<16+1)},
	}
	seen := map[ID]int{}
	for i, k := range keys {
		if before, known := seen[k.ID()]; known {
			t.Errorf("keys %d and %d have one ID", i, before)
		}
		seen[k.ID()] = i
	}
	if _, known := seen[keyringID]; known {
		t.Error("a key has the ID of the keyring")
	}
}

// TestIDIsForEver: entries of all releases are found under it.
func TestIDIsForEver(t *testing.T) {
	const want = "6c8c2940c01e21344a12746738361403724cfa1ce5660c993f60d9d43f949e31" // SHA-256 of 8 bytes length, scope, 8 bytes length, name
	if got := (Key{Scope: "tenant-7", Name: "order-1001"}).ID().String(); got != want {
		t.Errorf("ID is %s, want %s", got, want)
	}
}

// TestKeyIsNotPrinted, neither its name nor its scope nor its steps, whichever way it is printed or logged.
func TestKeyIsNotPrinted(t *testing.T) {
	key := Key{Scope: "SECRET-scope", Name: "SECRET-name"}.derive("SECRET-step")
	request := Request{Key: key}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%10.3s"} {
		fmt.Fprintf(&out, verb+"\n", key)
		fmt.Fprintf(&out, verb+"\n", &key)
		fmt.Fprintf(&out, verb+"\n", request)
		fmt.Fprintf(&out, verb+"\n", []Key{key})
		fmt.Fprintf(&out, verb+"\n", ClaimRequest{Key: key})
		fmt.Fprintf(&out, verb+"\n", &Claim{key: key})
	}
	fmt.Fprintln(&out, key, &key, fmt.Errorf("do %v: %w", key, ErrStore))
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(h).Info("claimed", "key", key, "pointer", &key, slog.Any("any", key), slog.Group("in", "key", key))
	}
	for _, printed := range []string{out.String(), logged.String()} {
		for _, secret := range []string{"SECRET", hex.EncodeToString([]byte("SECRET")), fmt.Sprint([]byte("SECRET"))} {
			for line := range strings.Lines(printed) {
				if strings.Contains(line, secret) {
					t.Errorf("printed: %s", line)
				}
			}
		}
	}
	if tag := key.ID().String()[:12]; !strings.Contains(out.String(), tag) || !strings.Contains(logged.String(), tag) {
		t.Error("the key's tag is not printed, the test shows nothing")
	}
}

func TestParseID(t *testing.T) {
	id := Key{Name: "a"}.ID()
	text := id.String()
	for in, ok := range map[string]bool{
		text: true, strings.ToUpper(text): true, "": false, text[:63]: false, text + "0": false, text[:62]: false, text + text: false,
		"g" + text[1:]: false, " " + text[1:]: false, text[:63] + "é": false,
	} {
		got, err := ParseID(in)
		if (err == nil) != ok || ok && got != id || !ok && got != (ID{}) {
			t.Errorf("ParseID(%q): %v, %v", in, got, err)
		}
	}
}

func TestParseState(t *testing.T) {
	for s := Absent; s <= Reserved+1; s++ {
		got, err := ParseState(s.String())
		if operators := s >= Free && s <= Tombstone; operators != (err == nil) || operators && got != s {
			t.Errorf("ParseState(%q): %v, %v", s, got, err)
		}
	}
}

func TestDisplay(t *testing.T) {
	key := Key{Name: "order-1"}
	tests := []struct{ name, got, want string }{
		{"plain", key.display(), "order-1"},
		{"steps", key.derive("charge").derive("mail").display(), "order-1/charge/mail"},
		{"empty step", key.derive("").derive("a").display(), "order-1//a"},
		{"letters of the world", displayed("Zürich 東京"), "Zürich 東京"},
		{"control characters", displayed("a\nb\x00c\x7fd\u0085e"), "a\ufffdb\ufffdc\ufffdd\ufffde"},
		{"not UTF-8", displayed("caf\xe9"), "caf\ufffd"},
		{"long", displayed(strings.Repeat("x", 300)), strings.Repeat("x", 256)},
		{"long, cut between letters", displayed(strings.Repeat("東", 100)), strings.Repeat("東", 85)},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

// FuzzDisplayed: whatever a caller sends, what is shown is short valid text without control characters, and text
// that is so already stays as it is.
func FuzzDisplayed(f *testing.F) {
	for _, s := range []string{"", "order-1", "caf\xe9", "a\nb", strings.Repeat("東", 90), strings.Repeat("x", 255) + "é", strings.Repeat("\x00", 100), "\ufffd\xff\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := displayed(s)
		if len(got) > maxDisplay || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("displayed(%q) is %q", s, got)
		}
		if again := displayed(got); again != got {
			t.Errorf("displayed(%q) is %q, and that of it %q", s, got, again)
		}
		if fine := len(s) <= maxDisplay && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl); fine && got != s {
			t.Errorf("displayed(%q) is %q, want it as it is", s, got)
		}
		key := Key{Name: s}.derive(s)
		if d := key.display(); len(d) > maxDisplay || !utf8.ValidString(d) {
			t.Errorf("a derived key is shown as %q", d)
		}
	})
}

// FuzzParseID: it reads what String writes and nothing else, but for capitals.
func FuzzParseID(f *testing.F) {
	f.Add(Key{Name: "a"}.ID().String())
	f.Add("")
	f.Add(strings.Repeat("0", 64))
	f.Add(strings.Repeat("F", 64))
	f.Add(strings.Repeat("0", 63) + "g")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && id.String() != strings.ToLower(s) {
			t.Errorf("ParseID(%q) is %v", s, id)
		}
		if _, herr := hex.DecodeString(s); err != nil && herr == nil && len(s) == 2*len(id) {
			t.Errorf("ParseID(%q): %v", s, err)
		}
	})
}
