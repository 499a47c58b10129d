// Command bench measures servers side by side: each in a process of its own, in interleaved rounds, so that
// what the machine does meanwhile touches all of them alike. The load comes from this process, which does nothing
// else while it measures. It prints one table in Markdown; progress goes to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds      int
	connections []int
	warmup      time.Duration
	duration    time.Duration
	only        *regexp.Regexp
	dir         string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(ctx, args[1:], stdout)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	chosen := choose(o.only)
	if len(chosen) == 0 {
		return fmt.Errorf("no contender is called like %q: want part of one of %q", o.only, names(contenders))
	}
	where, err := machine.Describe(o.dir)
	if err != nil {
		return err
	}
	runs := len(chosen) * len(o.connections) * o.rounds
	fmt.Fprintf(stderr, "%d contenders, about %v in all\n", len(chosen), (time.Duration(runs) * (o.warmup + o.duration + time.Second/2)).Round(time.Second))
	results, err := rounds(ctx, chosen, o, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s, `bench %s`\n%s\n\n", time.Now().UTC().Format(time.DateOnly), strings.Join(args, " "), where)
	return printTable(stdout, chosen, o, results)
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	connections := flags.String("connections", "32,128", "connections of the load generator, one table part for each")
	flags.DurationVar(&o.warmup, "warmup", time.Second, "before each measurement")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "of each measurement")
	only := flags.String("only", "", "regular expression: contenders to run, and what they are compared with")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder for the stores' folders: on the disk to be measured")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 {
		return o, fmt.Errorf("want flags alone and at least one round, got %q", args)
	}
	for part := range strings.SplitSeq(*connections, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-connections %s: want numbers with commas between", *connections)
		}
		o.connections = append(o.connections, n)
	}
	o.only, err = regexp.Compile(*only)
	return o, err
}

// results are those of each contender at each number of connections, round by round.
type results map[place][]result

type place struct {
	contender   string
	connections int
}

func rounds(ctx context.Context, chosen []contender, o options, stderr io.Writer) (results, error) {
	out := results{}
	for round := range o.rounds {
		for _, n := range o.connections {
			for i := range chosen {
				c := chosen[(round+i)%len(chosen)] // nobody is always first
				r, err := measure(ctx, c, n, o)
				if err != nil {
					return nil, fmt.Errorf("%s, %d connections: %w", c.name, n, err)
				}
				out[place{c.name, n}] = append(out[place{c.name, n}], r)
				fmt.Fprintf(stderr, "round %d, %d connections: %-70s %8.0f/s\n", round+1, n, c.name, r.rate)
			}
		}
	}
	return out, nil
}
