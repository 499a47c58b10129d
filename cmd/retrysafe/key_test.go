package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

// A said is how a command ended.
type said struct {
	status      int
	out, stderr string
}

// key runs a key command against the gateway.
func (l *lab) key(t *testing.T, args ...string) said {
	t.Helper()
	return l.keyWith(t, "", args...)
}

func (l *lab) keyWith(t *testing.T, stdin string, args ...string) said {
	t.Helper()
	args = append(append([]string{"key"}, args...), "--admin", l.admin, "--admin-token", token)
	var out, stderr bytes.Buffer
	status := run(t.Context(), args, strings.NewReader(stdin), &out, &stderr)
	if flaw := leak(out.String()+stderr.String(), secrets); flaw != "" {
		t.Errorf("retrysafe %q: what was said %s", args, flaw)
	}
	return said{status, out.String(), stderr.String()}
}

// wantOut checks that a command succeeded and said what matches pattern.
func (s said) wantOut(t *testing.T, pattern string) {
	t.Helper()
	if s.status != exitOK || s.stderr != "" || !regexp.MustCompile("(?m)"+pattern).MatchString(s.out) {
		t.Errorf("got %+v, want status 0 and %q", s, pattern)
	}
}

// wantRefused checks that a command failed with one line that matches pattern.
func (s said) wantRefused(t *testing.T, status int, pattern string) {
	t.Helper()
	if s.status != status || s.out != "" || refusalFlaw(s.stderr) != "" || !regexp.MustCompile(pattern).MatchString(s.stderr) {
		t.Errorf("got %+v %s, want status %d and one line with %q", s, refusalFlaw(s.stderr), status, pattern)
	}
}

// An outcome that nobody knows: found, decided that nothing happened, and the retry runs.
func TestReleaseUnknown(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := startGateway(t, api.url)
	api.breakOff(true)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 502, "outcome-unknown")
	api.breakOff(false)
	held := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
	held.wantProblem(t, 409, "outcome-unknown")
	if got := held.header.Get("Retry-After"); got != "" {
		t.Errorf("while held: got Retry-After %q, want none", got)
	}
	if got := api.count(t); got != 0 {
		t.Fatalf("got %d charges while held, want 0", got)
	}

	ids := l.ids(t, "--state", "unknown")
	if len(ids) != 1 || ids["zq-key-1"] == "" {
		t.Fatalf("key list --state unknown: got %v, want zq-key-1", ids)
	}
	if want := "urn:retrysafe:key:" + ids["zq-key-1"]; !strings.Contains(held.body, want) {
		t.Errorf("while held: got %s, want the instance %s in it", held.body, want)
	}
	l.key(t, "show", ids["zq-key-1"]).wantOut(t, `^state +unknown$`)
	l.key(t, "resolve", ids["zq-key-1"], "--release", "--by", "alice", "--reason", "no such charge").wantOut(t, `alice released it \(was unknown\): no such charge$`)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
	first.wantStatus(t, 201)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantReplayOf(t, first)
	if got := api.count(t); got != 1 {
		t.Errorf("got %d charges after the release, want 1", got)
	}
	l.wantClaims(t, map[string]int{"won": 2, "outcome_unknown": 1, "replay": 1})
	// The log tells an operator of all this, by the ID alone: the end of the test looks for the key in it.
	l.stderr.await(t, `level=ERROR msg="upstream may have acted, its answer is lost" id=`+ids["zq-key-1"]+` status=502`)
	l.stderr.await(t, `level=INFO msg="key decided" id=`+ids["zq-key-1"]+` by=alice did=released from=unknown`)
}

