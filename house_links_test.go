package retrysafe_test

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house rule on documents: a link to a file of the repository, and to a heading in it, leads somewhere.

// blobBase is where the documents stand on the web. Addresses below it are checked like relative links, since
// the answers of the product point there.
const blobBase = "https://github.com/retrysafe/retrysafe/blob/main/"

var (
	markdownLink = regexp.MustCompile(`\]\(\s*<?([^)>\s]+)>?(?:\s+["'(][^)]*)?\)`)
	markdownRef  = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^>\s]+)`)
	htmlLink     = regexp.MustCompile(`\b(?:href|src)="([^"]+)"`)
	codeSpan     = regexp.MustCompile("``.+?``|`[^`]+`")
	urlScheme    = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*:|//)`) // RFC 3986, 3.1 and 4.2
)

func deadLinks(h *houseTree) (findings []string) {
	for _, name := range slices.Sorted(maps.Keys(h.texts)) {
		if dir := path.Dir(name); path.Ext(name) != ".md" || dir != "." && dir != "docs" {
			continue
		}
		for i, line := range proseLines(h.texts[name]) {
			for _, target := range linksIn(line) {
				if problem := h.deadLink(name, target); problem != "" {
					findings = append(findings, fmt.Sprintf("%s:%d: link to %s: %s", name, i+1, target, problem))
				}
			}
		}
	}
	return findings
}

// proseLines is the lines of a document with those inside code fences emptied.
func proseLines(text string) []string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) {
				fence = ""
			}
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			fence = line[:3]
		default:
			continue
		}
		lines[i] = ""
	}
	return lines
}

func linksIn(line string) (targets []string) {
	line = codeSpan.ReplaceAllString(line, "code")
	for _, form := range []*regexp.Regexp{markdownLink, markdownRef, htmlLink} {
		for _, match := range form.FindAllStringSubmatch(line, -1) {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// deadLink says what is wrong with the link from one document to target, "" when it is good or leads elsewhere.
func (h *houseTree) deadLink(from, target string) string {
	base := path.Dir(from)
	if rest, ok := strings.CutPrefix(target, blobBase); ok {
		base, target = ".", rest
	}
	if urlScheme.MatchString(target) {
		return ""
	}
	name, anchor, _ := strings.Cut(target, "#")
	name, err := url.PathUnescape(name)
	if err != nil {
		return "not a valid address"
	}
	file := path.Join(base, name)
	if name == "" {
		file = from
	}
	switch {
	case !h.paths[file]:
		return "no such file in the repository: mend the path, which is relative to the document"
	case anchor != "" && path.Ext(file) == ".md" && !headingAnchors(h.texts[file])[anchor]:
		return fmt.Sprintf("%s has no heading #%s: take the heading in lower case, blanks as hyphens, other signs dropped", file, anchor)
	}
	return ""
}

var (
	heading      = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$`)
	linkText     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	anchorTag    = regexp.MustCompile(`<[a-z0-9]+\b[^>]*\b(?:id|name)="([^"]+)"[^>]*>`)
	anchorTagEnd = regexp.MustCompile(`</?a\b[^>]*>`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc} -]`)
)

// headingAnchors is the anchors that GitHub gives the headings of a document, and those it sets itself: lower case,
// signs dropped, blanks to hyphens, and a number behind a heading that was there before.
func headingAnchors(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range proseLines(text) {
		for _, match := range anchorTag.FindAllStringSubmatch(line, -1) {
			anchors[match[1]] = true
		}
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		title := anchorTagEnd.ReplaceAllString(linkText.ReplaceAllString(match[1], "$1"), "")
		slug := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
		unique := slug
		for n := 1; anchors[unique]; n++ {
			unique = slug + "-" + strconv.Itoa(n)
		}
		anchors[unique] = true
	}
	return anchors
}

func TestDeadLinks(t *testing.T) {
	tests := []struct {
		name string
		text string // of docs/a.md
		want string // part of a finding; "" for none
	}{
		{"file beside it", "see [b](b.md)", ""},
		{"file above it", "see [the map](../README.md \"map\")", ""},
		{"folder", "see [bench](../bench/)", ""},
		{"missing file", "\nsee [c](c.md)", "docs/a.md:2: link to c.md: no such file"},
		{"path from the root", "see [b](docs/b.md)", "no such file"},
		{"path out of the repository", "see [c](../../c.md)", "no such file"},
		{"two links in a line", "[b](b.md) [c](c.md)", "link to c.md"},
		{"picture", "![c](c.png)", "no such file"},
		{"reference", "see [b]\n\n[b]: c.md", "docs/a.md:3: link to c.md"},
		{"tag", `<img src="c.png">`, "no such file"},
		{"blank in the name", "[d](d%20e.md)", ""},
		{"broken escape", "[d](d%2.md)", "not a valid address"},
		{"other site", "[x](https://example.com/c.md) <mailto:a@example.com> [y](//example.com)", ""},
		{"our own site", "[c](" + blobBase + "docs/c.md)", "no such file"},
		{"our own site, good", "[b](" + blobBase + "docs/b.md#the-line)", ""},
		{"link in a code fence", "```\n[c](c.md)\n```", ""},
		{"link in a code span", "write `[c](c.md)`", ""},
		{"link behind a code fence", "~~~\n```\n~~~\n[c](c.md)", "docs/a.md:4:"},

		{"heading", "[b](b.md#the-line)", ""},
		{"heading here", "# Über `a_b`: 1, 2!\n[b](#über-a_b-1-2)", ""},
		{"heading twice", "[b](b.md#the-line-1)", ""},
		{"heading three times", "[b](b.md#the-line-2)", "b.md has no heading #the-line-2"},
		{"heading in upper case", "[b](b.md#The-Line)", "has no heading #The-Line"},
		{"heading that is a link", "## [b](b.md) & c ##\n[x](#b--c)", ""},
		{"heading in a code fence", "```\n# b\n```\n[x](#b)", "has no heading #b"},
		{"tag with an id", "<a id=\"x\"></a>\n[x](#x)", ""},
		{"line of a source file", "[run](../bench/run.sh#L1)", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fixtureHouse(t, map[string]string{
				"README.md": "", "bench/run.sh": "", "docs/d e.md": "",
				"docs/b.md": "# The line\n## The line\n",
				"docs/a.md": tt.text,
			})
			wantFinding(t, deadLinks(h), tt.want)
		})
	}
}
