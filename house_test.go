package retrysafe_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestHouse holds the repository to its own rules; CONTRIBUTING.md gives the reasons. The tree is read
// through package os, so that the test cache sees every file a rule depends on: a rule that asked
// `go list` would be answered from the cache after the tree has changed.
func TestHouse(t *testing.T) {
	h, err := readHouse(os.DirFS("."))
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	for _, rule := range houseRules {
		t.Run(rule.name, func(t *testing.T) {
			for _, finding := range rule.find(h) {
				t.Error(finding)
			}
		})
	}
}

// houseRules is every rule by its name. A finding says where, what and the remedy.
var houseRules = []struct {
	name string
	find func(*houseTree) []string
}{
	{"imports obey the law", func(h *houseTree) []string { return lawBreaches(h, importLaw) }},
	{"the law obeys the design", func(*houseTree) []string { return lawFlaws(importLaw) }},
	{"one package comment", packageComments},
	{"exported names are documented", undocumented},
	{"no replace and no exclude in go.mod", modDirectives},
	{"links in the documents lead somewhere", deadLinks},
	{"tests that the documents name exist", missingTests},
	{"no init functions", initFunctions},
	{"tests do not sleep", sleepingTests},
	{"tests do not skip", skippingTests},
	{"files are chapters", longFiles},
	{"functions are short", longFunctions},
	{"no path of one machine", machinePaths},
}

// houseTree is the repository as the rules see it.
type houseTree struct {
	fset  *token.FileSet
	paths map[string]bool   // every file and folder, from the root, with slashes
	texts map[string]string // the content of every file that is text
	code  []houseFile       // every Go file that belongs to a package, in the order of the paths
}

type houseFile struct {
	*ast.File
	path, dir string
	test      bool
}

func readHouse(fsys fs.FS) (*houseTree, error) {
	h := &houseTree{fset: token.NewFileSet(), paths: map[string]bool{}, texts: map[string]string{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && privateFolder(d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular():
			return h.read(fsys, name)
		}
		h.paths[name] = true
		return nil
	})
	return h, err
}

// privateFolder knows the folders of git and of editors, which are nobody's source.
func privateFolder(name string) bool {
	return strings.HasPrefix(name, ".") && !slices.Contains([]string{".", ".ci", ".github"}, name)
}

func (h *houseTree) read(fsys fs.FS, name string) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	h.paths[name] = true
	if bytes.IndexByte(data, 0) >= 0 {
		return nil // not text
	}
	h.texts[name] = string(data)
	if path.Ext(name) != ".go" || ignoredByGo(name) {
		return nil
	}
	file, err := parser.ParseFile(h.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	h.code = append(h.code, houseFile{file, name, path.Dir(name), strings.HasSuffix(name, "_test.go")})
	return nil
}

// ignoredByGo is the go command's own rule for folders and files that are no package (go help packages).
func ignoredByGo(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return part == "testdata" || strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".")
	})
}

func (h *houseTree) at(node ast.Node) string {
	where := h.fset.Position(node.Pos())
	return fmt.Sprintf("%s:%d", where.Filename, where.Line)
}

// production is every Go file that is not a test.
func (h *houseTree) production() []houseFile {
	return slices.DeleteFunc(slices.Clone(h.code), func(f houseFile) bool { return f.test })
}

// modDirectives: a module with replace directives cannot be installed by `go install`, and exclude is ignored
// for everybody who depends on it.
func modDirectives(h *houseTree) (findings []string) {
	for i, line := range strings.Split(h.texts["go.mod"], "\n") {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t(", r) })
		if len(words) > 0 && (words[0] == "replace" || words[0] == "exclude") {
			findings = append(findings, fmt.Sprintf("go.mod:%d: %s works for nobody but ourselves: require a release that needs none", i+1, words[0]))
		}
	}
	return findings
}

// machinePath finds home and work folders, and a neighbour of the checkout, where a path begins; not inside an
// address or behind a variable.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~)}\]*-])/(?:work|home|Users)/\w|\.\./shared`)

func machinePaths(h *houseTree) (findings []string) {
	for _, name := range slices.Sorted(maps.Keys(h.texts)) {
		for i, line := range strings.Split(h.texts[name], "\n") {
			if machinePath.MatchString(line) {
				findings = append(findings, fmt.Sprintf("%s:%d: a path that exists on one machine only: make it relative, or a parameter", name, i+1))
			}
		}
	}
	return findings
}

var (
	namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// missingTests finds promises that no test holds any more.
func missingTests(h *houseTree) (findings []string) {
	exists := map[string]bool{}
	for name, text := range h.texts {
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			exists[m[1]] = exists[m[1]] || strings.HasSuffix(name, "_test.go")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.texts)) {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, line := range strings.Split(h.texts[name], "\n") {
			for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
				if !exists[m[1]] {
					findings = append(findings, fmt.Sprintf("%s:%d: %s: no test has this name: name the one that holds what is said, or write it", name, i+1, m[1]))
				}
			}
		}
	}
	return findings
}

func fixtureHouse(t *testing.T, files map[string]string) *houseTree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, body := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(body)}
	}
	h, err := readHouse(fsys)
	if err != nil {
		t.Fatalf("read the fixture: %v", err)
	}
	return h
}

// wantFinding checks that want is part of some finding and, when it is empty, that there is none.
func wantFinding(t *testing.T, got []string, want string) {
	t.Helper()
	if want == "" && len(got) > 0 {
		t.Errorf("got %q, want no finding", got)
	}
	if !strings.Contains(strings.Join(got, "\n"), want) {
		t.Errorf("got %q, want a finding with %q", got, want)
	}
}

// TestTextRulesCanFail shows each rule on texts a file that breaks it, and beside it some that do not.
func TestTextRulesCanFail(t *testing.T) {
	tests := []struct {
		name string
		rule func(*houseTree) []string
		file string
		body string
		want string // part of a finding; "" for none
	}{
		{"replace", modDirectives, "go.mod", "module m\nreplace a => ./a", "go.mod:2: replace"},
		{"exclude in a block", modDirectives, "go.mod", "module m\nexclude(\n\ta v1.0.0\n)", "go.mod:2: exclude"},
		{"module called replace", modDirectives, "go.mod", "module m\nrequire a/replace v1.0.0 // replace", ""},
		{"replace in the benchmarks", modDirectives, "bench/go.mod", "module m\nreplace m => ../", ""},

		{"test that is gone", missingTests, "docs/a.md", "held by `TestGone`", "docs/a.md:1: TestGone"},
		{"no test", missingTests, "docs/a.md", "`Testimony`, TestGone", ""},

		{"work folder", machinePaths, "a.md", "see\n`/wo" + "rk/main`", "a.md:2: a path"},
		{"home folder in a file address", machinePaths, "a.sh", "cd file:///ho" + "me/me", "a.sh:1: a path"},
		{"neighbour of the checkout", machinePaths, "a.sh", "cat .." + "/shared/a", "a.sh:1: a path"},
		{"route of that name", machinePaths, "a.md", "https://example.com/wo" + "rk/1, $DIR/wo" + "rk/1, /wo" + "rk", ""},
		{"binary file", machinePaths, "a.db", "\x00 /wo" + "rk/main", ""},
		{"folder of an editor", machinePaths, ".editor/a", "/wo" + "rk/main", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantFinding(t, tt.rule(fixtureHouse(t, map[string]string{tt.file: tt.body})), tt.want)
		})
	}
}
