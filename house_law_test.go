package retrysafe_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The import law: who may import what, package by package.

const housePath = "github.com/retrysafe/retrysafe"

// lawRow is what one package may import besides the standard library. Lists are words; a word that ends in "..."
// stands for a folder and all below it.
type lawRow struct {
	dir     string // the package's folder; "." is the core
	ours    string // folders of this module
	tech    string // import paths of other modules, each with all below it; also "testing", which belongs in no production code
	tests   string // further modules that only its tests import
	planned bool   // the folder need not exist yet
}

// importLaw has a row for each package. What it may say is itself checked, by lawFlaws.
var importLaw = []lawRow{
	// The core, the contract of the brokers and the judge: the standard library only.
	{dir: "."},
	{dir: "broker", planned: true},
	{dir: "conform", planned: true},

	// Pieces shared inside the house know the core. A further permission is a row of its own.
	{dir: "internal/...", ours: "."},
	{dir: "internal/answer", ours: ".", tech: "golang.org/x/net/http/httpguts"},               // what net/http itself asks whether a header may go out
	{dir: "internal/jsonptr", ours: ".", tech: "github.com/go-json-experiment/json/jsontext"}, // numbers keep their literal, doubled names are errors
	{dir: "internal/testkit", ours: ".", tech: "testing", planned: true},

	// The doors.
	{dir: "admin", ours: ". internal/...", tests: "github.com/chromedp"},
	{dir: "batch", ours: ". internal/...", planned: true},
	// In the gateway a method that is given must be a token, tokens of callers are verified by a library, and HTTP/2 is attacked frame by frame.
	{dir: "gateway", ours: ". internal/... idemhttp", tech: "golang.org/x/net/http/httpguts github.com/go-jose/go-jose/v4", tests: "golang.org/x/net/http2"},
	// A header name that is given must be one; quotas. Fingerprints of JSON: encoding/json rounds numbers and takes doubled names.
	{dir: "idemhttp", ours: ". internal/...", tech: "golang.org/x/net/http/httpguts golang.org/x/time/rate github.com/go-json-experiment/json/jsontext"},
	{dir: "inbox", ours: ". internal/...", planned: true},
	{dir: "keyless", ours: ". internal/...", planned: true},
	{dir: "ledger", ours: ". internal/...", planned: true},
	{dir: "outbox", ours: ". internal/... broker", planned: true},

	// The suites that adapters must pass.
	{dir: "store/storetest", ours: ".", tech: "testing"},
	{dir: "broker/brokertest", ours: "broker", tech: "testing", planned: true},

	// The adapters: the core, or broker, and one technology.
	{dir: "store/memstore", ours: ". internal/wake"},
	{dir: "store/mysqlstore", ours: ". internal/coalesce internal/sqlkit", tech: "github.com/go-sql-driver/mysql", planned: true},
	{dir: "store/natsstore", ours: ".", tech: "github.com/nats-io/nats.go", tests: "github.com/nats-io/nats-server/v2", planned: true},
	{dir: "store/pebblestore", ours: ". internal/wake", tech: "github.com/cockroachdb/pebble/v2"},
	{dir: "store/pgstore", ours: ". internal/coalesce internal/sqlkit", tech: "github.com/jackc/pgx/v5", planned: true},
	{dir: "store/redisstore", ours: ". internal/coalesce", tech: "github.com/redis/go-redis/v9", planned: true},
	{dir: "store/sqlitestore", ours: ". internal/coalesce internal/sqlkit", tech: "modernc.org/sqlite", planned: true},
	{dir: "broker/amqpbroker", ours: "broker", tech: "github.com/rabbitmq/amqp091-go", planned: true},
	{dir: "broker/kafkabroker", ours: "broker", tech: "github.com/twmb/franz-go", planned: true},
	{dir: "broker/membroker", ours: "broker", planned: true},
	{dir: "broker/natsbroker", ours: "broker", tech: "github.com/nats-io/nats.go", tests: "github.com/nats-io/nats-server/v2", planned: true},
	{dir: "broker/redisbroker", ours: "broker", tech: "github.com/redis/go-redis/v9", planned: true},
	{dir: "observer/otelobserver", ours: ".", tech: "go.opentelemetry.io/otel", planned: true},
	{dir: "observer/promobserver", ours: ".", tech: "github.com/prometheus"},
	{dir: "cache/ottercache", ours: ".", tech: "github.com/maypok86/otter/v2", planned: true},

	// The programs put everything together.
	{dir: "cmd/retrysafe", ours: "...", tech: "github.com/alecthomas/kong github.com/goccy/go-yaml github.com/prometheus", tests: "github.com/chromedp github.com/go-jose/go-jose/v4"},
	{dir: "examples/payments", ours: "...", tech: "modernc.org/sqlite"},
	{dir: "examples/payments/cmd/payments", ours: "...", tech: "modernc.org/sqlite"},
	{dir: "bench/...", ours: "...", tech: "..."}, // its own module: the peers are its dependencies, never ours
}

