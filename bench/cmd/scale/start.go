package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/process"
	"github.com/retrysafe/retrysafe/bench/sample"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// start measures how long the folder takes to open: after it was closed, after its process was killed while it wrote,
// and as part of the start of the gateway.
func (s *scale) start(ctx context.Context, dir string) error {
	var closed, killed, served sample.Sample
	for range s.rounds {
		if err := timeOpen(dir, &closed); err != nil {
			return err
		}
	}
	for range s.rounds {
		if err := writeAndKill(ctx, dir, s.window); err != nil {
			return err
		}
		if err := timeOpen(dir, &killed); err != nil {
			return err
		}
	}
	const how = "pebblestore.Open in this process, the files in the system's cache"
	s.found(fmt.Sprintf("open of %d keys, closed before", s.keys), "ms", "< 1000", closed, how)
	s.found(fmt.Sprintf("open of %d keys after kill -9", s.keys), "ms", "< 1000", killed, how+"; each time after a process of its own had written for %v, %d operations at once, and was killed while it did", s.window, claimants)
	binary, err := s.build(ctx)
	if err != nil {
		return err
	}
	for range s.rounds {
		began := time.Now()
		g, err := startGateway(ctx, binary, s.dir, dir, "http://127.0.0.1:9")
		if err != nil {
			return err
		}
		served = append(served, milliseconds(time.Since(began)))
		if err := g.Stop(); err != nil {
			return err
		}
	}
	s.found(fmt.Sprintf("start of the gateway with %d keys", s.keys), "ms", "< 1000", served, "from exec of the binary to its line \"listening on\"")
	return nil
}

func timeOpen(dir string, took *sample.Sample) error {
	began := time.Now()
	store, err := pebblestore.Open(dir, nil)
	if err != nil {
		return err
	}
	*took = append(*took, milliseconds(time.Since(began)))
	return store.Close()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

var writing = regexp.MustCompile(`^writing$`)

// writeAndKill has another process write to the folder, and kills it after a while.
func writeAndKill(ctx context.Context, dir string, after time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := process.Start(ctx, writing, self, "write", dir)
	if err != nil {
		return err
	}
	defer p.Kill()
	select {
	case <-time.After(after):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes to a folder until it is killed, or its input ends.
func write(ctx context.Context, dir string, stdout io.Writer) (err error) {
	store, err := pebblestore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	executor, err := retrysafe.New(store, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Fprintln(stdout, "writing")
	return parallel(ctx, claimants, func(ctx context.Context) (bool, error) { return true, operate(ctx, executor) })
}
