package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/sample"
)

// memory measures what the real gateway holds while it serves a folder of many keys.
func (s *scale) memory(ctx context.Context, dir string) (err error) {
	binary, err := s.build(ctx)
	if err != nil {
		return err
	}
	upstream := httptest.NewServer(http.HandlerFunc(charge))
	defer upstream.Close()
	g, err := startGateway(ctx, binary, s.dir, dir, upstream.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	const how = "VmRSS of the binary from /proc, built with CGO_ENABLED=0; "
	resident := func(when, how string, args ...any) error {
		m, err := g.Memory()
		if err == nil {
			name := fmt.Sprintf("memory of the gateway with %d keys, %s", s.keys/3, when)
			s.found(name, "MiB", "< 200", sample.Sample{mebibytes(m.Resident)}, how, args...)
			s.found(name+", at most so far", "MiB", "", sample.Sample{mebibytes(m.Peak)}, "VmHWM of the same")
		}
		return err
	}
	if err := resident("after start", how+"when it listens"); err != nil {
		return err
	}
	rate, err := s.mixedLoad(ctx, g.url)
	if err != nil {
		return err
	}
	if err := resident("after load", how+"after %v of 32 connections, half with unique keys, half with 500 replayed ones, %.0f requests/s in all", s.load, rate); err != nil {
		return err
	}
	pages, listed, took, err := listAll(ctx, g)
	if err != nil {
		return err
	}
	return resident("after a listing", how+"after GET /api/keys, page by page (%d pages, %d keys, %.1f s)", pages, listed, took.Seconds())
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// charge is the API behind the gateway.
func charge(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(answer(r.Header.Get("Idempotency-Key")))
}

// mixedLoad sends fresh keys and replays at once, and returns the requests a second.
func (s *scale) mixedLoad(ctx context.Context, url string) (rate float64, err error) {
	var group sync.WaitGroup
	modes := []load.Mode{load.Unique, load.Replay}
	reports, errs := make([]load.Report, len(modes)), make([]error, len(modes))
	for i, mode := range modes {
		g, err := load.New(load.Plan{URL: url + "/charges", Method: http.MethodPost, Mode: mode, Keys: 500, BodySize: 100,
			Connections: 16, Duration: s.load, Timeout: 10 * time.Second})
		if err != nil {
			return 0, err
		}
		group.Go(func() { reports[i], errs[i] = g.Run(ctx) })
	}
	group.Wait()
	for i, r := range reports {
		if r.Errors > 0 || r.Statuses[http.StatusCreated] != r.Requests {
			errs[i] = errors.Join(errs[i], fmt.Errorf("%d requests failed, the first: %s; statuses %v", r.Errors, r.FirstError, r.Statuses))
		}
		rate += r.Rate
	}
	return rate, errors.Join(errs...)
}

// listAll reads the whole list from the gateway's API.
func listAll(ctx context.Context, g running) (pages, keys int, took time.Duration, err error) {
	client := admin.Client{URL: g.admin, Token: g.token}
	began := time.Now()
	for f := (retrysafe.Filter{Limit: 1000}); ; {
		page, err := client.List(ctx, f)
		if err != nil {
			return pages, keys, 0, err
		}
		pages, keys = pages+1, keys+len(page.Keys)
		if f.Cursor = page.Next; f.Cursor == "" {
			return pages, keys, time.Since(began), nil
		}
	}
}
