package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFiles are what a listener proves itself with, in PEM.
type TLSFiles struct {
	Cert, Key string // the certificate, with those between it and its root, and its private key
	ClientCA  string // the roots of callers, who then must prove themselves; "" for none
}

// ServerTLS returns the configuration of a listener that serves HTTP/2 and HTTP/1.1. It looks at the files when a
// caller connects, and reads them again when they have changed. Files that are wrong then are told to the log, once,
// and those before stay in use.
func ServerTLS(files TLSFiles, log *slog.Logger) (*tls.Config, error) {
	l := &liveTLS{files: files, log: orSilent(log)}
	l.stamp = l.stamps()
	var err error
	if l.config, err = files.read(); err != nil {
		return nil, err
	}
	config := l.config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.current(), nil }
	return config, nil
}

func orSilent(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// modernTLS is TLS 1.3, and of 1.2 what has forward secrecy and authenticated encryption (RFC 9325, 4.2).
func modernTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}}
}

// ClientTLS returns the configuration of a client of a server whose certificate is of a root in the file ca, "" for the
// system's. With cert and key the client proves itself.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	c := modernTLS()
	var err error
	if ca != "" {
		if c.RootCAs, err = readRoots(ca); err != nil {
			return nil, err
		}
	}
	if cert == "" && key == "" {
		return c, nil
	}
	pair, err := readPair(cert, key)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

func (f *TLSFiles) read() (*tls.Config, error) {
	pair, err := readPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := modernTLS()
	c.Certificates, c.NextProtos = []tls.Certificate{pair}, []string{"h2", "http/1.1"}
	if f.ClientCA == "" {
		return c, nil
	}
	// The policy is the listener's, whatever name a caller asks for, and each connection proves itself anew: no ticket
	// outlives the roots under which it was given.
	if c.ClientCAs, err = readRoots(f.ClientCA); err != nil {
		return nil, err
	}
	c.ClientAuth, c.SessionTicketsDisabled = tls.RequireAndVerifyClientCert, true
	return c, nil
}

// readPair reads a certificate and its key. One that is over is refused: nobody would believe it.
func readPair(certFile, keyFile string) (pair tls.Certificate, err error) {
	cert, err := readPEM(certFile)
	if err != nil {
		return pair, err
	}
	key, err := readPEM(keyFile)
	if err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		return pair, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	if over := pair.Leaf.NotAfter; time.Now().After(over) {
		return pair, fmt.Errorf("%s: the certificate expired at %s", certFile, over.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	text, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return roots, nil
}

const maxPEM = 1 << 20

func readPEM(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = errors.New(file + " has more than 1 MiB")
	}
	return text, err
}

// A liveTLS is the configuration as the files say it now.
type liveTLS struct {
	files  TLSFiles
	log    *slog.Logger
	mu     sync.Mutex
	config *tls.Config // the last that was right. Guarded by mu
	stamp  [3]stamp    // of the files when they were read last. Guarded by mu
}

// A stamp changes when its file does.
type stamp struct {
	modified time.Time
	size     int64
}

func (l *liveTLS) stamps() (s [3]stamp) {
	for i, name := range [...]string{l.files.Cert, l.files.Key, l.files.ClientCA} {
		if info, err := os.Stat(name); err == nil { // what links lead to, as mounted secrets are changed
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

func (l *liveTLS) current() *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.stamps() // before they are read: a change in between is seen the next time
	if now == l.stamp {
		return l.config
	}
	l.stamp = now
	config, err := l.files.read()
	if err != nil {
		l.log.Error("changed TLS files are wrong, those before stay in use", "err", err)
		return l.config
	}
	l.log.Info("changed TLS files are in use", "expires", config.Certificates[0].Leaf.NotAfter.UTC())
	l.config = config
	return config
}
