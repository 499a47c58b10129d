//go:build mutants

package mutants

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// A mutant is a fault and the test that finds it. Paths are from the root of the module, with slashes.
type mutant struct {
	fault string // what is wrong, as a fact
	seen  string // the system that had it, with the thread it was told in; "" for none that is known
	file  string // that it is put into
	old   string // stands in that file once
	new   string // stands there instead
	pkg   string // folder of the test that must fail
	test  string // that test with its subtests, as in the source: a space there is an underscore in go test's output
}

// mutants is every fault, subject by subject.
func mutants() []mutant {
	return slices.Concat(storeMutants, claimMutants, ownerMutants, recordMutants, sealMutants, twoStepMutants, httpMutants, answerMutants, gatewayMutants, routeMutants, forwardMutants, demoMutants)
}

// A run of all takes the compiler some ten minutes: a part of them is what a check has time for.
var (
	of   = flag.Int("of", 1, "try one in so many mutants")
	part = flag.Int("part", 0, "which of them: 0 up to -of, less one")
)

// chosen are the mutants of this run.
func chosen(t *testing.T) (some []mutant) {
	t.Helper()
	if *of < 1 || *part < 0 || *part >= *of {
		t.Fatalf("-part=%d -of=%d: want a part from 0 up to -of, less one", *part, *of)
	}
	for i, m := range mutants() {
		if i%*of == *part {
			some = append(some, m)
		}
	}
	return some
}

// here is the folder of this package: its tests judge the others and never themselves.
const here = "internal/mutants"

// TestMutants puts every fault into the code, one at a time, and expects the test that it names to fail, after
// it has seen the same test pass on the code as it is.
func TestMutants(t *testing.T) {
	w := openWorkshop(t)
	w.seeTree(t)
	all := chosen(t)
	t.Run("on the code as it is", func(t *testing.T) { wantPassing(t, w, all) })
	if t.Failed() {
		t.Fatal("what fails without a fault proves nothing with one: mend the above first")
	}
	verdicts := make([]verdict, len(all))
	t.Run("with a fault", func(t *testing.T) {
		for i, m := range all {
			t.Run(m.fault, func(t *testing.T) {
				t.Parallel()
				verdicts[i] = w.try(t, m)
				if verdicts[i].flaw != "" {
					t.Errorf("%s: %s", m.file, verdicts[i].flaw)
				}
			})
		}
	})
	t.Log("\n" + report(verdicts))
}

// wantPassing runs every test that is named, as many at once as are built in one way.
func wantPassing(t *testing.T, w *workshop, all []mutant) {
	type build struct {
		pkg  string
		slow bool
	}
	tests := map[build][]string{}
	for _, m := range all {
		b := build{m.pkg, w.needsSlow(t, m.pkg, m.test)}
		if !slices.Contains(tests[b], m.test) {
			tests[b] = append(tests[b], m.test)
		}
	}
	for b, names := range tests {
		t.Run(b.pkg, func(t *testing.T) {
			t.Parallel()
			r := w.run(t, map[string]string{}, b.pkg, names, "-v")
			if r.failed {
				t.Errorf("tests of %s fail on the code as it is:\n%s", b.pkg, r.output)
			}
			for _, name := range names {
				if !r.says("PASS", name) {
					t.Errorf("%s has no test %q that passes: name in the mutant one that does", b.pkg, name)
				}
			}
		})
	}
}

// A verdict is what became of a mutant.
type verdict struct {
	mutant
	took time.Duration
	flaw string // why the mutant counts for nothing; "" if its test found it
}

// judge says what is wrong with a mutant whose test, run alone, ended like this; "" if the test found the fault. A
// panic is no finding: any test would have it. All goroutines of a synctest bubble asleep is one: that is how a
// test in a bubble finds that what it waits for never comes.
func (r result) judge(test string) string {
	unexpected := slices.DeleteFunc(panics.FindAllString(r.output, -1), func(line string) bool {
		return strings.HasPrefix(line, "panic: deadlock: ")
	})
	switch {
	case !r.failed:
		return fmt.Sprintf("survived %q: the test passes with the fault in. Mend the test or write the missing one", test)
	case strings.Contains(r.output, "[build failed]"), strings.Contains(r.output, "[setup failed]"):
		return "does not compile: a fault that the compiler finds needs no test. Mend the mutant:\n" + r.output
	case len(unexpected) > 0:
		return fmt.Sprintf("%q ended by %q, not by a finding of its own:\n%s", test, unexpected[0], r.output)
	case !r.says("FAIL", test):
		return fmt.Sprintf("%q did not fail, something else did:\n%s", test, r.output)
	}
	return ""
}

var panics = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)

// says tells whether the output says so of a test: PASS or FAIL.
func (r result) says(how, test string) bool {
	line := "--- " + how + ": " + strings.ReplaceAll(test, " ", "_") + " ("
	return slices.ContainsFunc(strings.Split(r.output, "\n"), func(s string) bool {
		return strings.HasPrefix(strings.TrimLeft(s, " "), line)
	})
}

// broken returns the text of m's file with the fault in it, or says why there is none.
func broken(root string, m mutant) (text, flaw string) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", "went stale: " + err.Error()
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		return "", fmt.Sprintf("went stale: the text that it replaces stands there %d times, want once. Take what does the same now into its old and new; if nothing can break in this way any more, delete it:\n%s", n, m.old)
	}
	return strings.Replace(string(b), m.old, m.new, 1), ""
}

// TestMutantsAreWhole finds mutants that went stale, without running any.
func TestMutantsAreWhole(t *testing.T) {
	root := moduleRoot(t)
	seen := map[string]bool{}
	for _, m := range mutants() {
		switch _, flaw := broken(root, m); {
		case flaw != "":
			t.Errorf("%s: %q %s", m.file, m.fault, flaw)
		case m.fault == "" || seen[m.fault]:
			t.Errorf("%s: %q is no name, or two mutants have it", m.file, m.fault)
		case m.new == m.old, strings.HasSuffix(m.file, "_test.go"):
			t.Errorf("%s: %q changes nothing in the product", m.file, m.fault)
		case m.pkg == here || !isDir(filepath.Join(root, filepath.FromSlash(m.pkg))):
			t.Errorf("%s: %q is to be found in %q: want the folder of another package", m.file, m.fault, m.pkg)
		case !strings.HasPrefix(m.test, "Test"):
			t.Errorf("%s: %q is to be found by %q: want the name of a test", m.file, m.fault, m.test)
		}
		seen[m.fault] = true
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// report is a row for each mutant.
func report(verdicts []verdict) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tFAULT\tSEEN IN\tFOUND BY\tSECONDS")
	for _, v := range verdicts {
		by := v.pkg + " " + v.test
		if v.flaw != "" {
			by, _, _ = strings.Cut(v.flaw, ":")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.1f\n", v.file, v.fault, v.seen, by, v.took.Seconds())
	}
	table.Flush()
	return b.String()
}

// seeTree looks at every file of the module, so that the test cache knows what a verdict hangs on: what the go
// commands read is out of its sight.
func (w *workshop) seeTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != w.root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("look through the module: %v", err)
	}
}
