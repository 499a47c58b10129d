package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/gateway"
)

// serveTLS serves h as the program does, and returns its address.
func serveTLS(t *testing.T, h http.Handler, config *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, TLSConfig: config, MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: patience, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	gateway.EnableHTTP2(s, 0)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return l.Addr().String()
}

// files returns TLS files for this machine; callers must prove themselves to clients, if it is not nil.
func (a *authority) files(t *testing.T, clients *authority) gateway.TLSFiles {
	t.Helper()
	dir := t.TempDir()
	cert, key := write(t, dir, a.server(t))
	files := gateway.TLSFiles{Cert: cert, Key: key}
	if clients != nil {
		files.ClientCA = clients.writeRoot(t, dir)
	}
	return files
}

func serverTLS(t *testing.T, files gateway.TLSFiles, log *logbook) *tls.Config {
	t.Helper()
	config, err := gateway.ServerTLS(files, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatalf("ServerTLS: %v", err)
	}
	return config
}

// connect returns what a handshake agreed on.
func connect(t *testing.T, addr string, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if c.ConnectionState().NegotiatedProtocol == "" { // in TLS 1.3 a server refuses after the client's handshake has ended
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	}
	_, err = c.Read(make([]byte, 1))
	return c.ConnectionState(), err
}

func TestServerTLS(t *testing.T) {
	root := newAuthority(t)
	addr := serveTLS(t, http.NotFoundHandler(), serverTLS(t, root.files(t, nil), &logbook{}))
	for _, tt := range []struct {
		name   string
		client *tls.Config
		proto  string // "": refused
	}{
		{"HTTP/2", &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "h2"},
		{"HTTP/1.1", &tls.Config{NextProtos: []string{"http/1.1"}, MaxVersion: tls.VersionTLS12}, "http/1.1"},
		{"another protocol", &tls.Config{NextProtos: []string{"spdy/3"}}, ""},
		{"TLS 1.1", &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, ""},
		{"no authenticated encryption", &tls.Config{NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.client.RootCAs = root.pool()
			config := tt.client.Clone()
			if tt.proto == "http/1.1" {
				c, err := tls.Dial("tcp", addr, config)
				if err != nil || c.ConnectionState().NegotiatedProtocol != tt.proto {
					t.Fatalf("got %v, want %s", err, tt.proto)
				}
				c.Close()
				return
			}
			state, err := connect(t, addr, config)
			if (err == nil) != (tt.proto != "") || err == nil && state.NegotiatedProtocol != tt.proto {
				t.Errorf("got %q, %v, want %q", state.NegotiatedProtocol, err, tt.proto)
			}
		})
	}
}

// Nothing but TLS speaks HTTP/2: a preface in clear is no request.
func TestNoHTTP2InClear(t *testing.T) {
	s := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	gateway.EnableHTTP2(s, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	c := dial(t, l.Addr().String())
	c.send(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	if got := c.answer(t, "PRI"); got.status != 404 { // a server that speaks HTTP/2 sends frames, which are no answer
		t.Errorf("got %d, want the handler's answer in HTTP/1.1", got.status)
	}
}

// A listener takes fresh files without a restart, and wrong ones leave it as it is.
func TestCertificatesAreReadAgain(t *testing.T) {
	root, log := newAuthority(t), &logbook{}
	files := root.files(t, nil)
	addr := serveTLS(t, http.NotFoundHandler(), serverTLS(t, files, log))
	serial := func() string {
		t.Helper()
		state, err := connect(t, addr, &tls.Config{RootCAs: root.pool(), NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	if again := serial(); again != first {
		t.Errorf("the certificate changed with no file changed")
	}
	write(t, filepath.Dir(files.Cert), root.server(t))
	second := serial()
	if second == first {
		t.Error("the files changed, and the old certificate is shown")
	}
	writeFile(t, files.Key, []byte("key-secret"))
	if got := serial(); got != second {
		t.Error("a wrong key changed the certificate")
	}
	serial()
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("the log tells %d errors, want one, without what the file holds: %s", n, log)
	}
	write(t, filepath.Dir(files.Cert), root.server(t))
	if third := serial(); third == first || third == second {
		t.Error("the files are right again, and an old certificate is shown")
	}
}

// Roots of callers that were withdrawn are believed no more, not by a ticket either.
func TestClientRootsAreReadAgain(t *testing.T) {
	root, clients, others := newAuthority(t), newAuthority(t), newAuthority(t)
	files := root.files(t, clients)
	addr := serveTLS(t, http.NotFoundHandler(), serverTLS(t, files, &logbook{}))
	config := &tls.Config{RootCAs: root.pool(), NextProtos: []string{"h2"}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		Certificates: []tls.Certificate{clients.client(t, newKey(t), []string{"spiffe://a/b"}, nil)}}
	for range 2 {
		if _, err := connect(t, addr, config); err != nil {
			t.Fatalf("a caller of the root: %v", err)
		}
	}
	others.writeRoot(t, filepath.Dir(files.ClientCA))
	if _, err := connect(t, addr, config); err == nil {
		t.Error("a caller of a root that was withdrawn is let in")
	}
}

func TestClientsMustProveThemselves(t *testing.T) {
	root, clients := newAuthority(t), newAuthority(t)
	addr := serveTLS(t, http.NotFoundHandler(), serverTLS(t, root.files(t, clients), &logbook{}))
	over := clients.pair(t, &x509.Certificate{NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, newKey(t))
	for _, tt := range []struct {
		name  string
		shown []tls.Certificate
		ok    bool
	}{
		{"of the root", []tls.Certificate{clients.client(t, newKey(t), nil, nil)}, true},
		{"none", nil, false},
		{"of another root", []tls.Certificate{newAuthority(t).client(t, newKey(t), nil, nil)}, false},
		{"a server's", []tls.Certificate{clients.server(t)}, false},
		{"expired", []tls.Certificate{over}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: root.pool(), NextProtos: []string{"h2"}, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if tt.shown == nil {
					return &tls.Certificate{}, nil
				}
				return &tt.shown[0], nil // whatever roots the server names
			}}
			if _, err := connect(t, addr, config); (err == nil) != tt.ok {
				t.Errorf("got %v, want it let in: %v", err, tt.ok)
			}
		})
	}
}

// An upstream is known by its certificate, and knows the gateway by one.
func TestUpstreamTLS(t *testing.T) {
	servers, gateways := newAuthority(t), newAuthority(t)
	up := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Caller", r.TLS.PeerCertificates[0].URIs[0].String())
	}), serverTLS(t, servers.files(t, gateways), &logbook{}))
	dir := t.TempDir()
	ca := servers.writeRoot(t, dir)
	cert, key := write(t, dir, gateways.client(t, newKey(t), []string{"spiffe://a/gateway"}, nil))
	config, err := gateway.ClientTLS(ca, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "https://"+up, gateway.Options{UpstreamTLS: config})
	if got := l.do(post("k", "body")); got.status != 200 || got.header.Get("Caller") != "spiffe://a/gateway" {
		t.Errorf("got %d %v, want an answer to the gateway's certificate", got.status, got.header)
	}
	if config, err = gateway.ClientTLS("", "", ""); err != nil {
		t.Fatal(err)
	}
	l = newLab(t, "https://"+up, gateway.Options{UpstreamTLS: config})
	wantProblem(t, "of a root that the system does not know", l.do(post("k", "body")), 502, "upstream-unreachable", "")
}
