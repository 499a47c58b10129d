package main

import (
	"errors"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// scopeFlags are how the gateway knows whose request it is: one of them, or none.
type scopeFlags struct {
	Scope       string `placeholder:"shared" enum:",shared" default:"" help:"shared: all callers share one scope, and are meant to. That is also so without any of these flags, and is then said at start."`
	ScopeHeader string `placeholder:"NAME" help:"Header that names the tenant, set by a proxy in front. Keys of different tenants never meet."`
	ScopeJWT    string `name:"scope-jwt" placeholder:"CLAIM" help:"Claim of the caller's bearer token that names the tenant, like sub. Needs --jwks, --issuer and --audience, by which the token is verified."`
	JWKS        string `name:"jwks" placeholder:"URL|FILE" help:"Where the keys of the tokens' issuer are: an https:// URL or a file."`
	Issuer      string `placeholder:"ISS" help:"The tokens' issuer, to the letter."`
	Audience    string `placeholder:"AUD" help:"The audience that the tokens must be for."`
	ScopeMTLS   string `name:"scope-mtls" placeholder:"uri|dns|spki" enum:",uri,dns,spki" default:"" help:"What of the caller's certificate names the tenant: its one URI, its one DNS name, or its public key. Needs --client-ca."`
}

// A scopeSource is where scopes come from: its name, as it is published, and how to read one.
type scopeSource struct {
	name string // shared, header, jwt or mtls
	read idemhttp.ScopeFunc
	said bool // a flag says so
}

// source returns what the flags say. trusted are the peers whose headers are believed, nil for this machine.
func (f *scopeFlags) source(trusted []netip.Prefix, clientCA string, log *slog.Logger) (scopeSource, error) {
	given := slices.DeleteFunc([]string{f.Scope, f.ScopeHeader, f.ScopeJWT, f.ScopeMTLS}, func(s string) bool { return s == "" })
	if len(given) > 1 {
		return scopeSource{}, usage("--scope, --scope-header, --scope-jwt, --scope-mtls: a request has one scope: give one of them")
	}
	if f.ScopeJWT == "" && f.JWKS+f.Issuer+f.Audience != "" {
		return scopeSource{}, usage("--jwks, --issuer, --audience: they say how tokens are verified for a scope: give --scope-jwt too")
	}
	switch {
	case f.ScopeHeader != "":
		if trusted == nil {
			trusted = gateway.Loopback()
		}
		return scopeSource{"header", gateway.HeaderScope(f.ScopeHeader, trusted), true}, checkHeaderName("--scope-header", f.ScopeHeader)
	case f.ScopeJWT != "":
		read, err := f.jwt(log)
		return scopeSource{"jwt", read, true}, err
	case f.ScopeMTLS != "":
		if clientCA == "" {
			return scopeSource{}, usage("--scope-mtls: it names callers by verified certificates: give --client-ca too")
		}
		read, err := gateway.MTLSScope(f.ScopeMTLS)
		return scopeSource{"mtls", read, true}, err
	}
	return scopeSource{"shared", idemhttp.SharedScope, f.Scope != ""}, nil
}

func (f *scopeFlags) jwt(log *slog.Logger) (idemhttp.ScopeFunc, error) {
	if f.JWKS == "" || f.Issuer == "" || f.Audience == "" {
		return nil, usage("--scope-jwt: a token that is not verified names nobody: give --jwks, --issuer and --audience")
	}
	keys, err := readJWKS(f.JWKS, log)
	if err != nil {
		return nil, usage("--jwks: %v", err)
	}
	read, err := gateway.JWTScope(gateway.JWT{Claim: f.ScopeJWT, Issuer: f.Issuer, Audience: f.Audience, Keys: keys})
	if err != nil {
		return nil, usage("--scope-jwt, --issuer: %v", err)
	}
	return read, nil
}

func readJWKS(source string, log *slog.Logger) (*gateway.JWKS, error) {
	if !strings.Contains(source, "://") {
		return gateway.JWKSFile(source, log)
	}
	u, err := url.Parse(source)
	if err != nil {
		return nil, errors.New("want an https:// URL or a file") // err would repeat what may be a secret
	}
	return gateway.JWKSFrom(u, log)
}
