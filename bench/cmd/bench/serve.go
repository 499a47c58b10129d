package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/bench/process"
)

// A site is what one server is made of.
type site struct {
	serve func(net.Listener) error // until shut; the error of the listener
	shut  func() error
	close func() error // of what it stands on
}

// stats are what a server has done and used since it began.
type stats struct {
	Executed uint64
	Mallocs  uint64
	CPU      time.Duration
}

// A counter counts how often the handler behind everything executed.
type counter struct{ executed atomic.Uint64 }

func (c *counter) stats() stats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stats{Executed: c.executed.Load(), Mallocs: m.Mallocs, CPU: process.CPUTime()}
}

// answer is what the handler answers the n-th time.
func answer(n uint64) string { return fmt.Sprintf(`{"id":"ch_%d","amount":1000,"currency":"JPY"}`, n) }

// serve serves one server on a free port, tells its URL, and ends when ctx or standard input does.
func serve(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("bench serve", flag.ContinueOnError)
	kind := flags.String("kind", "bare", "what is served")
	dir := flags.String("dir", "", "folder of the store")
	upstream := flags.String("upstream", "", "URL of what stands behind a proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	to, err := url.Parse(*upstream)
	if err != nil {
		return err
	}
	s, err := build(*kind, *dir, to)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, s.close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	context.AfterFunc(ctx, func() { s.shut() })
	fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	if err = s.serve(l); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.close())
}

// build makes the site of that kind.
func build(kind, dir string, upstream *url.URL) (site, error) {
	var c counter
	nothing := func() error { return nil }
	switch kind {
	case "bare":
		return c.site(c.handler(), nothing), nil
	case "proxy":
		return c.site(reverseProxy(upstream), nothing), nil
	case "memory", "pebble", "gateway", "gateway-keepalive":
		h, end, err := guarded(kind, dir, upstream, c.handler())
		return c.site(h, end), err
	case "fiber", "fiber-idempotency":
		return c.fiber(kind == "fiber-idempotency"), nil
	}
	return site{}, fmt.Errorf("no server is called %q", kind)
}

// handler is the API that all of them guard or stand before.
func (c *counter) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := c.executed.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, answer(n))
	})
}

// site serves h with net/http, and the stats beside it.
func (c *counter) site(h http.Handler, end func() error) site {
	mux := http.NewServeMux()
	mux.Handle("POST /charges", h)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(c.stats()) })
	s := &http.Server{Handler: mux}
	return site{serve: s.Serve, shut: s.Close, close: end}
}
