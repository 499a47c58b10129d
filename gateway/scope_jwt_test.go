package gateway_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Keys of the tests, made once: RSA takes a while.
var (
	issuerKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	forgerKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// claims are what a token says.
type claims = map[string]any

// good returns what a token says that is believed, with changes; nil takes a claim away.
func good(changes claims) claims {
	now := time.Now()
	c := claims{"iss": "https://id.example", "aud": []string{"other", "payments"}, "sub": "alice", "exp": now.Add(time.Minute).Unix(), "nbf": now.Unix(), "iat": now.Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// token signs claims by hand, so that what no library would sign can be signed, too.
func token(header map[string]any, c any, sign func(signed string) []byte) string {
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	signed := part(header) + "." + part(c)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(signed))
}

func rs256(key *rsa.PrivateKey) func(string) []byte {
	return func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		return must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))
	}
}

func hs256(secret []byte) func(string) []byte {
	return func(signed string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		return mac.Sum(nil)
	}
}

// issued is a token of the issuer.
func issued(changes claims) string {
	return token(map[string]any{"alg": "RS256", "typ": "at+jwt", "kid": "r1"}, good(changes), rs256(issuerKey()))
}

// keySet is a JWKS in JSON.
func keySet(keys ...jose.JSONWebKey) []byte {
	return must(json.Marshal(jose.JSONWebKeySet{Keys: keys}))
}

func issuerSet() []byte {
	return keySet(jose.JSONWebKey{Key: issuerKey().Public(), KeyID: "r1", Use: "sig", Algorithm: "RS256"})
}

// jwtScope returns the scope of tokens whose claim names the caller, by keys in a file.
func jwtScope(t *testing.T, claim string, set []byte) idemhttp.ScopeFunc {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jwks.json")
	writeFile(t, file, set)
	keys, err := gateway.JWKSFile(file, nil)
	if err != nil {
		t.Fatalf("JWKSFile: %v", err)
	}
	scope, err := gateway.JWTScope(gateway.JWT{Claim: claim, Issuer: "https://id.example", Audience: "payments", Keys: keys})
	if err != nil {
		t.Fatalf("JWTScope: %v", err)
	}
	return scope
}

func bearing(token string) *http.Request { return post("k", "body", "Authorization", "Bearer "+token) }

