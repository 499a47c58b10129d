package problem

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the protocol into docs/protocol.md")

// The page that every problem's type points to is written from the table.
func TestProtocolPageIsTheTable(t *testing.T) {
	const page, begin, end = "../../docs/protocol.md", "<!-- answers:begin -->\n", "<!-- answers:end -->"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	standing, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers %s %s", page, begin, end)
	}
	if standing == Markdown() {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the table says: run go test ./internal/problem -update", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+Markdown()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
