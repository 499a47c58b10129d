package admin

import (
	"os"
	"strings"
	"testing"
)

// Every problem's type points to a section of docs/operate.md.
func TestEveryProblemIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for code := range kinds {
		if !strings.Contains(string(page), "\n### "+code+"\n") {
			t.Errorf("docs/operate.md has no section %q: write one, with what to do", "### "+code)
		}
	}
}
