// Command bench measures servers side by side: each in a process of its own, in interleaved rounds, so that
// what the machine does meanwhile touches all of them alike. It prints one table in Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A contender is a server under one kind of load.
type contender struct {
	name   string
	server string // what `bench serve` serves
	mode   load.Mode
	base   string // the contender that its rate is divided by
}

var contenders = []contender{
	{"bare handler, unique keys", "bare", load.Unique, ""},
	{"middleware on memory, unique keys", "memory", load.Unique, "bare handler, unique keys"},
	{"bare handler, 500 keys", "bare", load.Replay, ""},
	{"middleware on memory, replays of 500 keys", "memory", load.Replay, "bare handler, 500 keys"},
}

type options struct {
	rounds      int
	connections int
	warmup      time.Duration
	duration    time.Duration
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "serve" {
		return serve(args[1])
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 7, "interleaved rounds")
	flags.IntVar(&o.connections, "connections", 32, "connections of the load generator")
	flags.DurationVar(&o.warmup, "warmup", time.Second, "before each measurement")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "of each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d contenders, %d rounds, about %v in all\n", len(contenders), o.rounds,
		time.Duration(len(contenders)*o.rounds)*(o.warmup+o.duration+time.Second))
	results := map[string][]result{}
	for round := range o.rounds {
		for i := range contenders {
			c := contenders[(round+i)%len(contenders)] // nobody is always first
			r, err := measure(ctx, c, o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			results[c.name] = append(results[c.name], r)
			fmt.Fprintf(os.Stderr, "round %d: %-45s %8.0f/s\n", round+1, c.name, r.rate)
		}
	}
	print(o, results)
	return nil
}

// print writes the table: medians, with the spread behind them, and the median of the ratios round by round.
func print(o options, results map[string][]result) {
	fmt.Printf("%s, %d connections, %d rounds of %v, %s, %d cores\n\n", time.Now().UTC().Format(time.DateOnly), o.connections, o.rounds, o.duration, runtime.Version(), runtime.NumCPU())
	fmt.Println("| | requests/s (least to most) | ratio to the bare handler | p50 / p99 ms | server CPU us a request | executed of sent |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, c := range contenders {
		rs := results[c.name]
		rates := each(rs, func(r result) float64 { return r.rate })
		ratio := "1"
		if base := results[c.base]; c.base != "" {
			var ratios []float64
			for i := range rs {
				ratios = append(ratios, rs[i].rate/base[i].rate)
			}
			ratio = fmt.Sprintf("**%.2f** (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
		last := rs[len(rs)-1]
		fmt.Printf("| %s | %.0f (%.0f to %.0f) | %s | %.2f / %.2f | %.0f | %d of %d |\n", c.name, median(rates), slices.Min(rates), slices.Max(rates), ratio,
			median(each(rs, func(r result) float64 { return r.p50 / 1000 })), median(each(rs, func(r result) float64 { return r.p99 / 1000 })),
			median(each(rs, func(r result) float64 { return r.cpu })), last.executed, last.sent)
	}
}

func each(rs []result, f func(result) float64) (out []float64) {
	for _, r := range rs {
		out = append(out, f(r))
	}
	return out
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
