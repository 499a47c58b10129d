package main

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"

	"github.com/retrysafe/retrysafe/gateway"
)

// listenFlags are how callers connect.
type listenFlags struct {
	TLSCert  string `name:"tls-cert" placeholder:"FILE" help:"Certificate of the listener, with its chain, in PEM: callers then speak TLS, HTTP/2 too. Read again when it changes."`
	TLSKey   string `name:"tls-key" placeholder:"FILE" help:"Private key of that certificate, in PEM."`
	ClientCA string `name:"client-ca" placeholder:"FILE" help:"Roots of the certificates that callers must then show, in PEM."`
}

// config returns the configuration of the listener, nil for plain HTTP.
func (f *listenFlags) config(log *slog.Logger) (*tls.Config, error) {
	if f.TLSCert == "" && f.TLSKey == "" {
		if f.ClientCA != "" {
			return nil, usage("--client-ca: callers show certificates over TLS only: give --tls-cert and --tls-key too")
		}
		return nil, nil
	}
	if err := checkPair("--tls-cert", f.TLSCert, "--tls-key", f.TLSKey); err != nil {
		return nil, err
	}
	config, err := gateway.ServerTLS(gateway.TLSFiles{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.ClientCA}, log)
	if err != nil {
		return nil, usage("--tls-cert, --tls-key, --client-ca: %v", err)
	}
	return config, nil
}

// upstreamFlags are how the gateway and an https:// upstream know each other.
type upstreamFlags struct {
	UpstreamCA    string `name:"upstream-ca" placeholder:"FILE" help:"Roots of an https:// upstream's certificate, in PEM. Default: the system's."`
	UpstreamCert  string `placeholder:"FILE" help:"Certificate that the gateway shows an https:// upstream, in PEM."`
	UpstreamKey   string `placeholder:"FILE" help:"Private key of that certificate, in PEM."`
	UpstreamHTTP2 bool   `name:"upstream-http2" env:"RETRYSAFE_UPSTREAM_HTTP2" help:"Speak HTTP/2 with an https:// upstream that offers it. Needs --upstream-keep-alive."`
}

// config returns the configuration of the client of an upstream of that scheme, nil for the default.
func (f *upstreamFlags) config(scheme string, keepAlive bool) (*tls.Config, error) {
	if *f == (upstreamFlags{}) {
		return nil, nil
	}
	if scheme != "https" {
		return nil, usage("--upstream-ca, --upstream-cert, --upstream-key, --upstream-http2: they are of an https:// upstream; --upstream is none")
	}
	if f.UpstreamHTTP2 && !keepAlive {
		return nil, usage("--upstream-http2: HTTP/2 shares connections: give --upstream-keep-alive too")
	}
	if f.UpstreamCert != "" || f.UpstreamKey != "" {
		if err := checkPair("--upstream-cert", f.UpstreamCert, "--upstream-key", f.UpstreamKey); err != nil {
			return nil, err
		}
	}
	config, err := gateway.ClientTLS(f.UpstreamCA, f.UpstreamCert, f.UpstreamKey)
	if err != nil {
		return nil, usage("--upstream-ca, --upstream-cert, --upstream-key: %v", err)
	}
	return config, nil
}

// readPeers reads how the gateway knows those whom it talks with.
func (c *gatewayCmd) readPeers(g *given, log *slog.Logger) (err error) {
	if g.scope, err = c.source(g.trusted, c.ClientCA, log); err != nil {
		return err
	}
	if g.front, err = c.listenFlags.config(log); err != nil {
		return err
	}
	g.back, err = c.upstreamFlags.config(g.upstream.Scheme, c.KeepAlive)
	return err
}

func checkPair(certFlag, cert, keyFlag, key string) error {
	if cert == "" || key == "" {
		return usage("%s and %s: a certificate is nothing without its key: give both", certFlag, keyFlag)
	}
	return nil
}

// serveCallers serves callers on l, over TLS if the gateway has a certificate.
func (s *server) serveCallers(front *http.Server, l net.Listener) error {
	if s.tls == nil {
		return front.Serve(l)
	}
	front.TLSConfig = s.tls
	gateway.EnableHTTP2(front, s.stuck)
	return front.ServeTLS(l, "", "")
}

// scheme is that of the URL by which callers reach the gateway.
func (s *server) scheme() string {
	if s.tls == nil {
		return "http"
	}
	return "https"
}
