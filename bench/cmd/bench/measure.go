package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/load"
)

// A result is one contender in one round.
type result struct {
	rate     float64
	p50, p99 float64 // us
	cpu      float64 // of the server, us a request
	sent     uint64
	executed uint64
}

// measure starts the contender's server in a process of its own, loads it from this one, and counts with it.
func measure(ctx context.Context, c contender, o options) (r result, err error) {
	s, err := start(ctx, c.server)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	g, err := load.New(load.Plan{
		URL: s.url + "/charges", Method: http.MethodPost, Mode: c.mode, Keys: 500, BodySize: 100,
		Connections: o.connections, Warmup: o.warmup, Duration: o.duration, Timeout: 10 * time.Second,
	})
	if err != nil {
		return r, err
	}
	report, err := g.Run(ctx)
	if err != nil {
		return r, err
	}
	if report.Errors > 0 {
		return r, fmt.Errorf("%d requests failed, the first: %s", report.Errors, report.FirstError)
	}
	r = result{rate: report.Rate, p50: report.Latency.P50, p99: report.Latency.P99, sent: report.Sent}
	if r.executed, err = s.executed(); err != nil {
		return r, err
	}
	if err := s.stop(); err != nil {
		return r, err
	}
	r.cpu = float64((s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()).Microseconds()) / float64(report.Sent)
	return r, honest(c, r)
}

// honest refuses a figure of a server that did not do what it is measured for.
func honest(c contender, r result) error {
	want := r.sent
	if c.server != "bare" && c.mode == load.Replay {
		want = 500
	}
	if r.executed != want {
		return fmt.Errorf("executed %d times, want %d", r.executed, want)
	}
	return nil
}

// A process is a server under test. It ends when its input does.
type process struct {
	cmd   *exec.Cmd
	input io.Closer
	url   string
	ended bool
}

func start(ctx context.Context, server string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "serve", server)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, input: input}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start server %s: %w", server, err), p.stop())
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

func (p *process) executed() (uint64, error) {
	res, err := http.Get(p.url + "/executed")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(b), 10, 64)
}

func (p *process) stop() error {
	if p.ended {
		return nil
	}
	p.ended = true
	p.input.Close()
	return p.cmd.Wait()
}