// An outcome that nobody knows: decided that it happened, and retries get just the answer that was given.
func TestCompleteUnknown(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	api.breakOff(true)
	l := startGateway(t, api.url)
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("{\"slip\":7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := []string{"--header", "Content-Type: application/json", "--header", "Link:</a>; rel=\"self\", </b>", "--header", "Link: </c>"}
	tests := []struct {
		name   string
		stdin  string
		flags  []string
		status int
		header http.Header
		body   string
	}{
		{"body of a file", "", append([]string{"--status", "201", "--body", body}, headers...), 201,
			http.Header{"Content-Type": {"application/json"}, "Link": {"</a>; rel=\"self\", </b>", "</c>"}}, "{\"slip\":7}\n"},
		{"body of standard input", "\x00zq\n", []string{"--status", "422", "--body", "-"}, 422, http.Header{"Content-Type": nil}, "\x00zq\n"},
		{"no body", "", []string{"--status", "204"}, 204, nil, ""},
		{"no answer", "", nil, 204, http.Header{"Idempotency-Status": {"answer-not-kept"}}, ""},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := "zq-key-" + string(rune('a'+i))
			l.send(t, "POST", "/charges", key, charge(1)).wantProblem(t, 502, "outcome-unknown")
			s := l.keyWith(t, tt.stdin, append([]string{"resolve", "--key", key, "--complete", "--by", "alice", "--reason", "slip 7 of the bank"}, tt.flags...)...)
			s.wantOut(t, `^state +completed$`)
			s.wantOut(t, `alice completed it \(was unknown\): slip 7 of the bank$`)
			got := l.send(t, "POST", "/charges", key, charge(1))
			got.wantReplayOf(t, answer{status: tt.status, body: tt.body, header: http.Header{"Content-Type": tt.header["Content-Type"]}})
			for name, want := range tt.header {
				if !slices.Equal(got.header[name], want) {
					t.Errorf("the retry: got %s %q, want %q", name, got.header[name], want)
				}
			}
		})
	}
	api.breakOff(false)
	if got := api.count(t); got != 0 {
		t.Errorf("got %d charges, want 0: nothing ran", got)
	}
}

// What is completed, or in flight, is decided against only with force.
func TestForce(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := startGateway(t, api.url)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
	first.wantStatus(t, 201)
	decisions := [][]string{
		{"resolve", "--release"},
		{"resolve", "--complete", "--status", "409"},
		{"forget"},
	}
	for _, d := range decisions {
		d = append(d, "--key", "zq-key-1", "--by", "bob", "--reason", "it was a test")
		l.key(t, d...).wantRefused(t, exitError, `^retrysafe: .*completed.*\(409 decision-refused\): if you are sure, say it again with --force\n$`)
	}
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantReplayOf(t, first)

	l.key(t, "resolve", "--complete", "--status", "409", "--force", "--key", "zq-key-1", "--by", "bob", "--reason", "it was a test").wantOut(t, `bob completed it \(was completed\)`)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantStatus(t, 409)
	l.key(t, "forget", "--force", "--key", "zq-key-1", "--by", "bob", "--reason", "it was a test").wantOut(t, `^state +free$`)
	l.send(t, "POST", "/charges", "zq-key-1", charge(5)).wantStatus(t, 201) // another body: the key is new
	if got := api.count(t); got != 2 {
		t.Errorf("got %d charges, want 2: one before and one after it was forgotten", got)
	}
	l.key(t, "show", "--key", "zq-key-1").wantOut(t, `bob forgot it \(was completed\): it was a test$`)
}

