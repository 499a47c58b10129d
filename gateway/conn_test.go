package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// The decision between "nothing was sent" and "may have acted" hangs on these two types alone.

// A wire is the far end of a countedConn: it takes what it is told to, and counts it.
type wire struct {
	net.Conn
	took atomic.Int64
	err  error // of every Write, which then takes nothing
}

func (w *wire) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.took.Add(int64(len(p)))
	return len(p), nil
}

func (w *wire) Close() error { return nil }

func TestSeal(t *testing.T) {
	const before, request = "an earlier request", "request"
	tests := []struct {
		name   string
		writes string // of this request, before the decision
		err    error  // of that write
		sealed bool
	}{
		{"nothing was written", "", nil, true},
		{"one byte was written", "r", nil, false},
		{"all was written", request, nil, false},
		{"the connection was dead already: its first write took nothing", request, syscall.EPIPE, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			far := &wire{}
			c := &countedConn{Conn: far}
			io.WriteString(c, before)
			var a attempt
			a.gotConn(httptrace.GotConnInfo{Conn: c})
			far.err = tt.err
			if tt.writes != "" {
				io.WriteString(c, tt.writes)
			}
			far.err = nil
			if got := a.nothingSent(); got != tt.sealed {
				t.Errorf("nothingSent() = %v, want %v", got, tt.sealed)
			}
			took := far.took.Load()
			n, err := io.WriteString(c, request)
			if tt.sealed && (n != 0 || !errors.Is(err, errSealed) || far.took.Load() != took) {
				t.Errorf("a write after the decision took %d bytes, %v", n, err)
			}
			if !tt.sealed && (n != len(request) || err != nil) {
				t.Errorf("a write on a connection that was not sealed took %d bytes, %v", n, err)
			}
			if again := a.nothingSent(); again != tt.sealed {
				t.Errorf("asked again, nothingSent() = %v", again)
			}
		})
	}
}

// A write and the decision at the same moment: whoever comes second knows of the first.
func TestSealAgainstAWriter(t *testing.T) {
	sent, sealed := 0, 0
	for range 2000 {
		far := &wire{}
		c := &countedConn{Conn: far}
		var a attempt
		a.gotConn(httptrace.GotConnInfo{Conn: c})
		var both sync.WaitGroup
		var wrote error
		start := make(chan struct{})
		both.Go(func() { <-start; _, wrote = c.Write([]byte("request")) })
		var nothing bool
		both.Go(func() { <-start; nothing = a.nothingSent() })
		close(start)
		both.Wait()
		if nothing != (far.took.Load() == 0) || nothing != (wrote != nil) {
			t.Fatalf("nothingSent() = %v, and %d bytes left, %v", nothing, far.took.Load(), wrote)
		}
		if nothing {
			sealed++
		} else {
			sent++
		}
	}
	t.Logf("%d were sent, %d sealed", sent, sealed)
}

// What an attempt knows of the connection it was given.
func TestNothingSent(t *testing.T) {
	plain, other := net.Pipe()
	defer plain.Close()
	defer other.Close()
	counted := &countedConn{Conn: &wire{}}
	io.WriteString(counted, "a handshake")
	for _, tt := range []struct {
		name  string
		conns []net.Conn
		want  bool
	}{
		{"it never got one", nil, true},
		{"a counted one", []net.Conn{counted}, true},
		{"a counted one under TLS: the handshake is no request", []net.Conn{tls.Client(counted, &tls.Config{})}, true},
		{"one that does not count", []net.Conn{plain}, false},
		{"one that does not count, under TLS", []net.Conn{tls.Client(plain, &tls.Config{})}, false},
		{"none", []net.Conn{nil}, false},
		{"a counted one after one that does not", []net.Conn{plain, counted}, false},
		{"one that does not count after a counted one", []net.Conn{counted, plain}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a attempt
			for _, c := range tt.conns {
				a.gotConn(httptrace.GotConnInfo{Conn: c})
			}
			if got := a.nothingSent(); got != tt.want {
				t.Errorf("nothingSent() = %v, want %v", got, tt.want)
			}
		})
	}
}

// net/http may give an attempt a second connection when the first was dead. What left on the first counts.
func TestNothingSentOverTwoConnections(t *testing.T) {
	first, second := &countedConn{Conn: &wire{}}, &countedConn{Conn: &wire{}}
	var a attempt
	a.gotConn(httptrace.GotConnInfo{Conn: first})
	io.WriteString(first, "request")
	a.gotConn(httptrace.GotConnInfo{Conn: second})
	if a.nothingSent() {
		t.Error("the request left on the first connection, and nothingSent() = true")
	}
}
