package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// This file opens the gateway to the tests of package gateway_test, which stand outside.

// DialBy has connections to the upstream come from dial. They are counted as ever.
func (g *Gateway) DialBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	g.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c}, nil
	}
}

// Trust has the gateway believe upstreams whose certificates are of roots.
func (g *Gateway) Trust(roots *x509.CertPool) {
	g.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
}

// RouteOf returns the name of the route that decides over r, "" for the gateway's own options, and whether r is refused
// because its path is ambiguous.
func (g *Gateway) RouteOf(r *http.Request) (name string, refused bool) {
	by, why := g.choose(r)
	if why != "" {
		return "", true
	}
	for i := range g.branches {
		if g.branches[i].Gateway == by {
			return g.o.Routes[i].Name, false
		}
	}
	return "", false
}

// CloseIdle closes the connections to the upstream that nobody uses.
func (g *Gateway) CloseIdle() { g.transport.CloseIdleConnections() }

// ProbeTarget returns where p asks about a key, "" if it does not.
func ProbeTarget(p Probe, key retrysafe.Key) string {
	if u, ok := p.target(key); ok {
		return (&Gateway{upstream: &url.URL{}}).target(u).RequestURI()
	}
	return ""
}

// ResolveBy has the gateway ask r for its upstream's addresses. All else about the connection is as ever.
func (g *Gateway) ResolveBy(r *net.Resolver) {
	d := newDialer(&g.o, g.upstream)
	d.Resolver = r
	g.DialBy(d.DialContext)
}

// LooksAtAddresses tells whether the addresses of the upstream are looked at when they are connected to.
func (g *Gateway) LooksAtAddresses() bool { return newDialer(&g.o, g.upstream).Control != nil }

// NothingSentTo tells what an attempt knows that got a connection to addr and wrote nothing.
func NothingSentTo(t *testing.T, addr string, config *tls.Config) bool {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config.ServerName = "127.0.0.1"
	over := tls.Client(&countedConn{Conn: c}, config)
	if err := over.Handshake(); err != nil {
		t.Fatal(err)
	}
	var a attempt
	a.gotConn(httptrace.GotConnInfo{Conn: over})
	return a.nothingSent()
}
