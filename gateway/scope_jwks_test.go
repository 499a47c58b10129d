package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// An issuer publishes the keys of those names, and counts who asks.
type issuer struct {
	mu    sync.Mutex
	names []string
	down  error
	asked int
	slow  time.Duration
}

func (i *issuer) load(ctx context.Context) ([]byte, error) {
	i.mu.Lock()
	i.asked++
	set, down, slow := keysNamed(i.names...), i.down, i.slow
	i.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return set, down
}

func keysNamed(names ...string) []byte {
	var set jose.JSONWebKeySet
	for _, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: name, Algorithm: "ES256"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return text
}

// advance lets d pass on the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }

func (i *issuer) wantAsked(t *testing.T, what string, want int) {
	t.Helper()
	if i.asked != want {
		t.Errorf("%s: the issuer was asked %d times, want %d", what, i.asked, want)
	}
}

// finding looks a key up; blame says how that must end: "" found, "caller" or "issuer".
func (k *JWKS) finding(t *testing.T, what, kid, blame string) {
	t.Helper()
	_, err := k.find(t.Context(), kid, "ES256")
	got := "caller"
	switch {
	case err == nil:
		got = ""
	case errors.Is(err, idemhttp.ErrScopeUnavailable):
		got = "issuer"
	}
	if got != blame {
		t.Errorf("%s: got %v, want %q to blame", what, err, blame)
	}
}

func TestKeysAreFetched(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, i *issuer, k *JWKS){
		"when the first token comes, once for all who wait": func(t *testing.T, i *issuer, k *JWKS) {
			i.slow = time.Second
			i.wantAsked(t, "at start", 0)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { k.finding(t, "at once", "a", "") })
			}
			all.Wait()
			i.wantAsked(t, "50 tokens", 1)
		},
		"again for a key that is not known, and not for each token": func(t *testing.T, i *issuer, k *JWKS) {
			k.finding(t, "known", "a", "")
			i.names = []string{"a", "b"}
			k.finding(t, "new, too soon", "b", "caller")
			advance(jwksPause + 1)
			k.finding(t, "new", "b", "")
			i.wantAsked(t, "before the flood", 2)
			for n := range 15000 {
				k.finding(t, "made up", "x"+string(rune('a'+n%26)), "caller")
				advance(time.Millisecond)
			}
			k.finding(t, "known, in the flood", "a", "")
			i.wantAsked(t, "15,000 unknown keys in 15 s", 3)
		},
		"now and then, behind the requests": func(t *testing.T, i *issuer, k *JWKS) {
			k.finding(t, "known", "a", "")
			i.names, i.slow = []string{"b"}, time.Second
			advance(jwksFresh + 1)
			began := time.Now()
			k.finding(t, "withdrawn a moment ago", "a", "")
			if took := time.Since(began); took != 0 {
				t.Errorf("a request waited %v for keys that are known", took)
			}
			advance(2 * time.Second)
			k.finding(t, "withdrawn", "a", "caller")
			k.finding(t, "its successor", "b", "")
			i.wantAsked(t, "in all", 2)
		},
		"in vain: what is known stays for a while": func(t *testing.T, i *issuer, k *JWKS) {
			k.finding(t, "known", "a", "")
			i.down = errors.New("down")
			advance(jwksFresh + 1)
			k.finding(t, "known", "a", "")
			synctest.Wait()
			k.finding(t, "not known", "b", "issuer")
			advance(jwksStale)
			k.finding(t, "known an hour ago", "a", "issuer")
			i.down = nil
			advance(jwksPause + 1)
			k.finding(t, "back", "a", "")
		},
		"in vain at first": func(t *testing.T, i *issuer, k *JWKS) {
			i.down = errors.New("down")
			for range 100 {
				k.finding(t, "down", "a", "issuer")
			}
			i.wantAsked(t, "100 tokens", 1)
			i.down = nil
			advance(jwksPause + 1)
			k.finding(t, "back", "a", "")
		},
		"for a bounded time": func(t *testing.T, i *issuer, k *JWKS) {
			i.slow = time.Hour
			began := time.Now()
			k.finding(t, "silent", "a", "issuer")
			if took := time.Since(began); took != jwksWait {
				t.Errorf("a request waited %v, want %v", took, jwksWait)
			}
		},
		"though the first caller who waits hangs up": func(t *testing.T, i *issuer, k *JWKS) {
			i.slow = time.Second
			gone, hangUp := context.WithCancel(t.Context())
			go func() {
				synctest.Wait()
				hangUp()
			}()
			if _, err := k.find(gone, "a", "ES256"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the caller gone", err)
			}
			k.finding(t, "the next caller", "a", "")
			i.wantAsked(t, "in all", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{names: []string{"a"}}
				play(t, i, &JWKS{load: i.load, log: orSilent(nil)})
			})
		})
	}
}

