package gateway

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// MTLSScope returns a ScopeFunc that reads the caller from the client certificate that the TLS listener verified. What
// names it is the one URI ("uri", as SPIFFE has it) or the one DNS name ("dns") among its alternative names, or its
// public key ("spki"). A renewed certificate with the same name is the same scope; with "spki" if its key is the same.
// The subject is no choice: how it is written as text is ambiguous.
func MTLSScope(identity string) (idemhttp.ScopeFunc, error) {
	read, ok := map[string]func(*x509.Certificate) string{"uri": onlyURI, "dns": onlyDNS, "spki": publicKey}[identity]
	if !ok {
		return nil, fmt.Errorf("gateway: mTLS scope: want uri, dns or spki, not %q", identity)
	}
	return func(r *http.Request) (string, error) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return "", errors.New("there is no verified client certificate")
		}
		name := read(r.TLS.VerifiedChains[0][0])
		if name == "" {
			return "", fmt.Errorf("the client certificate has no %s, or several", identity)
		}
		return identity + ":" + name, nil
	}, nil
}

// onlyURI is the URI of a certificate that has one. Compared to the letter: SPIFFE IDs are case-sensitive.
func onlyURI(c *x509.Certificate) string {
	if len(c.URIs) != 1 {
		return ""
	}
	return c.URIs[0].String()
}

// onlyDNS is the DNS name of a certificate that has one. A pattern names nobody.
func onlyDNS(c *x509.Certificate) string {
	if len(c.DNSNames) != 1 || strings.Contains(c.DNSNames[0], "*") {
		return ""
	}
	return strings.ToLower(c.DNSNames[0]) // RFC 4343
}

func publicKey(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}
