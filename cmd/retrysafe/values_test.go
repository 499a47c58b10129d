package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		text string
		want time.Duration // -1: refused
	}{
		{"0s", 0}, {"0", 0}, {"0d", 0}, {"30s", 30 * time.Second}, {"1m30s", 90 * time.Second}, {"1us", time.Microsecond},
		{"30d", 30 * day}, {"720h", 30 * day}, {"1d12h", 36 * time.Hour}, {"1d0s", day}, {"01d", day}, {"65535d", 65535 * day},
		{"", -1}, {"30", -1}, {"d", -1}, {"5y", -1}, {"1w", -1}, {"1.5d", -1}, {"1d2d", -1}, {"12h1d", -1}, {" 1d", -1}, {"1d ", -1},
		{"-1s", -1}, {"-1d", -1}, {"+1d", -1}, {"1d-1h", -1}, {"1ns", -1}, {"999ns", -1}, {"65536d", -1}, {"2562048h", -1}, {"65535d2000000h", -1},
	}
	for _, tt := range tests {
		var got duration
		err := got.UnmarshalText([]byte(tt.text))
		if (err == nil) != (tt.want >= 0) || err == nil && time.Duration(got) != tt.want {
			t.Errorf("duration %q: got %v, %v, want %v", tt.text, time.Duration(got), err, tt.want)
		}
		if err != nil && (!strings.Contains(err.Error(), `"`+tt.text+`"`) || !strings.Contains(err.Error(), "want ")) {
			t.Errorf("duration %q: got error %q, want it to repeat the text and to say what is wanted", tt.text, err)
		}
	}
}

// What is read as a duration is never negative, and the same when it is written out and read again.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"30s", "30d", "1d12h", "-1s", "5y", "65535d2000000h", "1ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, again duration
		if got.UnmarshalText([]byte(text)) != nil {
			return
		}
		if got < 0 || got > 0 && got < duration(time.Microsecond) {
			t.Errorf("duration %q: got %v", text, time.Duration(got))
		}
		if err := again.UnmarshalText([]byte(time.Duration(got).String())); err != nil || again != got {
			t.Errorf("duration %q: got %v, and %v, %v from that", text, time.Duration(got), time.Duration(again), err)
		}
	})
}

func TestSizes(t *testing.T) {
	tests := []struct {
		text string
		want size // 0: refused
	}{
		{"1", 1}, {"1B", 1}, {"1048576", 1 << 20}, {"512KiB", 512 << 10}, {"10MiB", 10 << 20}, {"1GiB", 1 << 30}, {"1024GiB", 1 << 40},
		{"5kB", 5000}, {"5MB", 5_000_000}, {"5GB", 5_000_000_000}, {"10 MiB", 10 << 20},
		{"", 0}, {"0", 0}, {"0MiB", 0}, {"-1", 0}, {"1.5MiB", 0}, {"10m", 0}, {"10mib", 0}, {"MiB", 0}, {"1025GiB", 0}, {"9223372036854775807GiB", 0}, {"1TiB", 0},
	}
	for _, tt := range tests {
		var got size
		err := got.UnmarshalText([]byte(tt.text))
		if (err == nil) != (tt.want > 0) || got != tt.want {
			t.Errorf("size %q: got %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"10MiB", "1", "5 kB", "1024GiB", "-1B", "9223372036854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got size
		if err := got.UnmarshalText([]byte(text)); err == nil && (got < 1 || got > 1<<40) {
			t.Errorf("size %q: got %d, want 1 to %d", text, got, int64(1)<<40)
		}
	})
}

// What is taken for the URL of an upstream has all that it takes to reach one, and nothing else.
func FuzzUpstream(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1:9090", "https://[::1]:1/base", "http://a@b", "http://a:99999", "http:a", "//a", "http://:80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseUpstream(text)
		if err != nil {
			return
		}
		want := url.URL{Scheme: got.Scheme, Host: got.Host, Path: got.Path, RawPath: got.RawPath, OmitHost: got.OmitHost, ForceQuery: got.ForceQuery}
		if got.Hostname() == "" || got.Scheme != "http" && got.Scheme != "https" || *got != want {
			t.Errorf("upstream %q: got %#v", text, got)
		}
	})
}

func TestNetworks(t *testing.T) {
	got, err := parsePrefixes("--trust-proxy", []string{"10.1.2.3/8", "192.168.0.1", "::1", "2001:db8::1/32"})
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("2001:db8::/32")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("networks: got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "10.0.0.0/33", "10.0.0", "proxy", "10.0.0.0/8 ", "::1%lo/128"} {
		if got, err := parsePrefixes("--trust-proxy", []string{text}); err == nil {
			t.Errorf("network %q: got %v, want it refused", text, got)
		}
	}
}

func TestFingerprintKeyFile(t *testing.T) {
	a, b := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 48))
	file := filepath.Join(t.TempDir(), "keys")
	text := "# newest first\n\n  " + hex.EncodeToString(a) + "\r\n" + base64.StdEncoding.EncodeToString(b) // no end of line
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readFingerprintKeys(file)
	if want := [][]byte{a, b}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("keys of the file: got %q, %v, want %q", got, err, want)
	}
}
