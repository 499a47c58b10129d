package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A certified is a certificate that is its own root, as files and as a client shows it.
type certified struct {
	cert, key string
	pair      tls.Certificate
	roots     *x509.CertPool
}

// certify makes a certificate for this machine, and for the caller spiffe://zq-tenant/NAME, and writes it to NAME and NAME-key.
func certify(dir, name string, over time.Time) (c certified, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: over.Add(-24 * time.Hour), NotAfter: over, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "zq-tenant", Path: "/" + name}},
	}
	der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	if err != nil {
		return c, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	c.cert, c.key, c.roots = filepath.Join(dir, name), filepath.Join(dir, name+"-key"), x509.NewCertPool()
	text, secretText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	c.roots.AppendCertsFromPEM(text)
	if c.pair, err = tls.X509KeyPair(text, secretText); err != nil {
		return c, err
	}
	if err = os.WriteFile(c.cert, text, 0o600); err != nil {
		return c, err
	}
	return c, os.WriteFile(c.key, secretText, 0o600)
}

func newCertificate(t *testing.T, name string) certified {
	t.Helper()
	c, err := certify(t.TempDir(), name, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeCertificates makes the files that the scripts name.
func writeCertificates(dir string) error {
	for name, over := range map[string]time.Time{"cert": time.Now().Add(time.Hour), "stranger": time.Now().Add(time.Hour), "over": time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)} {
		if _, err := certify(dir, name, over); err != nil {
			return err
		}
	}
	return nil
}

// speakTLS has the lab's client trust server, show the certificates, and speak HTTP/2.
func (l *lab) speakTLS(server certified, shown ...tls.Certificate) {
	transport := l.client.Transport.(*http.Transport)
	transport.CloseIdleConnections()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	l.client = &http.Client{Timeout: deadline, Transport: &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: server.roots, Certificates: shown}}}
}

func TestTLSListener(t *testing.T) {
	t.Parallel()
	c := newCertificate(t, "a")
	l := startGateway(t, startPayments(t).url, "--tls-cert", c.cert, "--tls-key", c.key, "--scope", "shared")
	if !strings.HasPrefix(l.url, "https://") || strings.Contains(l.stderr.String(), "share one scope") {
		t.Errorf("with TLS and --scope shared the gateway says:\n%s", l.stderr)
	}
	l.speakTLS(c)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
	first.wantStatus(t, 201)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantReplayOf(t, first)
}

// Two callers with certificates of their own may use one key; who shows none is not let in.
func TestScopeMTLS(t *testing.T) {
	t.Parallel()
	c, one, two := newCertificate(t, "a"), newCertificate(t, "one"), newCertificate(t, "two")
	both := filepath.Join(t.TempDir(), "callers")
	var roots []byte
	for _, file := range []string{one.cert, two.cert} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, b...)
	}
	if err := os.WriteFile(both, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	api := startPayments(t)
	l := startGateway(t, api.url, "--tls-cert", c.cert, "--tls-key", c.key, "--client-ca", both, "--scope-mtls", "uri")
	for _, caller := range []certified{one, two} {
		l.speakTLS(c, caller.pair)
		first := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
		first.wantStatus(t, 201)
		l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantReplayOf(t, first)
	}
	l.speakTLS(c)
	if a, err := do(l.client, l.request(t, "POST", "/charges", "zq-key-2", charge(1))); err == nil {
		t.Errorf("without a certificate: got %v", a)
	}
	if got := api.count(t); got != 2 {
		t.Errorf("got %d charges, want one a caller", got)
	}
}

// An https:// upstream that wants a certificate, over HTTP/2.
func TestUpstreamFlags(t *testing.T) {
	t.Parallel()
	c, own := newCertificate(t, "upstream"), newCertificate(t, "gateway")
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto+" "+r.TLS.PeerCertificates[0].URIs[0].Path)
	}))
	up.Config.ErrorLog = log.New(io.Discard, "", 0)
	up.EnableHTTP2 = true
	up.TLS = &tls.Config{Certificates: []tls.Certificate{c.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.roots}
	up.StartTLS()
	t.Cleanup(up.Close)
	known := []string{"--upstream-ca", c.cert, "--upstream-cert", own.cert, "--upstream-key", own.key}
	for proto, flags := range map[string][]string{"HTTP/1.1": known, "HTTP/2.0": append(known, "--upstream-keep-alive", "--upstream-http2")} {
		a := startGateway(t, up.URL, flags...).send(t, "POST", "/", "zq-key-1", "{}")
		if a.status != 200 || a.body != proto+" /gateway" {
			t.Errorf("got %v, want it asked in %s by a gateway with a certificate", a, proto)
		}
	}
	startGateway(t, up.URL).send(t, "POST", "/", "zq-key-1", "{}").wantProblem(t, 502, "upstream-unreachable")
}

// The token of each attempt is a fresh one; its key is fetched from the issuer. While that is down, callers are told
// to come again.
func TestScopeJWT(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	}))
	t.Cleanup(id.Close)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	authorization := func(subject string, over time.Duration) string {
		token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "https://id.example", Audience: jwt.Audience{"payments"}, Subject: subject,
			Expiry: jwt.NewNumericDate(time.Now().Add(over))}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	api := startPayments(t)
	flags := []string{"--scope-jwt", "sub", "--issuer", "https://id.example", "--audience", "payments", "--jwks"}
	l := startGateway(t, api.url, append(flags, id.URL)...)
	send := func(over time.Duration, subject string) answer {
		return l.send(t, "POST", "/charges", "zq-key-1", charge(1), "Authorization", authorization(subject, over))
	}
	first := send(time.Minute, "zq-tenant-a")
	first.wantStatus(t, 201)
	send(time.Hour, "zq-tenant-a").wantReplayOf(t, first)
	send(time.Hour, "zq-tenant-b").wantStatus(t, 201)
	send(-time.Hour, "zq-tenant-a").wantProblem(t, 401, "scope-missing")
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 401, "scope-missing")
	if got := api.count(t); got != 2 {
		t.Errorf("got %d charges, want one a caller", got)
	}
	id.Close()
	l = startGateway(t, api.url, append(flags, id.URL)...)
	send(time.Hour, "zq-tenant-a").wantProblem(t, 503, "scope-unavailable")
	l.stderr.await(t, `keys of the tokens' issuer could not be loaded`)
}
