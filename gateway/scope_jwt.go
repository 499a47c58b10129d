package gateway

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// A JWT says which tokens name their bearer, and where. All of it is required.
type JWT struct {
	Claim    string // whose value is the caller: a string at the top of the claims, like sub or tenant_id
	Issuer   string // that iss must be, to the letter
	Audience string // that aud must hold
	Keys     *JWKS  // of the issuer
}

// Bounds of what a caller sends, and of how far clocks may differ.
const (
	maxToken   = 16 << 10
	maxSubject = 512
	leeway     = 30 * time.Second
)

// signatures are the algorithms that a token may be signed with: those whose key is public. With HS256 the public
// key itself could be passed off as the secret (RFC 8725, 2.1); "none" is no signature.
var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// JWTScope returns a ScopeFunc that reads the caller from the bearer token of a request (RFC 6750, 2.1), once it is
// verified: signature, iss, aud, exp, nbf and typ. Two tokens that name the same caller are the same scope, so that a
// retry may carry a fresh one. While the issuer's keys cannot be had, it returns idemhttp.ErrScopeUnavailable.
func JWTScope(c JWT) (idemhttp.ScopeFunc, error) {
	if c.Claim == "" || c.Issuer == "" || c.Audience == "" || c.Keys == nil {
		return nil, errors.New("gateway: JWT scope: a claim, an issuer, an audience and keys are required")
	}
	if strings.ContainsAny(c.Claim+c.Issuer, " \t\r\n") {
		return nil, errors.New("gateway: JWT scope: a claim and an issuer hold no spaces")
	}
	return func(r *http.Request) (string, error) {
		raw, err := bearer(r)
		if err != nil {
			return "", err
		}
		subject, err := c.verify(r.Context(), raw)
		if err != nil {
			return "", err
		}
		// Neither issuer nor claim holds a space: no other pair of them makes the same scope.
		return c.Issuer + " " + c.Claim + " " + subject, nil
	}, nil
}

// bearer returns the token of a request that has one.
func bearer(r *http.Request) (string, error) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", errors.New("the Authorization header must stand there once")
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errors.New("the Authorization header holds no bearer token")
	}
	if token = strings.TrimLeft(token, " "); token == "" || len(token) > maxToken {
		return "", fmt.Errorf("the bearer token must have 1 to %d bytes", maxToken)
	}
	return token, nil
}

// verify returns the caller that a token names. Its errors quote nothing of the token.
func (c *JWT) verify(ctx context.Context, raw string) (string, error) {
	token, err := jwt.ParseSigned(raw, signatures)
	if err != nil || len(token.Headers) != 1 {
		return "", errors.New("the token is no JWT signed with an algorithm that is allowed")
	}
	header := token.Headers[0]
	if !isJWT(header) {
		return "", errors.New("the token is of another type")
	}
	keys, err := c.Keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		var registered jwt.Claims
		var all map[string]json.RawMessage
		if token.Claims(key.Key, &registered, &all) == nil {
			return c.read(&registered, all[c.Claim])
		}
	}
	return "", errors.New("the token's signature is of none of the issuer's keys")
}

// isJWT refuses tokens that were signed for something else by the same issuer (RFC 8725, 3.11). Without a type it is
// an access token as many issuers write them.
func isJWT(h jose.Header) bool {
	typ, given := h.ExtraHeaders[jose.HeaderType]
	if !given {
		return true
	}
	name, _ := typ.(string)
	name = strings.TrimPrefix(strings.ToLower(name), "application/") // RFC 7515, 4.1.9
	return name == "jwt" || name == "at+jwt"
}

// read checks what a token with a good signature says, and returns its caller.
func (c *JWT) read(registered *jwt.Claims, claim json.RawMessage) (string, error) {
	if registered.Expiry == nil { // which the library would take for "never"
		return "", errors.New("the token does not expire")
	}
	want := jwt.Expected{Issuer: c.Issuer, AnyAudience: jwt.Audience{c.Audience}}
	if err := registered.ValidateWithLeeway(want, leeway); err != nil {
		return "", fmt.Errorf("the token is not for us now: %w", err)
	}
	var subject string
	if json.Unmarshal(claim, &subject) != nil || subject == "" || len(subject) > maxSubject {
		return "", fmt.Errorf("the token's claim %s must be a string of 1 to %d bytes", c.Claim, maxSubject)
	}
	if strings.ContainsRune(subject, utf8.RuneError) { // what package json makes of all that is no text: two would be one
		return "", fmt.Errorf("the token's claim %s is no Unicode text", c.Claim)
	}
	return subject, nil
}

// usable tells whether a key of a set may verify signatures of tokens.
func usable(k jose.JSONWebKey) bool {
	if key, ok := k.Key.(*rsa.PublicKey); ok && key.N.BitLen() < 2048 { // RFC 7518, 3.3
		return false
	}
	return k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") &&
		(k.Algorithm == "" || slices.Contains(signatures, jose.SignatureAlgorithm(k.Algorithm)))
}
