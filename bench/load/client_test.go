package load

import (
	"net"
	"testing"
	"time"
)

// An echoConn answers every request with the same bytes, from memory.
type echoConn struct {
	net.Conn
	answer  string
	pending bool
}

func (c *echoConn) SetDeadline(time.Time) error { return nil }

func (c *echoConn) Write(b []byte) (int, error) {
	c.pending = true
	return len(b), nil
}

func (c *echoConn) Read(b []byte) (int, error) {
	if !c.pending {
		panic("read without a request: the answer was not enough")
	}
	c.pending = false
	return copy(b, c.answer), nil
}

func newEchoClient(mode Mode, answer string) *client {
	p := testPlan("http://localhost/")
	p.Mode, p.Connections = mode, 1
	began := time.Now()
	g := Generator{plan: p}
	c := g.clients(func() time.Duration { return time.Since(began) })[0]
	c.conn = &echoConn{answer: answer}
	c.reader.Reset(c.conn)
	return c
}

var echoAnswers = []struct{ name, answer string }{
	{"length", "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nIdempotent-Replayed: true\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 13\r\n\r\n{\"id\":\"ch_1\"}"},
	{"chunks", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"id\":\"ch_1\"}\r\n0\r\n\r\n"},
}

func TestExchangeDoesNotAllocate(t *testing.T) {
	for _, mode := range []Mode{Unique, Replay, Plain} {
		for _, tt := range echoAnswers {
			c := newEchoClient(mode, tt.answer)
			allocs := testing.AllocsPerRun(1000, func() {
				begun := c.clock()
				got, err := c.exchange(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c.tally.answered(got, begun, c.clock())
			})
			if allocs != 0 {
				t.Errorf("mode %s, answer in %s: %v allocations a request; want 0", mode, tt.name, allocs)
			}
		}
	}
}

// BenchmarkExchange is what a request costs beside the system calls.
func BenchmarkExchange(b *testing.B) {
	for _, bm := range echoAnswers {
		b.Run(bm.name, func(b *testing.B) {
			c := newEchoClient(Unique, bm.answer)
			b.ReportAllocs()
			for b.Loop() {
				begun := c.clock()
				got, err := c.exchange(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				c.tally.answered(got, begun, c.clock())
			}
		})
	}
}
