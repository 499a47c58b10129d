package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed demopage
var demoFiles embed.FS

// demoPolicy lets the page use its own three files and its own events, and nothing else.
const demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// watching is how much longer a run takes so that somebody can look on.
const watching = 3 * time.Second

// showPage serves the page until ctx ends, which is how it is meant to end.
func (c *demoCmd) showPage(ctx context.Context, s streams, p plan) error {
	l, err := listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	page := newDemoPage(p, c.Seed)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { page.runs(ctx) })
	server := &http.Server{Handler: page.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	where := pageURL(l.Addr())
	fmt.Fprintf(s.out, "The demo is on %s (Ctrl-C ends it)\n", where)
	if !c.NoBrowser {
		openBrowser(ctx, s.out, where)
	}
	select {
	case err = <-failed:
		err = fmt.Errorf("demo: serve the page: %w", err)
	case <-ctx.Done():
	}
	stop()
	server.Close() // whoever looks at it has seen it: there is nothing to lose
	wg.Wait()
	return errors.Join(err, page.close())
}

// pageURL is where a browser of this machine finds what listens on addr.
func pageURL(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/", tcp.Port)
	}
	return fmt.Sprintf("http://%s/", addr)
}

// A demoPage runs the demo when it is asked to, one run at a time, and says how far it is.
type demoPage struct {
	plan    plan
	seed    uint64
	clients []*client     // their names
	start   chan struct{} // holds one: the run that was asked for

	mu     sync.Mutex
	run    int // counts the runs
	state  string
	flaw   string // of a run that failed
	traces []*trace
	demo   *demo // of the latest run; its API can be asked until the next one
}

// The states of a page.
const (
	pageWaiting = "waiting"
	pageRunning = "running"
	pageDone    = "done"
	pageFailed  = "failed"
)

func newDemoPage(p plan, seed uint64) *demoPage {
	traces := newTraces(p)
	clients := (&demo{plan: p, traces: traces}).clients()
	return &demoPage{plan: p, seed: seed, clients: clients, start: make(chan struct{}, 1), state: pageWaiting, traces: traces}
}

// ask asks for a run, unless one is under way.
func (p *demoPage) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == pageRunning {
		return
	}
	p.run++
	p.state, p.flaw, p.traces = pageRunning, "", newTraces(p.plan)
	p.start <- struct{}{} // has room: the run before has ended
}

// runs does the runs that are asked for until ctx ends.
func (p *demoPage) runs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.start:
			p.end(p.play(ctx))
		}
	}
}

// play does one run and checks that it shows its point, by what the payment API has.
func (p *demoPage) play(ctx context.Context) error {
	ctx, cancel := limitDemo(ctx, 4*demoLimit)
	defer cancel()
	d, err := newDemo(ctx, p.plan, p.traces)
	if err != nil {
		return err
	}
	d.breath = min(watching*demoWorkers/time.Duration(len(p.plan)), watching/10)
	if err := p.replace(d); err != nil {
		return err
	}
	rows, err := d.play(ctx, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		return err
	}
	for i, r := range rows {
		seen, _ := p.traces[i].tally()
		if seen.name, seen.client = r.name, r.client; seen != r {
			return fmt.Errorf("what the page saw of %q is not what the payment API has", r.name)
		}
	}
	return judgeRows(rows, len(p.plan))
}

// replace puts the demo of a new run in the place of the one before.
func (p *demoPage) replace(d *demo) error {
	p.mu.Lock()
	before := p.demo
	p.demo = d
	p.mu.Unlock()
	if before == nil {
		return nil
	}
	return before.close()
}

func (p *demoPage) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = pageDone
	if err != nil {
		p.state, p.flaw = pageFailed, err.Error()
	}
}

func (p *demoPage) close() error { return p.replace(nil) }

func (p *demoPage) handler() http.Handler {
	files, err := fs.Sub(demoFiles, "demopage")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events.json", p.serveEvents)
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		p.ask()
		w.WriteHeader(http.StatusAccepted)
	})
	own := http.NewCrossOriginProtection().Handler(mux) // another site starts nothing
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", demoPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		own.ServeHTTP(w, r)
	})
}

// Events are what the page draws: all of it, at one moment.
type demoEvents struct {
	Run        int             `json:"run"`
	State      string          `json:"state"`
	Flaw       string          `json:"flaw,omitempty"`
	Orders     int             `json:"orders"`
	Faulty     int             `json:"faulty"`
	Faults     string          `json:"faults"`
	Seed       uint64          `json:"seed"`
	API        string          `json:"api,omitempty"` // where the payment API of this run can be asked
	Clients    []demoClient    `json:"clients"`
	Operations []demoOperation `json:"operations"`
}

// A demoClient is a client's row so far.
type demoClient struct {
	Name     string `json:"name"`
	Customer string `json:"customer"`
	Requests int    `json:"requests"`
	Ended    int    `json:"ended"`
	Charges  int    `json:"charges"`
	Missing  int    `json:"missing"`
	Double   int    `json:"double"`
	Deceived int    `json:"deceived"`
	Marks    string `json:"marks"` // one for each order
}

// A demoOperation is one order that went wrong, as it went for each client.
type demoOperation struct {
	Order   string      `json:"order"`
	Fault   string      `json:"fault"` // of its attempts, in turn
	Stories []demoStory `json:"stories"`
}

type demoStory struct {
	Lifelines []string  `json:"lifelines"`
	Messages  []message `json:"messages"`
}

func (p *demoPage) serveEvents(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(p.events()) // who has gone needs no answer
}

func (p *demoPage) events() demoEvents {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := demoEvents{Run: p.run, State: p.state, Flaw: p.flaw, Orders: len(p.plan), Faulty: p.plan.faulty(), Faults: p.plan.summary(), Seed: p.seed}
	if p.demo != nil {
		e.API = p.demo.direct
	}
	for i, c := range p.clients {
		r, marks := p.traces[i].tally()
		ended := len(marks) - strings.Count(marks, string(markOpen))
		e.Clients = append(e.Clients, demoClient{c.name, c.customer, r.sent, ended, r.charges, r.missing, r.double, r.deceived, marks})
	}
	firsts := p.plan.firsts()
	for _, f := range faults {
		e.Operations = append(e.Operations, p.operation(firsts[f]))
	}
	return e
}

func (p *demoPage) operation(order int) demoOperation {
	var names []string
	for _, f := range p.plan[order] {
		names = append(names, faultNames[f])
	}
	o := demoOperation{Order: orderName(order), Fault: strings.Join(names, ", then ")}
	for _, t := range p.traces {
		o.Stories = append(o.Stories, demoStory{slices.Clone(t.lifelines), t.story(order)})
	}
	return o
}
