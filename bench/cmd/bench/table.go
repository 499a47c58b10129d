package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/retrysafe/retrysafe/bench/sample"
)

// printTable writes the table: medians, with the spread behind them, and the median of the ratios round by round.
func printTable(w io.Writer, chosen []contender, o options, results results) error {
	var b strings.Builder
	b.WriteString("| connections | | requests/s (least to most) | ratio | to | goal | p50 / p99 ms | CPU us a request | allocations a request | executed of sent |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	var generator sample.Sample
	for _, n := range o.connections {
		for _, c := range chosen {
			rs := results[place{c.name, n}]
			fmt.Fprintf(&b, "| %d | %s |\n", n, strings.Join(cells(c, n, rs, results[place{c.base, n}]), " | "))
			generator = append(generator, of(rs, func(r result) float64 { return r.generator })...)
		}
	}
	fmt.Fprintf(&b, "\nMedians of %d rounds of %v after %v of warm-up, the rounds interleaved. Every server is a process of its own, on the same machine as the load generator, "+
		"which takes %s us of CPU a request itself. CPU and allocations are the server's, of proxies without the bare handler behind them. "+
		"Ratios are of the rates within a round. Executed and sent are sums over the rounds.\n", o.rounds, o.duration, o.warmup, generator.Text("%.0f"))
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are a row of the table behind its connections.
func cells(c contender, connections int, rs, base []result) []string {
	rate := func(r result) float64 { return r.rate }
	ratio, to, goal := "", "", ""
	if c.base != "" {
		ratio, to = of(rs, rate).Over(of(base, rate)).Text("%.2f"), c.base
		to, _, _ = strings.Cut(to, ",")
	}
	if g := c.goal[connections]; g > 0 {
		goal = fmt.Sprintf(">= %.2f", g)
	}
	var executed, sent uint64
	for _, r := range rs {
		executed, sent = executed+r.executed, sent+r.sent
	}
	median := func(f func(result) float64) float64 { return of(rs, f).Median() }
	return []string{
		c.name, of(rs, rate).Text("%.0f"), ratio, to, goal,
		fmt.Sprintf("%.2f / %.2f", median(func(r result) float64 { return r.p50 / 1e3 }), median(func(r result) float64 { return r.p99 / 1e3 })),
		fmt.Sprintf("%.0f", median(func(r result) float64 { return r.cpu })),
		fmt.Sprintf("%.0f", math.Round(median(func(r result) float64 { return r.allocs }))),
		fmt.Sprintf("%d of %d", executed, sent),
	}
}

func of(rs []result, f func(result) float64) (s sample.Sample) {
	for _, r := range rs {
		s = append(s, f(r))
	}
	return s
}
