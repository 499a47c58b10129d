// Command scale measures what a folder of many keys costs: how long it takes to fill, what a claim costs in it against
// an empty one, how long it takes to open, what the gateway that serves it holds in memory, and what a sweep of expired
// keys does to claims. Everything is on the disk under -dir, with every write synced. It prints one table in Markdown,
// or the same as JSON; progress goes to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// A scale is one run: its options, and what it found.
type scale struct {
	keys    int           // in the big folder; a third of them when the gateway serves it, and in the one that is swept
	rounds  int           // of what is compared
	window  time.Duration // of one measurement
	load    time.Duration // on the gateway
	only    *regexp.Regexp
	json    bool
	dir     string // of this run: it is removed at the end
	stderr  io.Writer
	figures []figure
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 2 && args[0] == "write" {
		return write(ctx, args[1], stdout)
	}
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(s.dir, "retrysafe-scale"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	where, err := machine.Describe(s.dir)
	if err != nil {
		return err
	}
	if err := s.measure(ctx); err != nil {
		return err
	}
	if s.json {
		return printJSON(stdout, s.figures)
	}
	fmt.Fprintf(stdout, "%s, `scale %s`\n%s\n\n", time.Now().UTC().Format(time.DateOnly), strings.Join(args, " "), where)
	return printTable(stdout, s.figures)
}

func parse(args []string, stderr io.Writer) (*scale, error) {
	s := &scale{stderr: stderr}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.keys, "keys", 3_000_000, "keys in the big folder; a third of them when the gateway serves it, and in the one that is swept")
	flags.IntVar(&s.rounds, "rounds", 5, "interleaved rounds of what is compared")
	flags.DurationVar(&s.window, "window", 3*time.Second, "length of one measurement of claims")
	flags.DurationVar(&s.load, "load", 30*time.Second, "length of the load on the gateway")
	only := flags.String("only", "", "regular expression: which of the parts claims, start, memory, sweep")
	flags.BoolVar(&s.json, "json", false, "print JSON instead of the table")
	flags.StringVar(&s.dir, "dir", os.TempDir(), "folder for the stores' folders: on the disk to be measured")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || s.keys < 3 || s.rounds < 1 || s.window <= 0 || s.load <= 0 {
		return nil, fmt.Errorf("want flags alone, at least 3 keys, a round, and positive times, got %q", args)
	}
	var err error
	s.only, err = regexp.Compile(*only)
	return s, err
}

// measure takes the parts in turn. The folder that the gateway serves grows on to be the big one.
func (s *scale) measure(ctx context.Context) error {
	parts := []struct {
		name string
		keys int // in the folder by then
		do   func(ctx context.Context, dir string) error
	}{
		{"memory", s.keys / 3, s.memory},
		{"claims", s.keys, s.claims},
		{"start", s.keys, s.start},
	}
	dir, stored := s.folder("kept"), 0
	for _, p := range parts {
		if !s.only.MatchString(p.name) {
			continue
		}
		if err := s.fill(ctx, dir, stored, p.keys, nil); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		stored = p.keys
		if err := p.do(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if !s.only.MatchString("sweep") {
		return nil
	}
	if err := errors.Join(os.RemoveAll(dir), s.sweep(ctx)); err != nil { // room first
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

func (s *scale) folder(name string) string { return filepath.Join(s.dir, name) }

func (s *scale) tell(format string, args ...any) { fmt.Fprintf(s.stderr, format+"\n", args...) }
