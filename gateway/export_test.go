package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptrace"
	"testing"
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
