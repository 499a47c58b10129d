package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/bench/load"
)

// TestMain makes this binary the servers that it measures.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Every contender is measured for a moment: run fails unless each of ours executes once a key and says so.
func TestEveryContenderGetsItsRow(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-rounds", "1", "-connections", "3", "-warmup", "0s", "-duration", "20ms", "-dir", dir}, &out, io.Discard)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	for _, c := range contenders {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| 3 \| %s \| [1-9]\d* .* \| [1-9]\d* of [1-9]\d* \|$`, regexp.QuoteMeta(c.name)))
		if !row.MatchString(out.String()) {
			t.Errorf("no row of %s in\n%s", c.name, &out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v; want nothing", left, err)
	}
}

func TestRunIsOverWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	progress := writerFunc(func(p []byte) (int, error) { // told before the first measurement
		cancel()
		return len(p), nil
	})
	if err := run(ctx, []string{"-duration", "1h", "-dir", dir}, io.Discard, progress); err == nil {
		t.Error("run: no error after its context ended")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v; want nothing", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBadFlagsAreRefused(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no rounds", []string{"-rounds", "0"}, "at least one round"},
		{"argument left over", []string{"now"}, "flags alone"},
		{"connections in letters", []string{"-connections", "32,many"}, "-connections 32,many"},
		{"no connections", []string{"-connections", "0"}, "-connections 0"},
		{"expression", []string{"-only", "("}, "missing closing"},
		{"nobody is called so", []string{"-only", "nginx"}, `no contender is called like "nginx"`},
		{"no folder", []string{"-dir", "/no/such/folder"}, "no such file"},
		{"unknown server", []string{"serve", "-kind", "x"}, `no server is called "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), tt.args, &out, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
				t.Errorf("run(%q): %v, output %q; want %q alone", tt.args, err, &out, tt.want)
			}
		})
	}
}

func TestContendersComeWithTheirBases(t *testing.T) {
	tests := []struct {
		only string
		want []string
	}{
		{"^bare handler", []string{bareHandler}},
		{"middleware on memory, unique", []string{bareHandler, "middleware on memory, unique keys"}},
		{"fiber idem.*replays", []string{bareFiber, fiberIdempotency + ", replays of 500 keys"}},
		{"nobody", nil},
		{"", names(contenders)},
	}
	for _, tt := range tests {
		if got := names(choose(regexp.MustCompile(tt.only))); !slices.Equal(got, tt.want) {
			t.Errorf("choose(%q) = %q, want %q", tt.only, got, tt.want)
		}
	}
}

func TestBasesAndGoalsFit(t *testing.T) {
	all := names(contenders)
	for i, c := range contenders {
		if slices.Index(all, c.name) != i {
			t.Errorf("%q stands twice", c.name)
		}
		if c.base == "" {
			if c.goal != nil {
				t.Errorf("%q has a goal and no base", c.name)
			}
			continue
		}
		base := slices.Index(all, c.base)
		if base < 0 || base > i || contenders[base].base != "" || contenders[base].after != c.after {
			t.Errorf("%q: %q must stand before it, be no contender with a base itself, and stand alike before an upstream", c.name, c.base)
		}
	}
}

func TestDishonestFiguresAreRefused(t *testing.T) {
	ours := contender{mode: load.Replay, base: bareHandler}
	tests := []struct {
		name string
		c    contender
		r    result
		ok   bool
	}{
		{"unique, each executed", contender{mode: load.Unique, base: bareHandler}, result{sent: 9, executed: 9, measured: 8}, true},
		{"unique, one executed twice", contender{mode: load.Unique, base: bareHandler}, result{sent: 9, executed: 10, measured: 8}, false},
		{"unique, one not executed", contender{mode: load.Unique, base: bareHandler}, result{sent: 9, executed: 8, measured: 8}, false},
		{"unique, one replayed", contender{mode: load.Unique, base: bareHandler}, result{sent: 9, executed: 9, measured: 8, replayed: 1}, false},
		{"replay, all of them", ours, result{sent: 900, executed: 500, measured: 400, replayed: 400}, true},
		{"replay, executed again", ours, result{sent: 900, executed: 501, measured: 400, replayed: 400}, false},
		{"replay that does not say so", ours, result{sent: 900, executed: 500, measured: 400, replayed: 399}, false},
		{"base", contender{mode: load.Unique}, result{sent: 9, executed: 9, measured: 8}, true},
		{"base that forgets", contender{mode: load.Unique}, result{sent: 9, executed: 8, measured: 8}, false},
		{"peer that executes again", contender{mode: load.Replay, base: bareFiber, peer: true}, result{sent: 900, executed: 900, measured: 400}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := honest(tt.c, tt.r); (err == nil) != tt.ok {
				t.Errorf("honest: %v, want fine: %t", err, tt.ok)
			}
		})
	}
}

func TestFailuresAreNoFigures(t *testing.T) {
	good := load.Report{Requests: 2, Sent: 2, Rate: 1, Statuses: map[int]uint64{201: 2}}
	tests := []struct {
		name   string
		change func(*load.Report)
		want   string // "": none
	}{
		{"all well", func(*load.Report) {}, ""},
		{"some failed", func(r *load.Report) { r.Errors, r.FirstError = 1, "connect: refused" }, "connect: refused"},
		{"none answered", func(r *load.Report) { r.Requests = 0 }, "0 requests"},
		{"some refused", func(r *load.Report) { r.Statuses = map[int]uint64{201: 1, 409: 1} }, "409:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			report := good
			tt.change(&report)
			_, err := sumUp(contender{mode: load.Unique}, report, stats{}, stats{}, stats{Executed: 2})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("sumUp: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTableTellsMediansRatiosAndSums(t *testing.T) {
	base := contender{name: "base", mode: load.Unique}
	c := contender{name: "ours", mode: load.Replay, base: "base", goal: goals(0.5, 0.9)}
	rs := results{
		place{"base", 32}:  {{rate: 100, executed: 3, sent: 3}, {rate: 300, executed: 4, sent: 4}, {rate: 200, executed: 5, sent: 5}},
		place{"base", 128}: {{rate: 10, executed: 1, sent: 1}},
		place{"ours", 128}: {{rate: 8, executed: 2, sent: 3}},
		place{"ours", 32}:  {{rate: 50, p50: 1000, p99: 9000, cpu: 40, allocs: 56.7, executed: 500, sent: 900}, {rate: 60, p50: 3000, p99: 7000, cpu: 60, allocs: 57, executed: 500, sent: 800}, {rate: 100, p50: 2000, p99: 8000, cpu: 50, allocs: 57.2, executed: 500, sent: 700}},
	}
	var out bytes.Buffer
	if err := printTable(&out, []contender{base, c}, options{rounds: 3, connections: []int{32, 128}}, rs); err != nil {
		t.Fatalf("printTable: %v", err)
	}
	for _, want := range []string{
		"| 32 | base | 200 (100 to 300) |  |  |  | 0.00 / 0.00 | 0 | 0 | 12 of 12 |\n",
		"| 32 | ours | 60 (50 to 100) | 0.50 (0.20 to 0.50) | base | >= 0.50 | 2.00 / 8.00 | 50 | 57 | 1500 of 2400 |\n",
		"| 128 | ours | 8 (8 to 8) | 0.80 (0.80 to 0.80) | base | >= 0.90 | 0.00 / 0.00 | 0 | 0 | 2 of 3 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row\n%sin\n%s", want, &out)
		}
	}
}
