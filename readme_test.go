package retrysafe_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestREADMEShowsWhatRuns: every Go block of the README stands in an example that the tests execute. Its shell
// blocks are executed by the tests of cmd/retrysafe.
func TestREADMEShowsWhatRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)(?:<!-- example: (\\S+) (\\w+) -->\n)?```go\n(.*?)```")
	blocks := block.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no Go code")
	}
	for _, b := range blocks {
		dir, name, code := b[1], b[2], b[3]
		if name == "" {
			t.Errorf("a Go block is not marked with its example: put <!-- example: DIR NAME --> above\n%s", code)
			continue
		}
		source, err := os.ReadFile(dir + "/example_test.go")
		if err != nil {
			t.Error(err)
			continue
		}
		_, body, ok := strings.Cut(string(source), "func "+name+"() {\n")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !ok || !strings.Contains(unindented(body), unindented(code)) {
			t.Errorf("%s/example_test.go: %s does not hold, line for line,\n%s", dir, name, code)
		}
	}
}

// unindented is code without the white space at the beginnings of its lines.
func unindented(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