// testModules is what every test may import. Tests may also import every package of ours.
var testModules = strings.Fields("github.com/anishathalye/porcupine github.com/google/go-cmp github.com/rogpeppe/go-internal pgregory.net/rapid")

// lawBreaches lists the imports, packages and rows that do not fit each other.
func lawBreaches(h *houseTree, law []lawRow) (findings []string) {
	packages := map[string]bool{}
	for _, f := range h.code {
		row := findRow(law, f.dir)
		if row == nil && !packages[f.dir] {
			findings = append(findings, fmt.Sprintf("%s has no row in the import law: add {dir: %q, ours: \".\"} to importLaw in house_law_test.go, with the technology it is for (CONTRIBUTING.md, \"A new adapter\")", f.dir, f.dir))
		}
		packages[f.dir] = true
		if row == nil {
			continue
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			if !row.allows(imported, f.test) {
				findings = append(findings, fmt.Sprintf("%s: %s may not import %q: do without, or argue in the commit for a word in its row of importLaw (house_law_test.go)", h.at(spec), f.dir, imported))
			}
		}
	}
	return append(findings, rowsOutOfDate(law, packages)...)
}

func rowsOutOfDate(law []lawRow, packages map[string]bool) (findings []string) {
	for _, row := range law {
		switch exists := packages[row.dir]; {
		case strings.HasSuffix(row.dir, "..."):
		case exists && row.planned:
			findings = append(findings, fmt.Sprintf("%s exists: delete \"planned: true\" from its row of importLaw (house_law_test.go)", row.dir))
		case !exists && !row.planned:
			findings = append(findings, fmt.Sprintf("%s has a row in the import law but no Go file: delete its row of importLaw (house_law_test.go)", row.dir))
		}
	}
	return findings
}

// findRow is the row of the package in dir: its own before that of a folder above it.
func findRow(law []lawRow, dir string) *lawRow {
	var found *lawRow
	for i := range law {
		if law[i].dir == dir {
			return &law[i]
		}
		if covers(law[i].dir, dir) {
			found = &law[i]
		}
	}
	return found
}

// covers tells whether word names dir or, when it ends in "...", a folder above it.
func covers(word, dir string) bool {
	tree, deep := strings.CutSuffix(word, "...")
	return word == dir || deep && strings.HasPrefix(dir+"/", tree)
}

func (r *lawRow) allows(imported string, test bool) bool {
	if dir, ok := ourFolder(imported); ok {
		return test || dir == r.dir || anyCovers(r.ours, dir)
	}
	if isStandard(imported) {
		return test || !within("testing", imported) || slices.Contains(strings.Fields(r.tech), "testing")
	}
	modules := strings.Fields(r.tech)
	if test {
		modules = slices.Concat(modules, strings.Fields(r.tests), testModules)
	}
	return slices.ContainsFunc(modules, func(module string) bool { return module == "..." || within(module, imported) })
}

func ourFolder(imported string) (dir string, ok bool) {
	if imported == housePath {
		return ".", true
	}
	return strings.CutPrefix(imported, housePath+"/")
}

// isStandard uses what the go command reserves: the first element of any other import path has a dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func within(module, imported string) bool {
	return strings.HasPrefix(imported+"/", module+"/")
}

func anyCovers(words, dir string) bool {
	return slices.ContainsFunc(strings.Fields(words), func(word string) bool { return covers(word, dir) })
}

// lawFlaws holds the law itself to the design, so that no row can quietly permit what the house rests on not having.
func lawFlaws(law []lawRow) (findings []string) {
	seen := map[string]bool{}
	for _, row := range law {
		if seen[row.dir] {
			findings = append(findings, fmt.Sprintf("row %s stands twice in importLaw: keep one", row.dir))
		}
		seen[row.dir] = true
		if flaw := row.flaw(); flaw != "" {
			findings = append(findings, fmt.Sprintf("row %s of importLaw: %s", row.dir, flaw))
		}
	}
	return findings
}

func (r *lawRow) flaw() string {
	ours, tech := strings.Fields(r.ours), strings.Fields(r.tech)
	switch {
	case slices.Contains([]string{".", "broker", "conform"}, r.dir) && len(ours)+len(tech) > 0:
		return "it imports the standard library only: move what needs more into a package of its own"
	case isAdapter(r.dir) && len(tech) > 1:
		return "an adapter has one technology: make two adapters of it"
	case isAdapter(r.dir) && slices.ContainsFunc(ours, func(word string) bool { return word != "." && word != "broker" && !within("internal", word) }):
		return "an adapter knows the core or broker, and internal packages: move what adapters share there"
	case !isProgram(r.dir) && slices.ContainsFunc(ours, func(word string) bool { return word == "..." || isAdapter(word) }):
		return "only programs and tests import an adapter: take the interface and let cmd/retrysafe choose"
	}
	return ""
}

// isAdapter knows adapters by the folder they stand in; the suites beside them are none.
func isAdapter(dir string) bool {
	kinds := []string{"store", "broker", "observer", "cache"}
	return slices.Contains(kinds, path.Dir(dir)) && !strings.HasSuffix(dir, "test")
}