func TestShowsWhetherItActed(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for want, acted := range map[string]*bool{"acted true": &yes, "acted false": &no, "": nil} {
		var out strings.Builder
		err := printDetail(&out, admin.Detail{Policy: &admin.Policy{OnLeaseEnd: "hold"}, Acted: acted})
		if told := strings.Join(strings.Fields(out.String()), " "); err != nil || !strings.Contains(told, want) || strings.Contains(out.String(), "acted") != (acted != nil) {
			t.Errorf("key show: %v\n%s\nwant it to say %q", err, out.String(), want)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := startGateway(t, api.url, "--scope-header", "X-Tenant")
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a")
	l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a").wantReplayOf(t, first)
	id := l.ids(t)["zq-key-1"]

	byID, byKey := l.key(t, "show", id), l.key(t, "show", "--key", "zq-key-1", "--scope", "zq-tenant-a")
	if byID != byKey {
		t.Errorf("key show by ID and by key: got %+v and %+v, want the same", byID, byKey)
	}
	for _, want := range []string{`^key +zq-key-1$`, `^scope +zq-tenant-a$`, `^id +` + id + `$`, `^state +completed$`, `^attempts +1$`,
		`^replays +1$`, `^on lease end +hold$`, `^started +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, `^answer +status 201, \d+ bytes, headers .*Location`} {
		byID.wantOut(t, want)
	}
	if strings.Contains(byID.out, "zq-body") {
		t.Errorf("key show without --answer: got\n%s\nwant the answer's values hidden", byID.out)
	}
	l.key(t, "show", id, "--answer").wantOut(t, `^  body +".*zq-body`)
	l.key(t, "show", id, "--answer").wantOut(t, `^  Location +`+first.header.Get("Location")+`$`)

	var d admin.Detail
	if s := l.key(t, "show", id, "--answer", "--json"); s.status != exitOK || json.Unmarshal([]byte(s.out), &d) != nil || string(d.Answer.Body) != first.body || d.ID != id {
		t.Errorf("key show --answer --json: got %+v, want the answer %v", s, first)
	}

	absent := retrysafe.Key{Scope: "zq-tenant-b", Name: "zq-key-1"}.ID().String()
	for _, args := range [][]string{{"show", absent}, {"show", "--key", "zq-key-1", "--scope", "zq-tenant-b"}, {"forget", absent, "--by", "bob", "--reason", "none"}} {
		l.key(t, args...).wantRefused(t, exitError, `^retrysafe: admin: .*There is no such key.*\(404 key-not-found\)\n$`)
	}
}

// What the gateway finds wrong with a decision is a mistake of the command line.
func TestDecisionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	l := startGateway(t, "http://127.0.0.1:9")
	tests := []struct {
		name  string
		flags []string
		want  string
	}{
		{"status out of range", []string{"--complete", "--status", "99"}, `Field status is 99: want 200 to 599`},
		{"answer of a release", []string{"--release", "--status", "200"}, `Fields status, headers and body belong to "complete"`},
		{"body without status", []string{"--complete", "--body", "-"}, `Field status is required with headers or body`},
		{"header of one exchange", []string{"--complete", "--status", "200", "--header", "Set-Cookie: a=b"}, `Header Set-Cookie belongs to one exchange`},
		{"header that cannot be sent", []string{"--complete", "--status", "200", "--header", "X A: b"}, `Header "X A" cannot be sent`},
		{"nobody", []string{"--release", "--by", " "}, `Field by is required`},
		{"reason too long", []string{"--release", "--reason", strings.Repeat("a", 257)}, `Field reason has 257 bytes: at most 256 are kept`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := l.key(t, append([]string{"resolve", "--key", "zq-key-1", "--by", "alice", "--reason", "none"}, tt.flags...)...)
			s.wantRefused(t, exitUsage, tt.want)
		})
	}
}

func TestWrongToken(t *testing.T) {
	t.Parallel()
	l := startGateway(t, "http://127.0.0.1:9")
	wrong := "zq-wrong-0123456789abcdef"
	var out, stderr bytes.Buffer
	status := run(t.Context(), []string{"key", "list", "--admin", l.admin, "--admin-token", wrong}, nil, &out, &stderr)
	said{status, out.String(), stderr.String()}.wantRefused(t, exitError, `The admin token is missing or wrong.*\(401 unauthorized\): give the gateway's own token with --admin-token-file\n$`)
	if flaw := leak(stderr.String()+l.stderr.String(), []string{wrong}); flaw != "" {
		t.Errorf("what was said %s", flaw)
	}
}

// What listens there is something else.
func TestNoAdminListener(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer other.Close()
	l := &lab{admin: other.URL}
	l.key(t, "list").wantRefused(t, exitError, `the reply is not one of the admin API: is `+regexp.QuoteMeta(other.URL)+` its listener\?`)
	l.admin = "http://127.0.0.1:1"
	l.key(t, "list").wantRefused(t, exitError, `: is the process running, and is http://127.0.0.1:1 its admin listener\?\n$`)
}

// The scheme of --admin may be left out.
func TestAdminWithoutScheme(t *testing.T) {
	t.Parallel()
	l := startGateway(t, "http://127.0.0.1:9")
	bare := *l
	bare.admin = strings.TrimPrefix(l.admin, "http://")
	bare.key(t, "list").wantOut(t, `^STATE +STARTED`)
	bare.admin = l.admin + "/"
	bare.key(t, "list").wantOut(t, `^STATE +STARTED`)
}
