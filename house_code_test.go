package retrysafe_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The house rules on Go code: what is documented, what may run by itself, how tests wait, how long things are.

func packageComments(h *houseTree) (findings []string) {
	packages := map[string][]houseFile{}
	for _, f := range h.code {
		if !strings.HasSuffix(f.Name.Name, "_test") {
			packages[f.dir] = append(packages[f.dir], f)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		files := packages[dir]
		want := "Package " + files[0].Name.Name
		if files[0].Name.Name == "main" {
			want = "Command " + path.Base(dir)
		}
		commented := slices.DeleteFunc(files, func(f houseFile) bool { return f.Doc == nil })
		if len(commented) != 1 {
			findings = append(findings, fmt.Sprintf("%s: %d package comments: keep exactly one, beginning %q, that says what the package is for", dir, len(commented), want))
			continue
		}
		if words := strings.Fields(commented[0].Doc.Text()); len(words) < 3 || words[0]+" "+words[1] != want {
			findings = append(findings, fmt.Sprintf("%s: the package comment must be a sentence that begins %q", commented[0].path, want))
		}
	}
	return findings
}

func undocumented(h *houseTree) (findings []string) {
	for _, f := range h.production() {
		if f.Name.Name == "main" {
			continue // nobody can import it
		}
		for _, decl := range f.Decls {
			for _, name := range bareNames(decl) {
				findings = append(findings, fmt.Sprintf("%s: exported %s has no doc comment: say what it promises, in a sentence that begins with its name", h.at(name), name.Name))
			}
		}
	}
	return findings
}

// bareNames is the exported names that decl introduces without a comment.
func bareNames(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc == nil && decl.Name.IsExported() && !speaksForItself(decl) {
			return []*ast.Ident{decl.Name}
		}
	case *ast.GenDecl:
		return bareSpecs(decl)
	}
	return nil
}

func bareSpecs(decl *ast.GenDecl) (bare []*ast.Ident) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			// A comment above a group of types documents none of them.
			covered := decl.Doc != nil && !decl.Lparen.IsValid()
			if spec.Name.IsExported() && !covered && spec.Doc == nil && spec.Comment == nil {
				bare = append(bare, spec.Name)
			}
		case *ast.ValueSpec:
			if decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				bare = append(bare, slices.DeleteFunc(slices.Clone(spec.Names), func(n *ast.Ident) bool { return !n.IsExported() })...)
			}
		}
	}
	return bare
}

// interfaceMethods are documented where their interface is: in the standard library, or in a client that
// an adapter implements.
var interfaceMethods = strings.Fields(`
	As Close Collect Describe Error Flush Format GoString Header Hijack Is LogValue MarshalBinary MarshalJSON MarshalText
	Read ReadByte ReadFrom RoundTrip ServeHTTP String Unwrap UnmarshalBinary UnmarshalJSON UnmarshalText
	Write WriteHeader WriteString WriteTo`)

// speaksForItself tells methods that only implement an interface, and methods of types nobody can name.
func speaksForItself(fn *ast.FuncDecl) bool {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return false
	}
	receiver := strings.TrimLeft(types.ExprString(fn.Recv.List[0].Type), "*")
	receiver, _, _ = strings.Cut(receiver, "[")
	adapter := receiver == "Store" || receiver == "Broker"
	return !ast.IsExported(receiver) || adapter || slices.Contains(interfaceMethods, fn.Name.Name)
}

func initFunctions(h *houseTree) (findings []string) {
	for _, f := range h.code {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				findings = append(findings, fmt.Sprintf("%s: an init function runs in every program that links the package: let a constructor, or main, do this", h.at(fn)))
			}
		}
	}
	return findings
}

func sleepingTests(h *houseTree) (findings []string) {
	for _, f := range h.code {
		if !f.test {
			continue
		}
		clock := importName(f, "time")
		ast.Inspect(f.File, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" && types.ExprString(sel.X) == clock {
				findings = append(findings, fmt.Sprintf("%s: a test that sleeps is slow, and right only on a fast machine: wait on a channel, use testing/synctest or a clock of the test's own", h.at(sel)))
			}
			return true
		})
	}
	return findings
}

// importName is what f calls the package of the standard library, "" when it does not import it.
func importName(f houseFile, pkg string) string {
	for _, spec := range f.Imports {
		switch {
		case spec.Path.Value != `"`+pkg+`"`:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(pkg)
		}
	}
	return ""
}

func skippingTests(h *houseTree) (findings []string) {
	for _, f := range h.code {
		if !f.test {
			continue
		}
		ast.Walk(skipVisitor{func(n ast.Node) {
			findings = append(findings, fmt.Sprintf("%s: a skipped test proves nothing and looks green: start what it needs, or delete it", h.at(n)))
		}, nil}, f.File)
	}
	return findings
}

// skipVisitor finds calls of Skip on a *testing.T and its kin. It knows them by the parameters in scope, since others
// have a Skip of another meaning: a rapid.T gives up one random step, not the test.
type skipVisitor struct {
	found  func(ast.Node)
	handle map[string]bool // parameter name: is it of package testing?
}

func (v skipVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return v.within(n.Type)
	case *ast.FuncLit:
		return v.within(n.Type)
	case *ast.SelectorExpr:
		if v.handle[types.ExprString(n.X)] && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, n.Sel.Name) {
			v.found(n)
		}
	}
	return v
}

func (v skipVisitor) within(fn *ast.FuncType) ast.Visitor {
	handle := map[string]bool{}
	maps.Copy(handle, v.handle)
	for _, param := range fn.Params.List {
		for _, name := range param.Names {
			handle[name.Name] = strings.HasPrefix(strings.TrimLeft(types.ExprString(param.Type), "*"), "testing.")
		}
	}
	return skipVisitor{v.found, handle}
}

