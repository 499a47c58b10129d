package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// This file decides "nothing was sent" against "may have acted": by the bytes that left on the request's own
// connection, and in a way that nothing can leave after the decision.

var errSealed = errors.New("connection was given up before the request left")

// A countedConn counts what is written to it. The count rises before the bytes leave, and falls again by what
// the kernel did not take: what is looked at in between counts as sent.
type countedConn struct {
	net.Conn
	mu      sync.Mutex
	written int64
	sealed  bool
	act     func() error // before the next write, which an error of it keeps from leaving
}

// Write is called by one goroutine at a time, as net/http and crypto/tls do.
func (c *countedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	act := c.act
	c.act = nil
	c.mu.Unlock()
	if act != nil {
		if err := act(); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, errSealed
	}
	c.written += int64(len(p))
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	if n < len(p) {
		c.mu.Lock()
		c.written -= int64(len(p) - n)
		c.mu.Unlock()
	}
	return n, err
}

func (c *countedConn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// before has act called before the first write of the request that begins.
func (c *countedConn) before(act func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.act = act
}

// seal lets nothing more out if nothing left since the count was mark; it returns whether that is so.
func (c *countedConn) seal(mark int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == mark {
		c.sealed = true
	}
	return c.sealed
}

// An attempt is one sending of a request.
type attempt struct {
	conn *countedConn // nil: it never got a connection
	lost bool         // it got one that does not count: nothing is known
	mark int64        // bytes on it before this request

	act      func() error // makes it durable that the request leaves, before its first byte; nil: nothing does
	unmarked atomic.Pointer[error]
}

func (a *attempt) trace() *httptrace.ClientTrace { return &httptrace.ClientTrace{GotConn: a.gotConn} }

// gotConn takes note of the connection that the attempt goes over. The transport may change it as long as
// nothing left; what left on the first would count for ever.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn
	if t, ok := c.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" { // its bytes are of other requests, too
			a.lost = true
			return
		}
		c = t.NetConn()
	}
	counted, ok := c.(*countedConn)
	switch {
	case ok:
		counted.before(a.leave)
	case c != nil && a.act != nil:
		c.Close() // on it the request would leave unmarked
	}
	if a.lost || a.conn != nil && !a.conn.seal(a.mark) {
		a.lost = true
		return
	}
	if a.lost = !ok; ok {
		a.conn, a.mark = counted, counted.count()
	}
}

// leave is called when the first byte of the request is about to leave. After an error it does not.
func (a *attempt) leave() error {
	if a.act == nil {
		return nil
	}
	err := a.act()
	if err != nil {
		a.unmarked.Store(&err)
	}
	return err
}

// nothingSent tells whether no byte of the request left, nor ever will. It is called once the attempt failed.
func (a *attempt) nothingSent() bool {
	if a.lost {
		return false
	}
	return a.conn == nil || a.conn.seal(a.mark)
}
