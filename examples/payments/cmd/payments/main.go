// Command payments serves the example payment API from a SQLite file. It is
// the upstream that the retrysafe gateway is shown in front of.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/examples/payments"
)

const usage = `payments serves a small payment API whose data live in one SQLite file.

Usage:
  payments [--listen HOST:PORT] [--db FILE]

Flags:
  --listen HOST:PORT  where to listen; port 0 takes a free one (default 127.0.0.1:9090)
  --db FILE           the database, made when there is none (default payments.db)
  --help              this text

It has no accounts and no keys: let nobody reach it but the gateway in front.
When it is ready it says "listening on http://HOST:PORT" on standard error.
SIGTERM or SIGINT let the requests under way finish, for 10 s at most; a second
signal ends it at once. Exit status: 0 stopped, 1 failed, 2 wrong flags.
`

// drainLimit bounds how long a stop waits for requests under way.
const drainLimit = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on a signal has its usual effect
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// config is what the flags say.
type config struct {
	listen, db string
}

// run serves until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v (see payments --help)\n", err)
		return 2
	}
	if err := serve(ctx, cfg, stderr); err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", err)
		return 1
	}
	return 0
}

// parse checks what can be checked without touching anything: what is wrong
// here is a mistake of the command line, status 2.
func parse(args []string) (cfg config, err error) {
	flags := flag.NewFlagSet("payments", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run says what is wrong, in one line
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9090", "")
	flags.StringVar(&cfg.db, "db", "payments.db", "")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if _, _, err := net.SplitHostPort(cfg.listen); err != nil {
		return config{}, fmt.Errorf("--listen %q is not HOST:PORT", cfg.listen)
	}
	if cfg.db == "" {
		return config{}, errors.New("--db is empty")
	}
	return cfg, nil
}

// serve opens the database, serves until ctx ends, drains and closes.
func serve(ctx context.Context, cfg config, stderr io.Writer) error {
	log := slog.NewTextHandler(stderr, nil)
	api, err := payments.Open(ctx, cfg.db, &payments.Options{Logger: slog.New(log)})
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return errors.Join(err, api.Close())
	}
	fmt.Fprintf(stderr, "listening on http://%s\n", ln.Addr())
	srv := &http.Server{
		Handler:           api.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second, // includes the reading of the body
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log, slog.LevelError),
	}
	return errors.Join(serveUntil(ctx, srv, ln, drainLimit), api.Close())
}

// serveUntil serves ln until ctx ends, then gives the requests under way as much
// time as limit.
func serveUntil(ctx context.Context, srv *http.Server, ln net.Listener, limit time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		return errors.Join(fmt.Errorf("drain: requests were cut off after %v: %w", limit, err), srv.Close())
	}
	return nil
}
