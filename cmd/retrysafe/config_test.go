package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
)

// configFlags are the gateway's flags, for parseConfig.
func configFlags() map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for _, n := range newParser(&cli{}).Model.Children {
		for _, flag := range n.Flags {
			if n.Name == "gateway" {
				flags[flag.Name] = flag
			}
		}
	}
	return flags
}

// configLines returns what is wrong with a file, each with line and column.
func configLines(text string) []string {
	_, err := parseConfig("f", text, configFlags())
	if e, ok := errors.AsType[*configError](err); ok {
		return e.lines()
	}
	return nil
}

// inRoute is a file of one route that is right but for its last lines.
func inRoute(lines string) string {
	return "routes:\n- name: a\n  match: {path: /a}\n  " + strings.ReplaceAll(lines, "\n", "\n  ")
}

func TestConfigMistakes(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // the beginning of each line, after the name of the file
	}{
		{"nothing", "", nil},
		{"comments", "# none\n", nil},
		{"a flag", "lease: 1m", nil},
		{"no mapping", "- a", []string{`1:1: the file is a list: want a mapping`}},
		{"a word", "hello", []string{`1:1: the file is a single value`}},
		{"an unknown key", "lease: 1m\nzebra: 1", []string{`2:1: unknown key "zebra" in the file: want one of admin, `}},
		{"a slip of the pen", "require_key: true", []string{`1:1: unknown key "require_key" in the file: did you mean "require-key"?`}},
		{"a key twice", "lease: 1m\nlease: 2m", []string{`2:1: key "lease" stands there twice, first in line 1: keep one`}},
		{"no value", "lease:", []string{`1:1: key "lease" has no value`}},
		{"null", "lease: ~", []string{`1:1: key "lease" has no value`}},
		{"a list for a value", "lease: [1m]", []string{`1:8: want a single value here, not a list`}},
		{"a mapping for a list", "trust-proxy: {a: b}", []string{`1:14: want a list here`}},
		{"an empty list", "trust-proxy: []", []string{`1:14: want a list here that is not empty`}},
		{"one value for a list", "trust-proxy: 10.0.0.0/8", nil},
		{"a duration that is none", "lease: soon", []string{`1:8: "soon" is not a duration`}},
		{"a size that is none", "max-body: 10m", []string{`1:11: "10m" is not a size`}},
		{"a size in bytes", "max-body: 1048576", nil},
		{"a number that is none", "max-connections: 1.5", []string{`1:18: `}},
		{"yes", "require-key: yes", []string{`1:14: "yes" is neither true nor false`}},
		{"a word that is not known", "on-lease-end: explode", []string{`1:15: "explode" is not known here: want one of hold, rerun`}},
		{"the admin token", "admin-token: zq-token-0123456789abcdef", []string{`1:14: admin-token: a secret has no place`}},
		{"another file", "config: b.yaml", []string{`1:9: config: a file does not name another`}},
		{"check-config", "check-config: true", []string{`1:15: check-config: it belongs on the command line`}},
		{"routes that are no list", "routes: {}", []string{`1:9: routes is a mapping: want a list`}},
		{"a route that is none", "routes: [a]", []string{`1:10: a route is a single value: want a mapping with keys of drop-answers, `}},
		{"an empty route", "routes:\n- {}", []string{`2:3: the key "name" is missing`, `2:3: the key "match" is missing`}},
		{"a match without a path", "routes:\n- name: a\n  match: {methods: [POST]}", []string{`3:10: the key "path" is missing`}},
		{"mistakes in two routes", "routes:\n- name: a\n- nam: b\n  match: {path: /b}", []string{`2:3: the key "match"`, `3:3: unknown key "nam" in a route: did you mean "name"?`, `3:3: the key "name" is missing`}},

		{"an anchor", "lease: &a 1m", []string{`1:8: anchors, aliases and merge keys are not read`}},
		{"an alias", "lease: *a", []string{`1:8: anchors`}},
		{"a merge key", "<<: {a: b}", []string{`1:1: anchors`}},
		{"a tag", "lease: !!str 1m", []string{`1:8: tags and directives are not read`}},
		{"a directive", "%YAML 1.2\n---\nlease: 1m", []string{`1:1: tags and directives`}},
		{"a question mark", "? lease\n: 1m", []string{`1:1: keys behind a question mark`}},
		{"two documents", "---\nlease: 1m\n---\nlease: 2m", []string{`3:1: the file holds more than one document`}},
		{"an open bracket", "lease: [1m", []string{`1:8: the file is no valid YAML: `}},
		{"a tab", "routes:\n\t- name: a", []string{`2:1: the file is no valid YAML: `}},
		{"too deep", strings.Repeat("[", 10_000), []string{`1:17: lists and mappings stand too deep`}},
		{"too deep in hyphens", strings.Repeat("- ", 10_000), []string{`1:33: lists and mappings stand too deep`}},
		{"too long", strings.Repeat("a: b\n", 60_000), []string{`16667:`}},
		{"no UTF-8", "lease: \xff", []string{`1:8: `}},

		{"pointers that cover each other", inRoute("fingerprint: {mode: json, exclude: [/a, /a/b]}"), []string{`4:16: canonical JSON: exclude: JSON pointer "/a/b" leads into`}},
		{"a preset", inRoute("preset: paypal"), []string{`4:11: "paypal" is not known here: want one of ietf, ietf-strict, stripe`}},
		{"a scope", inRoute("scope: tenant"), []string{`4:10: "tenant" is no scope: want shared, or header:NAME`}},
		{"a scope without a name", inRoute("scope: 'header:'"), []string{`4:10: "header:" is no scope`}},
		{"a scope of no header", inRoute("scope: 'header:a b'"), []string{`4:10: "header:a b" is no scope`}},
		{"no place for the key", inRoute("key: {}"), []string{`4:8: key: want one place`}},
		{"two places for the key", inRoute("key: {query: k, pointer: /k}"), []string{`4:8: key: want one place`}},
		{"a header that is none", inRoute("key: {headers: [a b]}"), []string{`4:19: "a b" is no name of a header`}},
		{"a pointer that is none", inRoute("key: {pointer: order}"), []string{`4:18: "order" is no JSON pointer`}},
		{"a pointer with a bare tilde", inRoute("key: {pointer: /a~2}"), []string{`4:18: "/a~2" is no JSON pointer`}},
		{"no mode", inRoute("fingerprint: {exclude: [/a]}"), []string{`4:16: the key "mode" is missing`}},
		{"a mode", inRoute("fingerprint: {mode: md5}"), []string{`4:23: "md5" is not known here`}},
		{"exclude with another mode", inRoute("fingerprint: {mode: raw, exclude: [/a]}"), []string{`4:37: exclude goes with mode json only`}},
		{"selected with another mode", inRoute("fingerprint: {mode: raw, selected: [/a]}"), []string{`4:23: mode selected and the key selected go together`}},
		{"selected alone", inRoute("fingerprint: {mode: selected}"), []string{`4:23: mode selected and the key selected`}},
		{"recover without on-lease-end", inRoute("recover: {path: '/c?k={key}', happened: 200}"), []string{`4:12: recover says how to ask what happened, and on-lease-end does not say to`}},
		{"recover with another on-lease-end", inRoute("on-lease-end: rerun\nrecover: {path: '/c?k={key}', happened: 200}"), []string{`5:12: recover says how to ask`}},
		{"on-lease-end without recover", inRoute("on-lease-end: recover"), []string{`4:17: on-lease-end: recover wants to ask what happened`}},
		{"recover without a path", inRoute("on-lease-end: recover\nrecover: {happened: 200}"), []string{`5:12: the key "path" is missing`}},
		{"recover that asks about no key", inRoute("on-lease-end: recover\nrecover: {path: /c, happened: 200}"), []string{`5:19: want a path like /charges?key={key}`}},
		{"recover that learns nothing", inRoute("on-lease-end: recover\nrecover: {path: '/{key}'}"), []string{`5:12: recover: want a status that says what became of it`}},
		{"one status for both", inRoute("on-lease-end: recover\nrecover: {path: '/{key}', happened: [200, 404], absent: 404}"), []string{`5:59: status 404 cannot mean both`}},
		{"recover by POST", inRoute("on-lease-end: recover\nrecover: {path: '/{key}', method: POST, absent: 404}"), []string{`5:37: "POST" is not known here: want one of GET, HEAD`}},
		{"honours-keys and no key", inRoute("honours-keys: true\nforward-key: none"), []string{`5:16: honours-keys needs the key upstream`}},
		{"honours-keys and rerun", inRoute("honours-keys: true\non-lease-end: rerun"), []string{`4:17: honours-keys has an unknown outcome sent again`}},
		{"honours-keys and recover", inRoute("honours-keys: true\non-lease-end: recover\nrecover: {path: '/{key}', happened: 200}"), []string{`4:17: honours-keys has an unknown outcome sent again`}},
		{"honours-keys that are off", inRoute("honours-keys: false\nforward-key: none"), nil},
		{"an answer that is not kept", inRoute("drop-answers: true\non-lease-end: recover\nrecover: {path: '/{key}', happened: 200, answer: body}"), []string{`6:52: drop-answers keeps no answer`}},
		{"a status", inRoute("outcomes: {99: hold, abc: keep, 503: keep, 503: hold}"), []string{`4:14: "99" is no status`, `4:24: "abc" is no status`, `4:46: "503" is no status, or stands there twice`}},
		{"an outcome", inRoute("outcomes: {503: retry}"), []string{`4:19: "retry" is not known here: want one of hold, release, keep`}},
		{"no outcomes", inRoute("outcomes: {}"), []string{`4:13: outcomes: want a mapping`}},
		{"retention of nothing", inRoute("retention: 0s"), []string{`4:14: 0s makes no sense here`}},
		{"remember of nothing", inRoute("remember: 0s"), nil},
		{"a key of nothing", inRoute("limits: {max-key: 0}"), []string{`4:21: "0" is no number from 1 to 65536`}},
		{"methods to guard", inRoute("methods: [GET]"), []string{`4:13: "GET" is not known here: want one of POST, PATCH, PUT, DELETE`}},
		{"unguarded, and how", inRoute("unguarded: true\nrequired: true\nwait: 1s"), []string{`5:13: the route is unguarded: leave out required`, `6:9: the route is unguarded: leave out wait`}},
		{"unguarded, with a timeout", inRoute("unguarded: true\nupstream-timeout: 1s"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := configLines(tt.text)
			fits := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				fits = fits && strings.HasPrefix(got[i], "f:"+tt.want[i])
			}
			if !fits {
				t.Errorf("parseConfig:\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// docConfig is the file of docs/operate.md.
func docConfig(t testing.TB) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/operate.md has no yaml block")
	}
	return text
}

// What the documentation shows is right, to the last check.
func TestDocumentedConfig(t *testing.T) {
	text := docConfig(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"gateway.yaml": text, "forward-key": strings.Repeat("0a", 32)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var c cli
	if _, err := newParser(&c).Parse([]string{"gateway", "--config", "gateway.yaml"}); err != nil {
		t.Fatalf("the file of docs/operate.md: %v", err)
	}
	if _, err := c.Gateway.check(nil); err != nil {
		t.Errorf("the file of docs/operate.md: %v", c.Gateway.file.locate(err))
	}
}

// Every key of a route stands in the table of the documentation, and is read into something.
func TestEveryRouteKeyIsDocumentedAndRead(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, all, _ := strings.Cut(configLines("routes: [a]")[0], "keys of ")
	for key := range strings.SplitSeq(all, ", ") {
		if !slices.ContainsFunc(strings.Split(string(doc), "\n"), func(line string) bool {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			return strings.HasPrefix(line, "| ") && strings.Contains(first, "`"+key+"`")
		}) {
			t.Errorf("docs/operate.md has no row for %s", key)
		}
	}
	full := "routes:\n- {name: a, match: {path: /a, methods: [POST]}, required: true, preset: ietf, scope: shared, key: {headers: [A]}, methods: [POST],\n" +
		"  fingerprint: {mode: json, exclude: [/a]}, on-lease-end: recover, recover: {path: '/{key}', method: GET, happened: 200, absent: 404, answer: none},\n" +
		"  two-step: true, outcomes: {503: hold}, limits: {max-key: 1, max-body: 1, max-response: 1}, retention: 1s, remember: 1s, wait: 1s, lease: 1s,\n" +
		"  forward-key: same, honours-keys: false, drop-answers: true, upstream-timeout: 1s}\n" +
		"- {name: b, match: {path: /b}, key: {query: k}, fingerprint: {mode: selected, selected: [/a]}}\n" +
		"- {name: c, match: {path: /c}, key: {pointer: /k}}\n- {name: d, match: {path: /d}, key: {fields: [/k]}}\n- {name: e, match: {path: /e}, unguarded: true}\n"
	f, err := parseConfig("f", full, configFlags())
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, c := range f.routes {
		wasRead(read, "", reflect.ValueOf(c))
	}
	for name, given := range read {
		if !given {
			t.Errorf("no key is read into %s", name)
		}
	}
	if len(read) < 25 {
		t.Errorf("found %d settings, want all", len(read))
	}
}

// wasRead notes for every setting in v whether it was given, now or before.
func wasRead(read map[string]bool, name string, v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	if given := v.FieldByName("given"); given.IsValid() && v.FieldByName("value").IsValid() {
		read[name] = read[name] || given.Bool()
		return
	}
	for i := range v.NumField() {
		wasRead(read, name+"."+v.Type().Field(i).Name, v.Field(i))
	}
}

// The command line wins over the environment, and that over the file.
func TestConfigPrecedence(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(name, []byte("upstream: http://file:1\nlease: 1s\nretention: 1s\nwait: 1s\nrequire-key: true\ntrust-proxy: [10.0.0.0/8, 192.168.0.0/16]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RETRYSAFE_CONFIG", name)
	t.Setenv("RETRYSAFE_LEASE", "2s")
	t.Setenv("RETRYSAFE_WAIT", "2s")
	var c cli
	if _, err := newParser(&c).Parse([]string{"gateway", "--wait", "3s"}); err != nil {
		t.Fatal(err)
	}
	g := c.Gateway
	got := []any{g.Upstream, g.Retention, g.Lease, g.Wait, g.RequireKey, g.TrustProxy, g.remember()}
	want := []any{"http://file:1", duration(1e9), duration(2e9), duration(3e9), true, []string{"10.0.0.0/8", "192.168.0.0/16"}, 30 * 24 * time.Hour}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("file, file, environment, flag, file, file, default: got %v, want %v", got, want)
	}
	for flag, want := range map[string]bool{"upstream": true, "lease": false, "wait": false} {
		if got := g.file.flags[flag].used; got != want {
			t.Errorf("%s: taken from the file: %v, want %v", flag, got, want)
		}
	}
}

// What a route does not say of its claims is as the flags say; stripe forgets.
func TestRoutePolicy(t *testing.T) {
	c := &gatewayCmd{Lease: duration(time.Second), Retention: duration(time.Minute), Remember: optional{true, duration(time.Hour)}, OnLeaseEnd: endHold}
	tests := []struct {
		name, lines string
		want        retrysafe.Policy
	}{
		{"nothing", "", retrysafe.Policy{Lease: time.Second, Retention: time.Minute, Remember: time.Hour}},
		{"all", "lease: 2s\nretention: 2m\nremember: 2h\non-lease-end: rerun", retrysafe.Policy{OnLeaseEnd: retrysafe.Rerun, Lease: 2 * time.Second, Retention: 2 * time.Minute, Remember: 2 * time.Hour}},
		{"remember nothing", "remember: 0s", retrysafe.Policy{Lease: time.Second, Retention: time.Minute}},
		{"stripe", "preset: stripe", retrysafe.Policy{Lease: time.Second, Retention: time.Minute}},
		{"stripe, told to remember", "preset: stripe\nremember: 2h", retrysafe.Policy{Lease: time.Second, Retention: time.Minute, Remember: 2 * time.Hour}},
		{"two steps", "two-step: true", retrysafe.Policy{TwoStep: true, Lease: time.Second, Retention: time.Minute, Remember: time.Hour}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parseConfig("f", inRoute(tt.lines), configFlags())
			if err != nil {
				t.Fatal(err)
			}
			if got := c.policyOf(&f.routes[0]); *got != tt.want {
				t.Errorf("policy of a route that says %q: got %+v, want %+v", tt.lines, *got, tt.want)
			}
		})
	}
}

// What a route says of recovery is what the gateway asks; two tenants whose keys are the same are kept apart.
func TestRouteProbe(t *testing.T) {
	const ends = "on-lease-end: recover\n"
	for _, tt := range []struct {
		lines, scope string
		want         *gateway.Probe
		wrong        string
	}{
		{"wait: 1s", "", nil, ""},
		{ends + "recover: {path: '/{key}', happened: [200, 201], absent: 404}", "", &gateway.Probe{Path: "/{key}", Happened: []int{200, 201}, Absent: []int{404}}, ""},
		{ends + "recover: {path: '/{key}', method: HEAD, happened: 200, answer: none}", "", &gateway.Probe{Method: "HEAD", Path: "/{key}", Happened: []int{200}, DropAnswer: true}, ""},
		{ends + "recover: {path: '/{key}', happened: 200}", "X-Tenant", nil, "f:5:19: the keys of two tenants may be the same"},
		{ends + "recover: {path: '/{scope}/{key}', happened: 200}", "X-Tenant", &gateway.Probe{Path: "/{scope}/{key}", Happened: []int{200}}, ""},
		{ends + "recover: {path: '/{key}', happened: 200}\nscope: shared", "X-Tenant", &gateway.Probe{Path: "/{key}", Happened: []int{200}}, ""},
		{ends + "recover: {path: '/{key}', happened: 200}\nforward-key: derived", "X-Tenant", &gateway.Probe{Path: "/{key}", Happened: []int{200}}, ""},
		{ends + "recover: {path: '/{key}', happened: 200}\nscope: 'header:X-User'", "", nil, "f:5:19: the keys of two tenants may be the same"},
	} {
		f, err := parseConfig("f", inRoute(tt.lines), configFlags())
		if err != nil {
			t.Fatalf("%s: %v", tt.lines, err)
		}
		c := &gatewayCmd{file: f, scopeFlags: scopeFlags{ScopeHeader: tt.scope}, ForwardKeySecret: "a file", MaxBodies: 1 << 30, OnLeaseEnd: endHold}
		routes, err := c.gatewayRoutes(nil)
		if tt.wrong != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.wrong) {
				t.Errorf("%s, scope header %q: %v, want %q", tt.lines, tt.scope, err, tt.wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(routes[0].Probe, tt.want) {
			t.Errorf("%s: got probe %+v, %v, want %+v", tt.lines, routes[0].Probe, err, tt.want)
		}
	}
}

// What a route says of the key that goes upstream needs a secret, and a key that can be kept from it.
func TestRouteForwardKey(t *testing.T) {
	secret := keyFile(t, "1a")
	for _, tt := range []struct{ lines, secret, wrong string }{
		{"forward-key: derived", secret, ""},
		{"forward-key: none", "", ""},
		{"forward-key: derived", "", "f:4:16: keys are derived by a secret: give --forward-key-secret"},
		{"forward-key: none\nkey: {query: k}", "", "f:4:16: the key stands in the query or the body"},
	} {
		f, err := parseConfig("f", inRoute(tt.lines), configFlags())
		if err != nil {
			t.Fatalf("%s: %v", tt.lines, err)
		}
		var c cli
		if _, err := newParser(&c).Parse([]string{"gateway", "--upstream", "http://127.0.0.1:1", "--forward-key-secret=" + tt.secret}); err != nil {
			t.Fatal(err)
		}
		c.Gateway.file = f
		_, err = c.Gateway.check(nil)
		if err = f.locate(err); tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.wrong)) {
			t.Errorf("%s, secret %q: %v, want %q", tt.lines, tt.secret, err, tt.wrong)
		}
	}
}

func TestReloadableFlagsAreFlags(t *testing.T) {
	for _, name := range reloadable {
		if configFlags()[name] == nil {
			t.Errorf("%s may be reloaded and is no flag of the gateway", name)
		}
	}
}

// FuzzConfig: whatever a file holds, reading it ends, in a configuration or in mistakes that say where.
func FuzzConfig(f *testing.F) {
	f.Add(docConfig(f))
	f.Add(inRoute("outcomes: {503: hold}"))
	f.Add("lease: 1m\nlease: 2m\n")
	flags := configFlags()
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		_, err := parseConfig("f", text, flags)
		if err == nil {
			return
		}
		e, ok := errors.AsType[*configError](err)
		if !ok || len(e.mistakes) == 0 {
			t.Fatalf("got %v, want mistakes with their places", err)
		}
		for _, m := range e.mistakes {
			if m.at.line < 1 || m.at.line > lines || m.at.column < 1 || strings.TrimSpace(m.text) == "" {
				t.Errorf("in a file of %d lines: got %+v", lines, m)
			}
		}
	})
}
