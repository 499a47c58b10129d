package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/payments"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

type demoCmd struct {
	Headless  bool   `help:"Print the result and exit, with status 1 unless the demo proved its point. Without it a page shows the same live, with pictures of who sent what to whom, until Ctrl-C."`
	Orders    int    `default:"120" help:"How many orders each client has to charge. Default ${default}."`
	Seed      uint64 `default:"0" help:"Which orders go wrong: the same seed, the same orders. Default ${default}: every third."`
	Listen    string `default:"127.0.0.1:0" env:"-" placeholder:"ADDR" help:"Where the page is served. Default ${default}, a free port of this machine."`
	NoBrowser bool   `help:"Do not open the page in a browser. One is opened only from a terminal on a desktop."`
}

// Help is what demo --help says beside the flags.
func (demoCmd) Help() string {
	return `Four clients charge the same orders over the same line, which loses requests and answers: one gives up, one resends bare, one resends with a new key each time, and one resends with one key through retrysafe. All of it is real and on this machine: the payment API, the gateway, and every request.`
}

// demoLimit bounds the whole demo. On the page, where everybody sees how far it is, a run may take four times as long.
const demoLimit = 30 * time.Second

// How many orders a client may have: so many that each fault occurs, so few that a slow machine ends in time.
const (
	minOrders = 3*(len(faults)-1) + 1
	maxOrders = 1000
)

// Run plays the same orders over the same faulty line for each client, then counts the charges that stand.
func (c *demoCmd) Run(ctx context.Context, s streams) error {
	if c.Orders < minOrders || c.Orders > maxOrders {
		return usage("--orders: want %d to %d: every fault must occur, and in time", minOrders, maxOrders)
	}
	p := newPlan(c.Orders).shuffled(c.Seed)
	if !c.Headless {
		return c.showPage(ctx, s, p)
	}
	ctx, cancel := limitDemo(ctx, demoLimit)
	defer cancel()
	d, err := newDemo(ctx, p, newTraces(p))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer d.close()
	fmt.Fprintf(s.out, "%d orders, one charge each, sent over a line on which %d first attempts go wrong:\n", c.Orders, d.plan.faulty())
	fmt.Fprintf(s.out, "%s\n\n", d.plan.summary())
	rows, err := d.play(ctx, s)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	printRows(s, rows)
	if bad := judgeRows(rows, c.Orders); bad != nil {
		return fmt.Errorf("the demo did not show what it must: %w", bad)
	}
	fmt.Fprintln(s.out, "\nThe line lost the same messages for all four. Only the key, kept over all retries, makes them harmless.")
	return nil
}

func limitDemo(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %v: is the machine very busy?", limit))
}

// A demo is the payment API, the gateway in front of it, and a faulty line to each.
type demo struct {
	plan    plan
	traces  []*trace      // by client
	breath  time.Duration // of each client's workers before an order, for those who watch
	api     *payments.API
	servers []*http.Server
	direct  string // URL of the API
	guarded string // URL of the gateway
	dir     string
}

