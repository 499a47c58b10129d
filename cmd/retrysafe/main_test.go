package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the program itself when it is called by its name: in scripts, and where a
// test needs a process to send signals to.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"retrysafe": main})
}

// A suite is all tests, without what the developer's environment says of the program.
type suite struct{ *testing.M }

func (s suite) Run() int {
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "RETRYSAFE_") && !strings.HasPrefix(name, "RETRYSAFE_TEST_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else every process of a script takes a second more
	return s.M.Run()
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: func(e *testscript.Env) error { e.Setenv("TOKEN", token); return writeCertificates(e.WorkDir) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"does":            func(ts *testscript.TestScript, neg bool, args []string) { doesCommand(ts, neg, args, exitOK) },
			"refused":         func(ts *testscript.TestScript, neg bool, args []string) { doesCommand(ts, neg, args, exitUsage) },
			"refused_process": refusedProcessCommand,
		},
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
	})
}

// doesCommand is the commands "does" and "refused" of the scripts: the program in this process, which is quick,
// but knows neither the environment nor the folder of the script. The exit status must be want. What is
// refused is refused before anything is tried: all output is one line on standard error, without a secret.
// Lines that follow may look at the output with stdout and stderr.
func doesCommand(ts *testscript.TestScript, neg bool, args []string, want int) {
	if neg {
		ts.Fatalf("it cannot be negated")
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // of a gateway that starts nevertheless
	defer cancel()
	var out, stderr bytes.Buffer
	if got := run(ctx, args, strings.NewReader(""), io.MultiWriter(&out, ts.Stdout()), io.MultiWriter(&stderr, ts.Stderr())); got != want {
		ts.Fatalf("retrysafe %q: got exit status %d, want %d", args, got, want)
	}
	if want == exitUsage {
		wantRefusal(ts, args, out.String(), stderr.String())
	}
}

// refusedProcessCommand is refused with a process of its own, for what the environment and the folder say.
func refusedProcessCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("it cannot be negated")
	}
	err := ts.Exec("retrysafe", args...)
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != exitUsage {
		ts.Fatalf("retrysafe %q: got %v, want exit status %d", args, err, exitUsage)
	}
	wantRefusal(ts, args, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
}

func wantRefusal(ts *testscript.TestScript, args []string, out, stderr string) {
	if out != "" {
		ts.Fatalf("retrysafe %q: got standard output %q, want none", args, out)
	}
	if flaw := refusalFlaw(stderr); flaw != "" {
		ts.Fatalf("retrysafe %q: standard error %s", args, flaw)
	}
}

// refusalFlaw says what is wrong with the text of a refusal.
func refusalFlaw(text string) string {
	switch {
	case !strings.HasPrefix(text, "retrysafe: "):
		return "does not say who speaks"
	case strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n"):
		return "is not one line"
	case strings.Contains(text, "goroutine "):
		return "shows a stack"
	}
	return leak(text, secrets)
}

func TestRefusalFlaws(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string // part of the flaw; "" for none
	}{
		{"one line", "retrysafe: --lease: want a duration\n", ""},
		{"nothing", "", "who speaks"},
		{"no line end", "retrysafe: --lease", "one line"},
		{"two lines", "retrysafe: --lease\nretrysafe: --wait\n", "one line"},
		{"stack", "retrysafe: panic goroutine 1 [running]\n", "stack"},
		{"token", "retrysafe: " + token + " is bad\n", "secret"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := refusalFlaw(tt.text); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("refusalFlaw(%q): got %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

// A bug that panics must end the program as Go ends it: not as if all had gone well.
func TestPanicIsNoSuccess(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a command panicked and run returned, want the panic to go on")
		}
	}()
	run(t.Context(), []string{"version"}, nil, panicking{}, io.Discard)
}

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("out of paper") }

func TestWriteErrorIsNoSuccess(t *testing.T) {
	var stderr bytes.Buffer
	if got := run(t.Context(), []string{"version"}, nil, full{}, &stderr); got != exitError {
		t.Errorf("version to a full disk: got status %d, want %d", got, exitError)
	}
	if got, want := stderr.String(), "retrysafe: no space left\n"; got != want {
		t.Errorf("version to a full disk: got %q, want %q", got, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