// S15: what names a caller is signed by the issuer, for us, for now, and is an access token.
func TestJWTScope(t *testing.T) {
	head := map[string]any{"alg": "RS256", "typ": "JWT", "kid": "r1"}
	with := func(changes map[string]any) map[string]any {
		h := maps.Clone(head)
		maps.Copy(h, changes)
		maps.DeleteFunc(h, func(_ string, v any) bool { return v == nil })
		return h
	}
	ours := rs256(issuerKey())
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(issuerKey().Public()))})
	forgedHead := with(map[string]any{"jwk": jose.JSONWebKey{Key: forgerKey().Public(), Algorithm: "RS256"}, "jku": "https://evil.example/keys", "kid": "evil"})
	now := time.Now()
	for _, tt := range []struct {
		name, token string
		ok          bool
	}{
		{"issued", issued(nil), true},
		{"of type JWT", token(head, good(nil), ours), true},
		{"of type application/at+jwt", token(with(map[string]any{"typ": "application/at+JWT"}), good(nil), ours), true},
		{"of no type", token(with(map[string]any{"typ": nil}), good(nil), ours), true},
		{"names no key, and there is one", token(with(map[string]any{"kid": nil}), good(nil), ours), true},
		{"audience alone", issued(claims{"aud": "payments"}), true},
		{"expired within the leeway", issued(claims{"exp": now.Add(-10 * time.Second).Unix()}), true},

		{"empty", "", false},
		{"no token", "token-secret", false},
		{"algorithm none", token(with(map[string]any{"alg": "none"}), good(nil), func(string) []byte { return nil }), false},
		{"algorithm None, signature kept", token(with(map[string]any{"alg": "None"}), good(nil), ours), false},
		{"HS256 with the public key as the secret, PEM", token(with(map[string]any{"alg": "HS256"}), good(nil), hs256(public)), false},
		{"HS256 with the public key as the secret, DER", token(with(map[string]any{"alg": "HS256"}), good(nil), hs256(must(x509.MarshalPKIXPublicKey(issuerKey().Public())))), false},
		{"another algorithm than the key's", token(with(map[string]any{"alg": "RS512"}), good(nil), ours), false},
		{"signed by somebody else", token(head, good(nil), rs256(forgerKey())), false},
		{"brings its own key", token(forgedHead, good(nil), rs256(forgerKey())), false},
		{"names a key that is not there", token(with(map[string]any{"kid": "r2"}), good(nil), ours), false},
		{"changed after it was signed", swapClaims(issued(nil), good(claims{"sub": "bob"})), false},
		{"extension that is not understood", token(with(map[string]any{"crit": []string{"x"}, "x": 1}), good(nil), ours), false},
		{"a log-out token", token(with(map[string]any{"typ": "logout+jwt"}), good(nil), ours), false},
		{"a type that is no text", token(with(map[string]any{"typ": 1}), good(nil), ours), false},
		{"another issuer", issued(claims{"iss": "https://evil.example"}), false},
		{"issuer with a slash more", issued(claims{"iss": "https://id.example/"}), false},
		{"no issuer", issued(claims{"iss": nil}), false},
		{"for somebody else", issued(claims{"aud": "other"}), false},
		{"for nobody", issued(claims{"aud": nil}), false},
		{"expired", issued(claims{"exp": now.Add(-time.Minute).Unix()}), false},
		{"never expires", issued(claims{"exp": nil}), false},
		{"not valid yet", issued(claims{"nbf": now.Add(time.Minute).Unix()}), false},
		{"issued in the future", issued(claims{"iat": now.Add(time.Minute).Unix()}), false},
		{"no caller", issued(claims{"sub": nil}), false},
		{"the caller is empty", issued(claims{"sub": ""}), false},
		{"the caller is a list", issued(claims{"sub": []string{"alice"}}), false},
		{"the caller is a number", issued(claims{"sub": 7}), false},
		{"the caller is too long", issued(claims{"sub": strings.Repeat("a", 513)}), false},
		{"the caller is no Unicode", issued(claims{"sub": json.RawMessage(`"\ud800"`)}), false},
		{"claims that are a list", token(head, []string{"alice"}, ours), false},
		{"too long", issued(claims{"more": strings.Repeat("x", 16<<10)}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scope := jwtScope(t, "sub", issuerSet())
			got, err := scope(bearing(tt.token))
			want := ""
			if tt.ok {
				want = "https://id.example sub alice"
			}
			if got != want || (err == nil) != tt.ok || errors.Is(err, idemhttp.ErrScopeUnavailable) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes the token: %v", err)
			}
		})
	}
}

// swapClaims keeps header and signature.
func swapClaims(token string, c claims) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(must(json.Marshal(c))) + "." + parts[2]
}

