//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// retentionOf is how long the answer of a key of the shared scope is kept, in the policy that stands with it.
func (l *lab) retentionOf(t *testing.T, key string) string {
	t.Helper()
	var shown struct{ Policy map[string]any }
	got := l.get(t, "/api/keys/"+retrysafe.Key{Scope: "shared", Name: key}.ID().String(), true)
	if err := json.Unmarshal([]byte(got.body), &shown); err != nil {
		t.Fatalf("key %s: %v", key, got)
	}
	text, _ := json.Marshal(shown.Policy)
	return string(text)
}

// A reload changes what comes after it. What is under way ends as it began, and is recorded and replayed.
func TestReload(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeConfig(t, file, "retention: 1h\n")
	p := startProcess(t, url, "--config", file)
	p.send(t, "POST", "/", "", "").wantStatus(t, 200)
	<-arrived
	underway := p.begin(t, "/block", "zq-key-1", "zq-body")
	<-arrived
	before := p.retentionOf(t, "zq-key-1")

	writeConfig(t, file, "retention: 2h\nrequire-key: true\nroutes:\n- name: open\n  match: {path: /open}\n  required: false\n  retention: 3h\n")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, `msg="configuration reloaded" routes=1$`)
	p.send(t, "POST", "/", "", "").wantProblem(t, 400, "key-missing")
	p.send(t, "POST", "/open", "", "").wantStatus(t, 200)
	p.send(t, "POST", "/block", "zq-key-1", "zq-body").wantProblem(t, 409, "in-flight")
	release()
	first := <-underway
	first.wantStatus(t, 200)
	p.send(t, "POST", "/block", "zq-key-1", "zq-body").wantReplayOf(t, first)
	p.send(t, "POST", "/", "zq-key-2", "").wantStatus(t, 200)
	p.send(t, "POST", "/open", "zq-key-3", "").wantStatus(t, 200)
	for key, want := range map[string]string{"zq-key-1": "3600", "zq-key-2": "7200", "zq-key-3": "10800"} {
		if got := p.retentionOf(t, key); !strings.Contains(got, want) {
			t.Errorf("%s: got policy %s, want a retention of %s s; before the reload zq-key-1 had %s", key, got, want, before)
		}
	}
	if got := p.retentionOf(t, "zq-key-1"); got != before {
		t.Errorf("zq-key-1: its policy was %s and is %s, want it to stay", before, got)
	}
}

// A file that cannot be put in force whole is not put in force at all, and the log says where it is wrong.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	url, _, _ := startStates(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	const good = "max-bodies: 20MiB\nroutes:\n- name: strict\n  match: {path: /strict}\n  required: true\n"
	writeConfig(t, file, good)
	p := startProcess(t, url, "--config", file)
	for _, tt := range []struct{ name, text, want string }{
		{"no YAML", "a: [b\n", `gateway\.yaml:1:4: the file is no valid YAML`},
		{"an unknown key", "require-key: true\nleese: 1s\n", `gateway\.yaml:2:1: unknown key \\"leese\\" .* did you mean \\"lease\\"`},
		{"a route that cannot be", "require-key: true\nroutes:\n- name: a\n  match: {path: a}\n", `gateway\.yaml:4:17: the path must begin with a slash`},
		{"what is read at start only", "require-key: true\nmax-bodies: 30MiB\nrecord-wait: 1s\n", `gateway\.yaml:3:14: record-wait: it changed, and is read at start only`},
		{"the same, left out", "require-key: true\n", `gateway\.yaml:1:1: max-bodies: it changed, and is read at start only`},
	} {
		writeConfig(t, file, tt.text)
		p.signal(t, syscall.SIGHUP)
		p.stderr.await(t, `level=ERROR msg="configuration not reloaded, the old one stays in force" err=".*`+tt.want)
		p.send(t, "POST", "/strict", "", "").wantProblem(t, 400, "key-missing")
		p.send(t, "POST", "/", "", "").wantStatus(t, 200) // no key is required here, whatever the bad file says
	}
	writeConfig(t, file, good+"- name: other\n  match: {path: /other}\n  required: true\n")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, `msg="configuration reloaded" routes=2$`)
	p.send(t, "POST", "/other", "", "").wantProblem(t, 400, "key-missing")
}
