package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/process"
)

// A result is one contender in one round.
type result struct {
	rate      float64
	p50, p99  float64 // us
	cpu       float64 // of the server, us a request; of a proxy without what stands behind it
	allocs    float64 // of the server, a request
	generator float64 // CPU of the load generator, us a request
	sent      uint64
	executed  uint64
	replayed  uint64 // of the measured requests, as their answers say
	measured  uint64
}

// measure starts the contender's server in a process of its own, loads it from this one, and counts with it.
func measure(ctx context.Context, c contender, connections int, o options) (r result, err error) {
	dir, err := os.MkdirTemp(o.dir, "retrysafe-bench")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := start(ctx, c, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	g, err := load.New(load.Plan{
		URL: s.front.url + "/charges", Method: http.MethodPost, Mode: c.mode, Keys: keys, KeyHeader: c.bare, BodySize: 100,
		Connections: connections, Warmup: o.warmup, Duration: o.duration, Timeout: 10 * time.Second,
	})
	if err != nil {
		return r, err
	}
	before, err := s.front.stats(ctx)
	if err != nil {
		return r, err
	}
	report, err := g.Run(ctx)
	if err != nil {
		return r, err
	}
	after, err := s.front.stats(ctx)
	if err != nil {
		return r, err
	}
	behind, err := s.last().stats(ctx)
	if err != nil {
		return r, err
	}
	return sumUp(c, report, before, after, behind)
}

// sumUp makes a result of what the generator and the servers counted.
func sumUp(c contender, report load.Report, before, after, behind stats) (result, error) {
	if report.Errors > 0 || report.Requests == 0 {
		return result{}, fmt.Errorf("%d requests were answered and %d failed, the first: %s", report.Requests, report.Errors, report.FirstError)
	}
	if report.Statuses[http.StatusCreated] != report.Requests {
		return result{}, fmt.Errorf("statuses %v, want 201 alone", report.Statuses)
	}
	n := float64(report.Sent)
	r := result{
		rate: report.Rate, p50: report.Latency.P50, p99: report.Latency.P99,
		cpu:       float64((after.CPU - before.CPU).Microseconds()) / n,
		allocs:    float64(after.Mallocs-before.Mallocs) / n,
		generator: report.CPUSeconds * 1e6 / float64(report.Requests),
		sent:      report.Sent, executed: behind.Executed, replayed: report.Replayed, measured: report.Requests,
	}
	return r, honest(c, r)
}

// honest refuses a figure of a server that did not do what it is measured for.
func honest(c contender, r result) error {
	if c.peer {
		return nil // what it does is printed
	}
	if want := c.expected(r.sent); r.executed != want {
		return fmt.Errorf("executed %d times, want %d", r.executed, want)
	}
	replays := uint64(0)
	if c.guards() && c.mode == load.Replay {
		replays = r.measured
	}
	if r.replayed != replays {
		return fmt.Errorf("%d answers say that they are replays, want %d", r.replayed, replays)
	}
	return nil
}

// servers are those of one measurement: the one that is loaded, and what stands behind it.
type servers struct{ front, upstream *server }

type server struct {
	process *process.Process
	url     string
}

var listening = regexp.MustCompile(`^(http://\S+)$`)

func start(ctx context.Context, c contender, dir string) (s servers, err error) {
	args := []string{"-kind", c.kind, "-dir", dir}
	if c.after {
		if s.upstream, err = startServer(ctx, "-kind", "bare"); err != nil {
			return s, err
		}
		args = append(args, "-upstream", s.upstream.url)
	}
	if s.front, err = startServer(ctx, args...); err != nil {
		return s, errors.Join(err, s.stop())
	}
	return s, nil
}

func startServer(ctx context.Context, args ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, listening, self, append([]string{"serve"}, args...)...)
	if err != nil {
		return nil, err
	}
	return &server{process: p, url: p.Told(listening)}, nil
}

// last is the server that executes.
func (s servers) last() *server {
	if s.upstream != nil {
		return s.upstream
	}
	return s.front
}

func (s servers) stop() (err error) {
	for _, one := range []*server{s.front, s.upstream} {
		if one != nil {
			err = errors.Join(err, one.process.Stop())
		}
	}
	return err
}

// stats asks the server what it has done and used so far.
func (s *server) stats(ctx context.Context) (got stats, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/stats", nil)
	if err != nil {
		return got, err
	}
	req.Close = true // the server is gone soon
	client := http.Client{Timeout: 10 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<10)).Decode(&got)
	return got, err
}