func TestParseJWKS(t *testing.T) {
	a := string(keysNamed("a"))
	key := strings.TrimSuffix(strings.TrimPrefix(a, `{"keys":[`), "]}")
	for _, tt := range []struct {
		name, text string
		keys       int // 0: refused
	}{
		{"one", a, 1},
		{"a kind that is not known beside it", `{"keys":[{"kty":"future","kid":"f"},` + key + "]}", 1},
		{"a secret beside it", `{"keys":[{"kty":"oct","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC0","kid":"a"},` + key + "]}", 1},
		{"a secret alone", `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}`, 0},
		{"a short RSA key", `{"keys":[{"kty":"RSA","e":"AQAB","kid":"a","n":"` + strings.Repeat("q", 171) + `"}]}`, 0},
		{"for encryption", strings.Replace(a, `"kid"`, `"use":"enc","kid"`, 1), 0},
		{"for another algorithm", strings.Replace(a, "ES256", "HS256", 1), 0},
		{"none", `{"keys":[]}`, 0},
		{"no keys", `{}`, 0},
		{"a page", "<html>", 0},
		{"too many", `{"keys":[` + strings.Repeat(key+",", maxSetKeys) + key + "]}", 0},
		{"too large", a + strings.Repeat(" ", maxJWKS), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parseJWKS([]byte(tt.text)); len(got) != tt.keys || (err == nil) != (tt.keys > 0) {
				t.Errorf("got %d keys, %v, want %d", len(got), err, tt.keys)
			}
		})
	}
}

// What is published must not break or fill the gateway, whatever it is.
func FuzzParseJWKS(f *testing.F) {
	f.Add(keysNamed("a", "b"))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"","e":"AQAB"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseJWKS(text)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("got %d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if !k.Valid() || !k.IsPublic() {
				t.Errorf("key %q is no public key", k.KeyID)
			}
		}
	})
}

// What a URL answers is taken as it is: no redirect is followed, and only 200 holds keys.
func TestKeysFromAURL(t *testing.T) {
	set := keysNamed("a")
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) { w.Write(set) })
	mux.HandleFunc("/error", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); w.Write(set) })
	mux.Handle("/moved", http.RedirectHandler("/keys", http.StatusFound))
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 32<<10)); err != nil {
				return
			}
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for path, blame := range map[string]string{"/keys": "", "/error": "issuer", "/moved": "issuer", "/endless": "issuer", "/keys/none": "issuer"} {
		u, err := url.Parse(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := JWKSFrom(u, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.finding(t, path, "a", blame)
	}
	for _, wrong := range []string{"http://id.example/keys", "ftp://127.0.0.1/keys", "https://u:p@id.example/keys", "https:///keys"} {
		u, err := url.Parse(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := JWKSFrom(u, nil); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// A file is read at once, and again when a token names a key that is not in it.
func TestKeysFromAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "jwks.json")
		if _, err := JWKSFile(file, nil); err == nil {
			t.Error("a file that is not there is taken")
		}
		if err := os.WriteFile(file, keysNamed("a"), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := JWKSFile(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.finding(t, "known", "a", "")
		if err := os.WriteFile(file, keysNamed("b"), 0o600); err != nil {
			t.Fatal(err)
		}
		advance(jwksPause + 1)
		k.finding(t, "new", "b", "")
		k.finding(t, "gone", "a", "caller")
	})
}