const (
	mostFileLines     = 500
	mostFunctionLines = 60
	mostLongFunctions = 0.03 // of all functions
)

func longFiles(h *houseTree) (findings []string) {
	for _, f := range h.production() {
		if n := strings.Count(h.texts[f.path], "\n"); n > mostFileLines {
			findings = append(findings, fmt.Sprintf("%s: %d lines, over %d: find the second chapter and give it a file", f.path, n, mostFileLines))
		}
	}
	return findings
}

func longFunctions(h *houseTree) []string {
	var all int
	var long []string
	for _, f := range h.production() {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			all++
			if n := h.fset.Position(fn.End()).Line - h.fset.Position(fn.Pos()).Line + 1; n > mostFunctionLines {
				long = append(long, fmt.Sprintf("%s: %s has %d lines", h.at(fn), fn.Name.Name, n))
			}
		}
	}
	if float64(len(long)) < mostLongFunctions*float64(all) || len(long) == 0 {
		return nil
	}
	return append(long, fmt.Sprintf("%d of %d functions are over %d lines: split the above until under %.0f %% are", len(long), all, mostFunctionLines, 100*mostLongFunctions))
}

// TestCodeRulesCanFail shows each rule on code a file that breaks it, and beside it some that do not.
func TestCodeRulesCanFail(t *testing.T) {
	const doc = "// Package a is a fixture.\npackage a\n"
	long := strings.Repeat("\t_ = 0\n", mostFunctionLines)
	tests := []struct {
		name string
		rule func(*houseTree) []string
		file string
		body string
		want string // part of a finding; "" for none
	}{
		{"no package comment", packageComments, "a/a.go", "package a", "a: 0 package comments"},
		{"package comment of another name", packageComments, "a/a.go", "// Package ab is a fixture.\npackage a", `begins "Package a"`},
		{"package comment without a sentence", packageComments, "a/a.go", "// Package a\npackage a", "must be a sentence"},
		{"one package comment", packageComments, "a/a.go", doc, ""},
		{"command by its folder", packageComments, "cmd/a/main.go", "// Command a is a fixture.\npackage main", ""},
		{"main that calls itself a package", packageComments, "cmd/a/main.go", "// Package main is a fixture.\npackage main", `begins "Command a"`},
		{"external test package needs no comment", packageComments, "a/a_test.go", "package a_test", ""},

		{"bare function", undocumented, "a/a.go", doc + "func Do() {}", "a/a.go:3: exported Do has no doc comment"},
		{"bare type", undocumented, "a/a.go", doc + "type T int", "exported T has"},
		{"bare type in a documented group", undocumented, "a/a.go", doc + "// Types.\ntype (\n\tT int\n)", "exported T has"},
		{"bare method", undocumented, "a/a.go", doc + "func (*T[K]) Do() {}", "exported Do has"},
		{"bare constant", undocumented, "a/a.go", doc + "const A, b = 1, 2", "exported A has"},
		{"documented group", undocumented, "a/a.go", doc + "// Numbers.\nconst (\n\tA = 1\n\tB = 2\n)", ""},
		{"constant with a comment behind it", undocumented, "a/a.go", doc + "const A = 1 // one", ""},
		{"method of an interface", undocumented, "a/a.go", doc + "func (T) String() string { return \"\" }", ""},
		{"method of a store", undocumented, "a/a.go", doc + "func (*Store) Create() {}", ""},
		{"method of a hidden type", undocumented, "a/a.go", doc + "func (t) Do() {}", ""},
		{"function of a command", undocumented, "a/a.go", "package main\nfunc Do() {}", ""},

		{"init", initFunctions, "a/a.go", doc + "func init() {}", "a/a.go:3: an init function"},
		{"method called init", initFunctions, "a/a.go", doc + "func (t) init() {}", ""},

		{"sleep", sleepingTests, "a/a_test.go", doc + "import clock \"time\"\nfunc f() { clock.Sleep(1) }", "a/a_test.go:4: a test that sleeps"},
		{"sleep of something else", sleepingTests, "a/a_test.go", doc + "func f() { clock.Sleep(1) }", ""},
		{"sleep outside tests", sleepingTests, "a/a.go", doc + "import clock \"time\"\nfunc f() { clock.Sleep(1) }", ""},

		{"skip", skippingTests, "a/a_test.go", doc + "func f(x *testing.T) { x.Skip() }", "a/a_test.go:3: a skipped test"},
		{"skip in a closure", skippingTests, "a/a_test.go", doc + "func f(x testing.TB) { func() { x.SkipNow() }() }", "a skipped test"},
		{"skip of a random step", skippingTests, "a/a_test.go", doc + "func f(x *testing.T) { g(func(x *rapid.T) { x.Skip() }) }", ""},

		{"long file", longFiles, "a/a.go", doc + strings.Repeat("\n", mostFileLines-1), "501 lines"},
		{"file of the greatest length", longFiles, "a/a.go", doc + strings.Repeat("\n", mostFileLines-2), ""},
		{"long test", longFiles, "a/a_test.go", doc + strings.Repeat("\n", mostFileLines), ""},
		{"long function among few", longFunctions, "a/a.go", doc + "func F() {\n" + long + "}" + strings.Repeat("\nfunc _() {}", 32), "F has 62 lines"},
		{"long function among many", longFunctions, "a/a.go", doc + "func F() {\n" + long + "}" + strings.Repeat("\nfunc _() {}", 33), ""},
		{"function of the greatest length", longFunctions, "a/a.go", doc + "func F() {\n" + long[:len(long)-14] + "}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantFinding(t, tt.rule(fixtureHouse(t, map[string]string{tt.file: tt.body})), tt.want)
		})
	}
}
