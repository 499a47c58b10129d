// Command load measures an HTTP/1.1 server with a closed loop of connections and
// prints one line of JSON. It is a process of its own, so that its CPU time can be
// told from the server's.
//
// It exits with 0 if every request was answered, 1 if any failed, and 2 if the
// flags are wrong. Whatever status the answers have, they are answers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	plan, err := parsePlan(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2 // the flag package has told it
	}
	generator, err := load.New(plan)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	report, err := generator.Run(ctx)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if err := json.NewEncoder(stdout).Encode(report); err != nil {
		fmt.Fprintln(stderr, "load: write report:", err)
		return 1
	}
	if report.Errors > 0 {
		fmt.Fprintf(stderr, "load: %d requests failed, the first: %s\n", report.Errors, report.FirstError)
		return 1
	}
	return 0
}

// parsePlan reads the flags. What it cannot read it tells on stderr.
func parsePlan(args []string, stderr io.Writer) (load.Plan, error) {
	var p load.Plan
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&p.URL, "url", "", "where to send requests, http://host:port/path")
	f.StringVar(&p.Method, "method", "POST", "POST, PUT, PATCH, DELETE, or GET, which has no body")
	f.StringVar((*string)(&p.Mode), "mode", string(load.Unique), "key of a request: unique, replay (one of --keys) or plain (none)")
	f.IntVar(&p.Keys, "keys", 1000, "how many keys are replayed")
	f.IntVar(&p.BodySize, "body-size", 128, "bytes of JSON in a request")
	f.IntVar(&p.Connections, "connections", 32, "connections, each with one request under way")
	f.DurationVar(&p.Warmup, "warmup", 2*time.Second, "time before the measured window")
	f.DurationVar(&p.Duration, "duration", 10*time.Second, "length of the measured window")
	f.DurationVar(&p.Timeout, "timeout", 10*time.Second, "limit of one connect and of one exchange")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	if f.NArg() > 0 {
		err := fmt.Errorf("load: unexpected argument %q", f.Arg(0))
		fmt.Fprintln(stderr, err)
		return p, err
	}
	return p, nil
}