func isProgram(dir string) bool {
	return slices.ContainsFunc([]string{"cmd", "examples", "bench"}, func(tree string) bool { return within(tree, dir) })
}

func TestImportLawCanFail(t *testing.T) {
	law := []lawRow{
		{dir: "."},
		{dir: "internal/...", ours: "."},
		{dir: "internal/kit", tech: "testing"},
		{dir: "door", ours: ". internal/...", tests: "example.com/browser"},
		{dir: "store/xstore", ours: ".", tech: "example.com/x/v2"},
		{dir: "store/ystore", ours: ".", planned: true},
		{dir: "cmd/all", ours: "...", tech: "example.com/flags"},
	}
	const ours = housePath + "/"
	tests := []struct {
		name string
		file string
		path string // what it imports
		want string // part of a finding; "" for none
	}{
		{"core, standard library", "a.go", "net/http", ""},
		{"core, other module", "a.go", "example.com/x/v2", `a.go:2: . may not import "example.com/x/v2"`},
		{"core, package of ours", "a.go", ours + "internal/a", "may not import"},
		{"core, testing", "a.go", "testing/fstest", "may not import"},
		{"core, testing in a test", "a_test.go", "testing/fstest", ""},
		{"core, store in a test", "a_test.go", ours + "store/xstore", ""},
		{"core, module for tests in a test", "a_test.go", "pgregory.net/rapid", ""},
		{"core, module for tests", "a.go", "pgregory.net/rapid", "may not import"},
		{"core, other module in a test", "a_test.go", "example.com/x/v2", "may not import"},
		{"internal, core", "internal/a/a.go", housePath, ""},
		{"internal, internal without a row", "internal/a/a.go", ours + "internal/b", "internal/a may not import"},
		{"internal, testing without a row", "internal/a/a.go", "testing", "may not import"},
		{"internal, own row wins", "internal/kit/a.go", "testing", ""},
		{"internal, own row is all it has", "internal/kit/a.go", housePath, "may not import"},
		{"door, internal below internal", "door/a.go", ours + "internal/a/b", ""},
		{"door, store", "door/a.go", ours + "store/xstore", "door may not import"},
		{"door, its own module in a test", "door/a_test.go", "example.com/browser/cdp", ""},
		{"door, its own test module", "door/a.go", "example.com/browser/cdp", "may not import"},
		{"adapter, its technology", "store/xstore/a.go", "example.com/x/v2/y", ""},
		{"adapter, neighbour of its technology", "store/xstore/a.go", "example.com/x/v22", "may not import"},
		{"adapter, other adapter", "store/xstore/a.go", ours + "store/ystore", "may not import"},
		{"program, adapter", "cmd/all/a.go", ours + "store/xstore", ""},
		{"program, other technology", "cmd/all/a.go", "example.com/x/v2", "may not import"},
		{"package without a row", "new/a.go", "net/http", `new has no row in the import law: add {dir: "new"`},
		{"package that was planned", "store/ystore/a.go", "net/http", `store/ystore exists: delete "planned: true"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{tt.file: fmt.Sprintf("package a\nimport _ %q", tt.path)}
			for _, row := range law {
				if !row.planned && !strings.Contains(row.dir, "...") {
					files[path.Join(row.dir, "here.go")] = "package a"
				}
			}
			wantFinding(t, lawBreaches(fixtureHouse(t, files), law), tt.want)
		})
	}
	t.Run("row without a package", func(t *testing.T) {
		wantFinding(t, lawBreaches(fixtureHouse(t, nil), []lawRow{{dir: "door"}}), "door has a row in the import law but no Go file")
	})
}

func TestImportLawFlawsAreFound(t *testing.T) {
	tests := []struct {
		name string
		row  lawRow
		want string // part of a finding; "" for none
	}{
		{"core with a module", lawRow{dir: ".", tech: "example.com/x"}, "standard library only"},
		{"judge with the core", lawRow{dir: "conform", ours: "."}, "standard library only"},
		{"adapter with two technologies", lawRow{dir: "store/a", ours: ".", tech: "example.com/x example.com/y"}, "one technology"},
		{"adapter with a door", lawRow{dir: "broker/a", ours: "broker outbox"}, "knows the core or broker"},
		{"adapter with an adapter", lawRow{dir: "cache/a", ours: ". store/b"}, "knows the core or broker"},
		{"adapter with an internal package", lawRow{dir: "store/a", ours: ". internal/b"}, ""},
		{"door with an adapter", lawRow{dir: "door", ours: ". store/a"}, "only programs and tests"},
		{"door with everything", lawRow{dir: "door", ours: "..."}, "only programs and tests"},
		{"suite with its contract", lawRow{dir: "broker/brokertest", ours: "broker", tech: "testing"}, ""},
		{"program with everything", lawRow{dir: "examples/a", ours: "...", tech: "example.com/x example.com/y"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantFinding(t, lawFlaws([]lawRow{tt.row}), tt.want) })
	}
	t.Run("row that stands twice", func(t *testing.T) {
		wantFinding(t, lawFlaws([]lawRow{{dir: "door"}, {dir: "door"}}), "stands twice")
	})
}
