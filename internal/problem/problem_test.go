package problem_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/problem"
)

const docs = "https://docs.example"

// codes returns every constant of type Code, read from the source: a code that is forgotten in a table is still here.
func codes(t *testing.T) []problem.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []problem.Code
	for spec := range specs(file) {
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
			continue
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, problem.Code(text))
		}
	}
	if len(found) < 16 {
		t.Fatalf("found the codes %q only", found)
	}
	return found
}

func specs(file *ast.File) func(func(*ast.ValueSpec) bool) {
	return func(yield func(*ast.ValueSpec) bool) {
		for n := range ast.Preorder(file) {
			if spec, ok := n.(*ast.ValueSpec); ok && !yield(spec) {
				return
			}
		}
	}
}

// KP-11: every code stands in the protocol, has a name that a link can carry, and a section of its own.
func TestEveryCodeIsTold(t *testing.T) {
	page := problem.Markdown()
	all := codes(t)
	if unique := slices.Compact(slices.Sorted(slices.Values(all))); len(unique) != len(all) {
		t.Errorf("two codes are one: %q", all)
	}
	for _, code := range all {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(code)) {
			t.Errorf("code %q is no anchor: small letters and hyphens only", code)
		}
		if n := strings.Count(page, "\n### "+string(code)+"\n"); n != 1 {
			t.Errorf("code %s has %d sections in the page, want 1", code, n)
		}
		if !slices.ContainsFunc(problem.Situations, func(s problem.Situation) bool { return s.Code == code }) {
			t.Errorf("code %s has no row in the protocol", code)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(all, problem.Code(heading[1])) {
			t.Errorf("section %q is no code's", heading[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, "\n### "+link[1]+"\n") {
			t.Errorf("the page links to #%s, which it does not have", link[1])
		}
	}
}

// The rows are whole, each situation has one, and a row's status is that of its code.
func TestSituationsAreWhole(t *testing.T) {
	ledger := []string{"done", "done / rejected", "rejected", "key_conflict", "sending", "never_sent", "outcome_unknown", "done_answer_gone"}
	seen := map[string]bool{}
	for _, s := range problem.Situations {
		if seen[s.Name] || s.Name == "" || s.Status == "" || s.Client == "" || s.Source == "" {
			t.Errorf("row %+v is not whole, or stands there twice", s)
		}
		seen[s.Name] = true
		if !slices.Contains(ledger, s.Ledger) {
			t.Errorf("row %q has the ledger say %q, want one of %q", s.Name, s.Ledger, ledger)
		}
		status := problem.StatusOf(s.Code)
		if leading, err := strconv.Atoi(s.Status); err == nil && leading != status {
			t.Errorf("row %q says %d, its code %s has %d", s.Name, leading, s.Code, status)
		}
		if strings.Contains(s.Name+s.Status+s.Headers+s.Client+s.Source, "|") {
			t.Errorf("row %q breaks the table", s.Name)
		}
	}
}

// Which statuses the codes have is a contract.
func TestStatusOf(t *testing.T) {
	want := map[problem.Code]int{"key-missing": 400, "key-invalid": 400, "key-reused": 422, "in-flight": 409, "upstream-unreachable": 502, "outcome-unknown": 409,
		"answer-expired": 410, "answer-not-kept": 0, "unrecorded": 0, "scope-missing": 401, "scope-unavailable": 503, "quota-exceeded": 429, "entry-unreadable": 503, "draining": 503,
		"store-unavailable": 503, "body-too-large": 413, "body-unreadable": 400,
		"overloaded": 503, "too-early": 425, "loop-detected": 508, "path-ambiguous": 400}
	got := map[problem.Code]int{}
	for _, code := range codes(t) {
		got[code] = problem.StatusOf(code)
	}
	if !maps.Equal(got, want) {
		t.Errorf("statuses are %v, want %v", got, want)
	}
	if n := problem.StatusOf("no-such-code"); n != 0 {
		t.Errorf("StatusOf(no-such-code) = %d", n)
	}
}

// Every problem is well-formed by RFC 9457, tells its real status, and points to its own section.
func TestWrite(t *testing.T) {
	for _, code := range codes(t) {
		if problem.StatusOf(code) == 0 {
			continue // in a header only
		}
		for _, a := range []problem.Answer{
			{Code: code},
			{Code: code, Status: 599, Detail: "a \"detail\" of its own <b>\n", RetryAfter: time.Second, Instance: "urn:retrysafe:key:00"},
		} {
			w := httptest.NewRecorder()
			problem.Write(w, docs, a)
			wantWritten(t, a, w.Result(), w.Body.String())
		}
	}
}

func wantWritten(t *testing.T, a problem.Answer, res *http.Response, body string) {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s: %q is no JSON: %v", a.Code, body, err)
	}
	status := a.Status
	if status == 0 {
		status = problem.StatusOf(a.Code)
	}
	page := docs + "/protocol.md#" + string(a.Code)
	want := map[string]any{"type": page, "status": float64(status), "code": string(a.Code), "title": p["title"], "detail": p["detail"]}
	if a.Detail != "" {
		want["detail"] = a.Detail
	}
	if a.Instance != "" {
		want["instance"] = a.Instance
	}
	if res.StatusCode != status || !maps.Equal(p, want) || p["title"] == "" || p["detail"] == "" {
		t.Errorf("%s: got %d %v, want %d %v", a.Code, res.StatusCode, p, status, want)
	}
	for name, want := range map[string]string{"Content-Type": "application/problem+json", "Content-Language": "en", "Cache-Control": "no-store",
		"Link": "<" + page + `>; rel="describedby"; type="text/html"`} {
		if got := res.Header[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %s is %q, want %q", a.Code, name, got, want)
		}
	}
	if got := res.Header.Get("Retry-After"); (got != "") != (a.RetryAfter > 0) {
		t.Errorf("%s: Retry-After is %q", a.Code, got)
	}
}

// Clients match on the titles of the draft (draft-07, 2.7): they never change.
func TestTitlesOfTheDraft(t *testing.T) {
	for code, title := range map[problem.Code]string{problem.KeyMissing: "Idempotency-Key is missing", problem.KeyReused: "Idempotency-Key is already used",
		problem.InFlight: "A request is outstanding for this Idempotency-Key"} {
		w := httptest.NewRecorder()
		problem.Write(w, docs, problem.Answer{Code: code})
		if !strings.Contains(w.Body.String(), `"title":"`+title+`"`) {
			t.Errorf("%s: %s, want title %q", code, w.Body, title)
		}
	}
}

// What a handler that broke off had set for its own answer does not describe the problem; links of layers outside stay.
func TestWriteOverAnotherAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	of := []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Content-Location", "Location", "Etag", "Last-Modified", "Set-Cookie"}
	for _, name := range of {
		w.Header().Set(name, "9")
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Cache-Control", "public")
	w.Header().Set("Link", "</other>; rel=license")
	w.Header().Set("X-Request-Id", "r-1")
	problem.Write(w, docs, problem.Answer{Code: problem.OutcomeUnknown, Status: 500})
	for _, name := range of {
		if got := w.Header().Get(name); got != "" {
			t.Errorf("%s: %q describes another answer", name, got)
		}
	}
	if links := w.Header()["Link"]; len(links) != 2 || links[0] != "</other>; rel=license" || w.Header().Get("X-Request-Id") != "r-1" {
		t.Errorf("headers are %v: want what stood outside, too", w.Header())
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
}

// Retry-After is in whole seconds, rounded up, and never 0 (RFC 9110, 10.2.3).
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{-time.Hour: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 1500 * time.Millisecond: 2, 2 * time.Second: 2, time.Hour: 3600} {
		if got := problem.Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %d, want %d", d, got, want)
		}
	}
}