func newDemo(ctx context.Context, p plan, traces []*trace) (*demo, error) {
	dir, err := os.MkdirTemp("", "retrysafe-demo-")
	if err != nil {
		return nil, err
	}
	d := &demo{plan: p, traces: traces, dir: dir}
	if d.api, err = payments.Open(ctx, filepath.Join(dir, "payments.db"), nil); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if d.direct, err = d.listen(lifeAPI, d.api.Handler()); err != nil {
		return nil, errors.Join(err, d.close())
	}
	guard, err := newDemoGateway(d.direct)
	if err == nil {
		d.guarded, err = d.listen(lifeGateway, guard)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func newDemoGateway(upstream string) (http.Handler, error) {
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return gateway.New(executor, u, idemhttp.SharedScope, &gateway.Options{Guard: idemhttp.Options{Required: true}})
}

// listen serves h, tapped, on a free port of this machine and returns its URL.
func (d *demo) listen(lifeline string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: &tap{lifeline, d.traces, len(d.plan), h}, ReadHeaderTimeout: 10 * time.Second}
	d.servers = append(d.servers, server)
	go server.Serve(l)
	return "http://" + l.Addr().String(), nil
}

func (d *demo) close() error {
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	if d.api != nil {
		errs = append(errs, d.api.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// A row is what became of one client's orders.
type row struct {
	name     string
	client   string
	charges  int // that stand
	missing  int // orders without a charge
	double   int // charges too many
	deceived int // orders whose charge stands though the client believes that it failed
	sent     int
}

// add counts an order that has n charges, and returns its mark.
func (r *row) add(n int, believed bool) byte {
	r.double += max(n-1, 0)
	switch {
	case n == 0:
		r.missing++
		return markMissing
	case !believed:
		r.deceived++
		return markDeceived
	case n > 1:
		return markDouble
	}
	return markOnce
}

// play runs all clients at once and counts what stands.
func (d *demo) play(ctx context.Context, s streams) ([]row, error) {
	clients := d.clients()
	rows := make([]row, len(clients))
	errs := make([]error, len(clients))
	var done atomic.Int64
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			if errs[i] = d.drive(ctx, c, &done); errs[i] == nil {
				rows[i], errs[i] = d.count(ctx, c)
			}
		})
	}
	stop := showProgress(s, &done, int64(len(clients)*len(d.plan)))
	wg.Wait()
	stop()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // once, not for each client
	}
	return rows, errors.Join(errs...)
}

// showProgress keeps one line up to date on a terminal, and prints nothing elsewhere.
func showProgress(s streams, done *atomic.Int64, all int64) (stop func()) {
	if !isLively(s.err) {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			fmt.Fprintf(s.err, "\r%d of %d orders", done.Load(), all)
			select {
			case <-quit:
				fmt.Fprint(s.err, "\r\033[K")
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(quit); <-gone }
}

// count compares what the client believes with the charges that stand.
func (d *demo) count(ctx context.Context, c *client) (row, error) {
	standing, err := charges(ctx, d.direct, c.customer)
	if err != nil {
		return row{}, fmt.Errorf("count the charges of %s: %w", c.customer, err)
	}
	r := row{name: c.name, client: c.customer, sent: c.trace.sent}
	for i := range d.plan {
		n := standing[orderName(i)]
		r.charges += n
		r.add(n, c.trace.believes[i])
	}
	return r, nil
}

func printRows(s streams, rows []row) {
	fmt.Fprintf(s.out, "%-40s %8s %8s %8s %8s  %s\n", "client", "requests", "charges", "missing", "double", "stands, but believed failed")
	for _, r := range rows {
		line := fmt.Sprintf("%-40s %8d %8d %8d %8d  %d", r.name, r.sent, r.charges, r.missing, r.double, r.deceived)
		if isLively(s.out) {
			colour := 31
			if r.missing+r.double+r.deceived == 0 {
				colour = 32
			}
			line = fmt.Sprintf("\033[%dm%s\033[0m", colour, line)
		}
		fmt.Fprintln(s.out, line)
	}
}

// judgeRows says what a run failed to show. A bare client without doubles would prove nothing.
func judgeRows(rows []row, orders int) error {
	var bad []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	gaveUp, bare, newKeys, oneKey := rows[0], rows[1], rows[2], rows[3]
	must(gaveUp.missing > 0 && gaveUp.deceived > 0 && gaveUp.double == 0, "giving up must leave charges missing, and charges that nobody knows of, and none double")
	must(bare.double > 0, "resending bare must charge twice")
	must(newKeys.double > 0, "resending with a new key each time must charge twice")
	must(oneKey.charges == orders && oneKey.missing+oneKey.double+oneKey.deceived == 0, "one key through the gateway must charge every order once, known to the client")
	if bad == nil {
		return nil
	}
	return errors.New(strings.Join(bad, "; "))
}
