package gateway_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A raw upstream: what only the wire shows.

// A received is a request as it stood on the wire upstream.
type received struct {
	line    string   // without its end
	lines   []string // of the header, as they stood
	body    []byte   // decoded
	chunked bool
	conn    int // number of the connection, from 1
}

// header returns the values of a header in the order of its lines.
func (r received) header(name string) (values []string) {
	for _, line := range r.lines {
		if n, v, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			values = append(values, strings.TrimSpace(v))
		}
	}
	return values
}

// An upstream is a raw TCP server. A script serves each of its connections.
type upstream struct {
	net.Listener
	t     *testing.T
	mu    sync.Mutex
	got   []received // guarded by mu
	told  chan received
	conn  int     // guarded by mu
	peers []*peer // guarded by mu
}

// A peer is the upstream's end of one connection.
type peer struct {
	*net.TCPConn
	r  *bufio.Reader
	up *upstream
	n  int
}

// newUpstream serves connections by script; each ends with its script.
func newUpstream(t *testing.T, script func(p *peer)) *upstream {
	t.Helper()
	return upstreamAt(t, "127.0.0.1:0", script)
}

func upstreamAt(t *testing.T, addr string, script func(p *peer)) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	up := &upstream{Listener: ln, t: t, told: make(chan received, 1000)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			up.mu.Lock()
			up.conn++
			p := &peer{c.(*net.TCPConn), bufio.NewReader(c), up, up.conn}
			up.peers = append(up.peers, p)
			up.mu.Unlock()
			serving.Go(func() {
				defer c.Close()
				script(p)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		up.hangUp()
		serving.Wait()
	})
	return up
}

// hangUp closes every connection.
func (up *upstream) hangUp() {
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, p := range up.peers {
		p.Close()
	}
}

func (up *upstream) url() string { return "http://" + up.Addr().String() }

// requests returns what has been received whole so far.
func (up *upstream) requests() []received {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.got
}

// wantRequests expects so many requests to have reached the upstream.
func (up *upstream) wantRequests(t *testing.T, want int) {
	t.Helper()
	if got := up.requests(); len(got) != want {
		t.Errorf("%d requests reached the upstream, want %d", len(got), want)
	}
}

// request reads one request whole. It returns false when the gateway closed the connection.
func (p *peer) request() (r received, ok bool) {
	if r, ok = p.head(); !ok {
		return r, false
	}
	var err error
	if r.chunked = len(r.header("Transfer-Encoding")) > 0; r.chunked {
		r.body, err = p.chunks()
	} else {
		length, _ := strconv.Atoi(strings.Join(r.header("Content-Length"), ""))
		r.body = make([]byte, length)
		_, err = io.ReadFull(p.r, r.body)
	}
	if err != nil {
		return r, false
	}
	p.up.mu.Lock()
	p.up.got = append(p.up.got, r)
	p.up.mu.Unlock()
	p.up.told <- r
	return r, true
}

// head reads a request line and a header.
func (p *peer) head() (r received, ok bool) {
	r.conn = p.n
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			return r, false
		}
		line = strings.TrimSuffix(line, "\r\n")
		switch {
		case line == "":
			return r, true
		case r.line == "":
			r.line = line
		default:
			r.lines = append(r.lines, line)
		}
	}
}

// chunks reads a body in chunks.
func (p *peer) chunks() (body []byte, err error) {
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		if err != nil {
			return nil, err
		}
		part := make([]byte, size+2)
		if _, err := io.ReadFull(p.r, part); err != nil || size == 0 {
			return body, err
		}
		body = append(body, part[:size]...)
	}
}

// answer sends text as it stands.
func (p *peer) answer(text string) { io.WriteString(p, text) }

// reset closes the connection the hard way.
func (p *peer) reset() {
	p.SetLinger(0)
	p.Close()
}

// created is an answer of an upstream that charged.
const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /charges/1\r\nContent-Length: 10\r\n\r\n{\"id\":\"1\"}"

// charging serves every request of its connection with created.
func charging(p *peer) {
	for {
		if _, ok := p.request(); !ok {
			return
		}
		p.answer(created)
	}
}
