package gateway

import (
	"errors"
	"net"
	"sync"
)

// LimitConnections returns l with at most n of its connections open at once. Further ones wait in the system's
// queue until another closes. Unlike golang.org/x/net/netutil.LimitListener its connections can be closed for
// writing alone, as net/http does after an answer to a request that it did not read whole: without that, the
// system resets the connection and the caller may never see why it was refused.
func LimitConnections(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, room: make(chan struct{}, max(n, 1)), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	room   chan struct{} // holds one for each open connection
	closed chan struct{}
	once   sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	leave func()
}

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
