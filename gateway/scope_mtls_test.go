package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

func mtlsScope(t *testing.T, identity string) func(*http.Request) (string, error) {
	t.Helper()
	scope, err := gateway.MTLSScope(identity)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// S16: what names a caller is unambiguous, or nobody is named.
func TestMTLSScope(t *testing.T) {
	root := newAuthority(t)
	for _, tt := range []struct {
		name, identity string
		uris, names    []string
		want           string // "": refused
	}{
		{"one URI", "uri", []string{"spiffe://a/pay"}, []string{"x.example", "y.example"}, "uri:spiffe://a/pay"},
		{"another case is another URI", "uri", []string{"spiffe://a/Pay"}, nil, "uri:spiffe://a/Pay"},
		{"two URIs", "uri", []string{"spiffe://a/pay", "spiffe://a/admin"}, nil, ""},
		{"no URI", "uri", nil, []string{"x.example"}, ""},
		{"one DNS name", "dns", []string{"spiffe://a/pay"}, []string{"Pay.example"}, "dns:pay.example"},
		{"two DNS names", "dns", nil, []string{"x.example", "y.example"}, ""},
		{"a pattern", "dns", nil, []string{"*.example"}, ""},
		{"no DNS name", "dns", []string{"spiffe://a/pay"}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := post("k", "body")
			leaf := root.client(t, newKey(t), tt.uris, tt.names).Leaf
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, root.cert}}}
			got, err := mtlsScope(t, tt.identity)(r)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := gateway.MTLSScope("cn"); err == nil {
		t.Error("the subject may name callers")
	}
}

// A certificate that was shown and not verified names nobody.
func TestMTLSScopeWantsAVerifiedCertificate(t *testing.T) {
	leaf := newAuthority(t).client(t, newKey(t), []string{"spiffe://a/pay"}, nil).Leaf
	for name, state := range map[string]*tls.ConnectionState{"no TLS": nil, "none shown": {}, "not verified": {PeerCertificates: []*x509.Certificate{leaf}}} {
		r := post("k", "body")
		r.TLS = state
		for _, identity := range []string{"uri", "dns", "spki"} {
			if got, err := mtlsScope(t, identity)(r); err == nil {
				t.Errorf("%s, %s: got %q", name, identity, got)
			}
		}
	}
}

// The public key is the scope, whoever signed it.
func TestMTLSScopeByKey(t *testing.T) {
	key, scope := newKey(t), mtlsScope(t, "spki")
	of := func(c tls.Certificate) string {
		r := post("k", "body")
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c.Leaf}}}
		got, err := scope(r)
		if err != nil || !strings.HasPrefix(got, "spki:") {
			t.Fatalf("got %q, %v", got, err)
		}
		return got
	}
	first := of(newAuthority(t).client(t, key, nil, nil))
	if of(newAuthority(t).client(t, key, []string{"spiffe://a/b"}, nil)) != first {
		t.Error("the same key in another certificate is another scope")
	}
	if of(newAuthority(t).client(t, newKey(t), nil, nil)) == first {
		t.Error("another key is the same scope")
	}
}

// Over a real connection: a renewed certificate of the same name gets the replay, another caller runs its own request,
// and who has no name runs nothing.
func TestCertificatesAreScopes(t *testing.T) {
	root, clients := newAuthority(t), newAuthority(t)
	up := newUpstream(t, charging)
	l := labOver(t, memstore.New(nil), up.url(), mtlsScope(t, "uri"), gateway.Options{})
	addr := serveTLS(t, l, serverTLS(t, root.files(t, clients), &logbook{}))
	as := func(uris ...string) reply {
		t.Helper()
		c := newClient(t, &tls.Config{RootCAs: root.pool(), Certificates: []tls.Certificate{clients.client(t, newKey(t), uris, nil)}})
		return c.do(t, newPost(t, addr, "k", "body"))
	}
	wantCreated(t, "first", as("spiffe://a/pay"), false)
	wantCreated(t, "renewed", as("spiffe://a/pay"), true)
	wantCreated(t, "another caller", as("spiffe://a/shop"), false)
	wantProblem(t, "no name", as(), 401, problem.ScopeMissing, "")
	wantProblem(t, "two names", as("spiffe://a/pay", "spiffe://a/shop"), 401, problem.ScopeMissing, "")
	up.wantRequests(t, 2)
}