func TestBearer(t *testing.T) {
	scope, good := jwtScope(t, "sub", issuerSet()), issued(nil)
	for _, tt := range []struct {
		name  string
		lines []string
		ok    bool
	}{
		{"one", []string{"Bearer " + good}, true},
		{"another case", []string{"bearer  " + good}, true}, // RFC 9110, 11.1 and 11.4
		{"none", nil, false},
		{"two", []string{"Bearer " + good, "Bearer " + good}, false},
		{"another scheme", []string{"Basic " + good}, false},
		{"no scheme", []string{good}, false},
		{"the scheme alone", []string{"Bearer"}, false},
		{"two tokens", []string{"Bearer " + good + ", Bearer " + good}, false},
	} {
		r := post("k", "body")
		r.Header["Authorization"] = tt.lines
		if _, err := scope(r); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// Every algorithm that is allowed verifies, and a key is used for its own kind only.
func TestJWTAlgorithms(t *testing.T) {
	ec := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := keySet(jose.JSONWebKey{Key: issuerKey().Public(), KeyID: "rsa"}, jose.JSONWebKey{Key: ec.Public(), KeyID: "ec"}, jose.JSONWebKey{Key: ed.Public(), KeyID: "ed"},
		jose.JSONWebKey{Key: forgerKey().Public(), KeyID: "enc", Use: "enc"})
	scope := jwtScope(t, "sub", set)
	for _, tt := range []struct {
		kid, alg string
		key      any
		ok       bool
	}{
		{"rsa", "RS384", issuerKey(), true}, {"rsa", "PS256", issuerKey(), true}, {"ec", "ES256", ec, true}, {"ed", "EdDSA", ed, true},
		{"ec", "RS256", issuerKey(), false}, {"rsa", "ES256", ec, false}, {"", "RS256", issuerKey(), false}, {"enc", "RS256", forgerKey(), false},
	} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(tt.alg), Key: jose.JSONWebKey{Key: tt.key, KeyID: tt.kid}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed := must(must(signer.Sign(must(json.Marshal(good(nil))))).CompactSerialize())
		if _, err := scope(bearing(signed)); (err == nil) != tt.ok {
			t.Errorf("%s with key %q: got %v", tt.alg, tt.kid, err)
		}
	}
}

// Neither issuer nor claim can be confused with what stands beside it.
func TestJWTScopesAreApart(t *testing.T) {
	set := issuerSet()
	tenant, err := jwtScope(t, "tenant", set)(bearing(issued(claims{"tenant": "alice"})))
	if err != nil {
		t.Fatal(err)
	}
	if sub, err := jwtScope(t, "sub", set)(bearing(issued(nil))); err != nil || sub == tenant {
		t.Errorf("two claims are one scope: %q, %v", sub, err)
	}
	keys := must(gateway.JWKSFrom(must(http.NewRequest("GET", "https://id.example/keys", nil)).URL, nil))
	for _, c := range []gateway.JWT{{}, {Claim: "sub x", Issuer: "i", Audience: "a", Keys: keys}, {Claim: "sub", Issuer: "i x", Audience: "a", Keys: keys}, {Claim: "sub", Issuer: "i", Keys: keys}, {Claim: "sub", Issuer: "i", Audience: "a"}} {
		if _, err := gateway.JWTScope(c); err == nil {
			t.Errorf("JWTScope(%+v) is taken", c)
		}
	}
}

// A retry with a fresh token of the same person gets the replay; another person runs a request of its own; who is not
// known runs nothing, claims nothing, and tells nobody the token.
func TestTokensAreScopes(t *testing.T) {
	up := newUpstream(t, charging)
	l := labOver(t, memstore.New(nil), up.url(), jwtScope(t, "sub", issuerSet()), gateway.Options{})
	as := func(token string) reply { return l.do(bearing(token)) }
	first := issued(nil)
	wantCreated(t, "first", as(first), false)
	wantCreated(t, "refreshed", as(issued(claims{"exp": time.Now().Add(time.Hour).Unix(), "jti": "2"})), true)
	wantCreated(t, "another person", as(issued(claims{"sub": "bob"})), false)
	wantProblem(t, "expired", as(issued(claims{"exp": 1})), 401, problem.ScopeMissing, "")
	wantProblem(t, "none", l.do(post("k", "body")), 401, problem.ScopeMissing, "")
	up.wantRequests(t, 2)
	if got := up.requests()[0].header("Authorization"); len(got) != 1 || got[0] != "Bearer "+first {
		t.Errorf("the upstream got %q, want the token as it came", got)
	}
	id := retrysafe.Key{Scope: "https://id.example sub alice", Name: "k"}.ID()
	if r, err := l.executor.Inspect(t.Context(), id); err != nil || r.State != retrysafe.Completed {
		t.Errorf("Inspect: %v, %v, want the key in its caller's scope", r.State, err)
	}
	if strings.Contains(l.log.String(), first[:20]) {
		t.Errorf("the log tells the token: %s", l.log)
	}
}
