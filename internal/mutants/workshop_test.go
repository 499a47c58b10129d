//go:build mutants

package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A workshop runs tests of the module with a fault in it. The source tree is never touched: the go command
// reads a broken copy of one file in its place (-overlay).
type workshop struct {
	root  string
	turns chan struct{} // one for each go command that may run: each keeps a core busy
}

// atOnce is how many go commands run at a time.
const atOnce = 2

func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	return &workshop{moduleRoot(t), make(chan struct{}, atOnce)}
}

// moduleRoot is the nearest folder above this package that has a go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no folder above this package has a go.mod")
		}
		dir = filepath.Dir(dir)
	}
}

// try puts m into the code and runs the test that must find it.
func (w *workshop) try(t *testing.T, m mutant) verdict {
	t.Helper()
	text, flaw := broken(w.root, m)
	if flaw != "" {
		return verdict{mutant: m, flaw: flaw}
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(m.file))
	if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
		t.Fatalf("write a broken copy of %s: %v", m.file, err)
	}
	r := w.run(t, map[string]string{w.path(m.file): copied}, m.pkg, []string{m.test})
	return verdict{m, r.took, r.judge(m.test)}
}

// path is where a file of the module stands.
func (w *workshop) path(file string) string { return filepath.Join(w.root, filepath.FromSlash(file)) }

// Most of the time here is the compiler's. It need not optimise what runs once, and it spends on these files of the
// core, for the many types in them, as much as on all its other tests together: they are left out where the test
// that is run does not stand there.
const quick = "-gcflags=./...=-N -l"

var slow = []string{"codec_test.go", "codec_version_test.go", "observer_test.go"}

// needsSlow tells whether a test stands in a file that takes the compiler long.
func (w *workshop) needsSlow(t *testing.T, pkg, test string) bool {
	t.Helper()
	name, _, _ := strings.Cut(test, "/")
	return pkg == core && slices.ContainsFunc(slow, func(file string) bool {
		text, err := os.ReadFile(w.path(file))
		if err != nil {
			t.Fatalf("look for %s: %v: take the file off the list of slow ones", name, err)
		}
		return strings.Contains(string(text), "func "+name+"(")
	})
}

// overlay writes down for the go command what it reads in place of some files; "" is no file (go help build).
func (w *workshop) overlay(t *testing.T, replace map[string]string) string {
	t.Helper()
	list := filepath.Join(t.TempDir(), "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, b, 0o600)
	}
	if err != nil {
		t.Fatalf("write %s: %v", list, err)
	}
	return list
}

// patience bounds one go command, the building included.
const patience = 5 * time.Minute

// A result is how a go command ended.
type result struct {
	output string
	failed bool
	took   time.Duration
}

// run runs the named tests of one package, and no other, with other files in place of some. The tests stand all in
// slow files, or none does.
func (w *workshop) run(t *testing.T, replace map[string]string, pkg string, tests []string, flags ...string) result {
	t.Helper()
	if pkg == core && !w.needsSlow(t, pkg, tests[0]) {
		for _, file := range slow {
			replace[w.path(file)] = ""
		}
	}
	overlay := w.overlay(t, replace)
	w.turns <- struct{}{}
	defer func() { <-w.turns }()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append([]string{"test", "-overlay=" + overlay, quick, "-vet=off", "-count=1", "-timeout=60s", "-run=" + pattern(tests)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = w.root
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", cmd, err, b)
	}
	return result{string(b), err != nil, time.Since(began)}
}

// pattern selects exactly these tests. Slashes divide levels, and bars whole patterns (go help testflag).
func pattern(tests []string) string {
	var all []string
	for _, test := range tests {
		var levels []string
		for level := range strings.SplitSeq(test, "/") {
			levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
		}
		all = append(all, strings.Join(levels, "/"))
	}
	return strings.Join(all, "|")
}

// TestJudge shows the judge what go test writes.
func TestJudge(t *testing.T) {
	const test = "TestLease/end of it"
	tests := []struct {
		name   string
		output string
		failed bool
		want   string // part of the flaw; "" for none
	}{
		{"it failed", "--- FAIL: TestLease (0.00s)\n    --- FAIL: TestLease/end_of_it (0.00s)\n        a_test.go:1: ran twice\nFAIL", true, ""},
		{"it passed", "ok  \texample.com/a\t0.1s", false, "survived"},
		{"no such test", "ok  \texample.com/a\t0.1s [no tests to run]", false, "survived"},
		{"another failed", "--- FAIL: TestLease (0.00s)\n    --- FAIL: TestLease/end_of_it_all (0.00s)\nFAIL", true, "something else"},
		{"it does not compile", "# a\n./a.go:1:1: syntax error\nFAIL\ta [build failed]", true, "does not compile"},
		{"it panicked", "--- FAIL: TestLease/end_of_it (0.00s)\npanic: index out of range [recovered]\n", true, `ended by "panic: index`},
		{"it took too long", "panic: test timed out after 1m0s\n", true, "timed out"},
		{"it crashed", "fatal error: concurrent map writes\n", true, "concurrent map writes"},
		{"it said panic", "--- FAIL: TestLease/end_of_it (0.00s)\n    a_test.go:1: got\n        panic: no\n", true, ""},
		{"its bubble fell asleep", "--- FAIL: TestLease/end_of_it (0.00s)\npanic: deadlock: all goroutines in bubble are blocked [recovered, repanicked]\n", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := result{output: tt.output, failed: tt.failed}.judge(test)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("judge says %q, want %q", got, tt.want)
			}
		})
	}
}

// TestMutantsThatCountForNothing puts faults into the code that are none, as an honest test of the workshop.
func TestMutantsThatCountForNothing(t *testing.T) {
	w := openWorkshop(t)
	tests := []struct {
		name string
		m    mutant
		want string // part of the flaw
	}{
		{"no fault at all", mutant{file: "internal/sfv/sfv.go", old: "package sfv\n", new: "package sfv\n\n"}, "survived"},
		{"no Go", mutant{file: "internal/sfv/sfv.go", old: "package sfv\n", new: "package\n"}, "does not compile"},
		{"a type that does not fit", mutant{file: "internal/sfv/sfv.go", old: "func Quote(s string)", new: "func Quote(s int)"}, "does not compile"},
		{"a fault that another test finds", mutant{file: "internal/sfv/sfv.go", old: "\tif err := s.parameters(); err != nil {", new: "\tif err := s.parameters(); false {"}, "survived"},
		{"text that is gone", mutant{file: "internal/sfv/sfv.go", old: "package idem\n"}, "stands there 0 times"},
		{"text that stands there twice", mutant{file: "internal/sfv/sfv.go", old: "func "}, "times, want once"},
		{"file that is gone", mutant{file: "internal/sfv/sfvs.go", old: "package sfv\n"}, "went stale"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.m.pkg, tt.m.test = "internal/sfv", "TestQuote"
			if got := w.try(t, tt.m).flaw; !strings.Contains(got, tt.want) {
				t.Errorf("verdict %q, want %q", got, tt.want)
			}
		})
	}
}
