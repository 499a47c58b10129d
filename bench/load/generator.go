package load

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/bench/process"
)

// A Generator runs a Plan.
type Generator struct {
	plan   Plan
	target target
}

// New returns the Generator of a plan, or an error that says what is wrong with it.
func New(p Plan) (*Generator, error) {
	t, err := p.check()
	if err != nil {
		return nil, fmt.Errorf("load: check plan: %w", err)
	}
	return &Generator{plan: p, target: t}, nil
}

// Run sends what the plan says and reports what came back. Requests that fail are
// told in the Report; Run itself fails only when ctx ends first.
func (g *Generator) Run(ctx context.Context) (Report, error) {
	began := time.Now()
	clients := g.clients(func() time.Duration { return time.Since(began) })
	if g.plan.Mode == Replay {
		g.sendFirst(ctx, clients)
	}

	start := time.Since(began) + g.plan.Warmup
	done := each(clients, func(_ int, c *client) { c.run(ctx, start, start+g.plan.Duration) })
	select {
	case <-time.After(g.plan.Warmup):
	case <-done:
	}
	before := process.CPUTime()
	<-done
	cpu := process.CPUTime() - before

	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("load: run: %w", err)
	}
	var sum tally
	for _, c := range clients {
		sum.merge(&c.tally)
	}
	return sum.report(start, cpu), nil
}

func (g *Generator) clients(clock func() time.Duration) []*client {
	clients := make([]*client, g.plan.Connections)
	for i := range clients {
		clients[i] = &client{
			address: g.target.address,
			timeout: g.plan.Timeout,
			clock:   clock,
			request: newRequest(g.plan, g.target),
			reader:  bufio.NewReaderSize(nil, maxLine),
		}
	}
	g.giveKeys(clients)
	return clients
}

// giveKeys sets where each client gets its keys from. Those that replay go round
// the same set, each from another point, so that they seldom meet on one key.
func (g *Generator) giveKeys(clients []*client) {
	switch g.plan.Mode {
	case Unique:
		for _, c := range clients {
			random := newRandom()
			c.nextKey = func(dst []byte) { writeUUID(dst, random) }
		}
	case Replay:
		set := newKeySet(g.plan.Keys)
		for i, c := range clients {
			at := shareStart(i, len(clients), g.plan.Keys)
			c.nextKey = func(dst []byte) {
				copy(dst, set[at*keySize:])
				at = (at + 1) % g.plan.Keys
			}
		}
	}
}

// sendFirst sends every key of the set once, each client its share, so that the
// window sees replays alone.
func (g *Generator) sendFirst(ctx context.Context, clients []*client) {
	n := len(clients)
	<-each(clients, func(i int, c *client) {
		c.send(ctx, shareStart(i+1, n, g.plan.Keys)-shareStart(i, n, g.plan.Keys))
	})
}

// shareStart cuts keys into n parts that differ by one at most, and returns where
// the part i begins.
func shareStart(i, n, keys int) int { return i * keys / n }

// each runs do for every client at once and closes the channel when all are done.
func each(clients []*client, do func(i int, c *client)) <-chan struct{} {
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() { do(i, c) })
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}
