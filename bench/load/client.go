package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// maxFailures is how many errors in a row make a client give up: a server that is
// gone is not asked for the rest of the run.
const maxFailures = 10

// A client is one connection and the loop around it. It connects again after an
// error.
type client struct {
	address string
	timeout time.Duration
	clock   func() time.Duration
	request request
	nextKey func(dst []byte) // nil for no key
	conn    net.Conn         // nil when not connected
	stop    func() bool      // ends the watch on the context; set with conn
	reader  *bufio.Reader
	tally   tally
}

// run sends until the time end. It measures what begins at start or later.
func (c *client) run(ctx context.Context, start, end time.Duration) {
	defer c.drop()
	failures := 0
	for begun := c.clock(); begun < end && failures < maxFailures; {
		got, err := c.exchange(ctx)
		ended := c.clock()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.tally.failed(err, ended)
			failures++
		} else if failures = 0; begun >= start {
			c.tally.answered(got, begun, ended)
		}
		begun = ended
	}
	if failures == maxFailures {
		c.tally.gaveUp++
	}
}

// send sends n requests that are not measured.
func (c *client) send(ctx context.Context, n int) {
	for failures := 0; n > 0 && failures < maxFailures && ctx.Err() == nil; n-- {
		if _, err := c.exchange(ctx); err != nil {
			c.tally.failed(err, c.clock())
			failures++
		}
	}
}

// exchange sends one request and reads its answer. An error costs the connection.
func (c *client) exchange(ctx context.Context) (answer, error) {
	if c.nextKey != nil {
		c.nextKey(c.request.key)
	}
	if err := c.connect(ctx); err != nil {
		return answer{}, err
	}
	got, err := c.roundTrip()
	if err != nil {
		c.drop()
	}
	return got, err
}

func (c *client) roundTrip() (answer, error) {
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return answer{}, fmt.Errorf("set deadline: %w", err)
	}
	if _, err := c.conn.Write(c.request.bytes); err != nil {
		return answer{}, fmt.Errorf("write request: %w", err)
	}
	c.tally.sent++
	return readAnswer(c.reader)
}

// connect does nothing on a connection that stands. The end of ctx closes it, so
// that no exchange outlives the run.
func (c *client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: c.timeout}
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.conn = conn
	c.stop = context.AfterFunc(ctx, func() { conn.Close() })
	c.reader.Reset(conn)
	return nil
}

func (c *client) drop() {
	if c.conn == nil {
		return
	}
	c.stop()
	c.conn.Close()
	c.conn = nil
}
