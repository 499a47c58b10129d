// Command retrysafe makes retries safe: a gateway that puts idempotency keys in front of any HTTP API, and the
// tools around it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1 // it was tried, and it failed
	exitUsage = 2 // a flag, URL or file is wrong: nothing was tried
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

type cli struct {
	Gateway gatewayCmd `cmd:"" help:"Guard an HTTP API: claim each key, forward the request once, record the answer, replay it."`
	Key     keyCmd     `cmd:"" help:"Look up keys of a running gateway, and decide what became of them."`
	Keys    keysCmd    `cmd:"" help:"Make and rotate the secret keys that seal what a gateway keeps."`
	Store   storeCmd   `cmd:"" help:"Verify and back up what a gateway keeps."`
	Demo    demoCmd    `cmd:"" help:"See what retries do to a payment API over a line that loses answers, without keys and with them."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `Same key, same answer: an operation sent with one key takes effect at most once, and every retry gets the answer of the first.

Every flag can also be set by an environment variable, named in brackets. Durations are like 30s, 15m, 24h, 30d.`

// run is the program: it returns the exit status. Tests call it too.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	var c cli
	again := func() (*gatewayCmd, error) {
		var c cli
		_, err := newParser(&c).Parse(args)
		return &c.Gateway, err
	}
	parser := newParser(&c, kong.Writers(stdout, stderr), kong.Exit(func(n int) { panic(exit(n)) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams{stdin, stdout, stderr}, parsedAgain{again}))
	defer func() {
		switch v := recover().(type) {
		case nil:
		case exit: // --help
			status = int(v)
		default: // a bug of ours must not look like success
			panic(v)
		}
	}()
	command, err := parser.Parse(args)
	if _, ok := errors.AsType[*configError](err); ok {
		return report(stderr, err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "retrysafe: %s\n", usageText(err))
		return exitUsage
	}
	return report(stderr, command.Run())
}

// exit carries the status with which kong would end the process.
type exit int

// parsedAgain reads the command line again, and the file that it names as it is now.
type parsedAgain struct {
	gateway func() (*gatewayCmd, error)
}

func newParser(c *cli, options ...kong.Option) *kong.Kong {
	parser, err := kong.New(c, append(options, kong.Name("retrysafe"), kong.Description(description), kong.DefaultEnvars("RETRYSAFE"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.NamedMapper("redacted", redactedMapper{}))...)
	if err != nil {
		panic(err) // the command line itself is malformed: a test parses it
	}
	return parser
}

// usageText is a parse error as one line that says where to read on.
func usageText(err error) string {
	help := "retrysafe --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Command() != "" {
		name, _, _ := strings.Cut(parse.Context.Command(), " <")
		help = "retrysafe " + name + " --help"
	}
	return fmt.Sprintf("%s (see: %s)", oneLine(err.Error()), help)
}

// report prints an error as one line, or what is wrong with a file as a line each, and returns the exit status it
// asks for.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*configError](err); ok {
		for _, line := range e.lines() {
			fmt.Fprintf(stderr, "retrysafe: %s\n", line)
		}
		return exitUsage
	}
	fmt.Fprintf(stderr, "retrysafe: %s\n", oneLine(err.Error()))
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitError
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// A usageError says what is wrong with a flag, and what to do instead.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// redactedMapper reads a secret without letting it into an error text.
type redactedMapper struct{}

func (redactedMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("secret")
	s, ok := token.Value.(string)
	if err != nil || !ok { // err would repeat what it met, which may be the secret
		return errors.New("want a secret behind it; write =SECRET if it begins with a hyphen")
	}
	target.SetString(s)
	return nil
}

type versionCmd struct{}

// Run prints the module's version, and the commit it was built from where the build knows it.
func (versionCmd) Run(s streams) error {
	version, commit := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.out, "retrysafe %s%s %s\n", cmp.Or(version, "(devel)"), commit, runtime.Version())
	return err
}
