package main

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// wrongValues holds, for each flag of the gateway, a value that it must refuse: what shows that the environment
// reached it. A flag without a row fails TestEnvironment.
var wrongValues = map[string]string{
	"config":                "testdata/missing",
	"check-config":          "maybe",
	"json":                  "maybe",
	"allow-ambiguous-paths": "maybe",
	"upstream":              "ftp://127.0.0.1",
	"listen":                "localhost",
	"admin":                 "localhost",
	"store":                 "files:",
	"preset":                "draft",
	"require-key":           "maybe",
	"upstream-keep-alive":   "maybe",
	"wait":                  "5y",
	"lease":                 "5y",
	"retention":             "5y",
	"remember":              "5y",
	"on-lease-end":          "recover",
	"record-wait":           "5y",
	"scope-header":          "X Tenant",
	"trust-proxy":           "10.0.0.0/40",
	"max-body":              "10m",
	"max-bodies":            "1MiB",
	"max-response":          "10m",
	"max-connections":       "0",
	"no-specification":      "maybe",
	"quota-rate":            "-1",
	"quota-burst":           "-1",
	"quota-in-flight":       "-1",
	"cors-origin":           "shop.example.com",
	"cors-credentials":      "maybe",
	"body-timeout":          "5y",
	"write-timeout":         "5y",
	"upstream-timeout":      "5y",
	"upstream-idle":         "5y",
	"drain-timeout":         "5y",
	"admin-host":            "a:1",
	"admin-token":           "zq-short",
	"admin-token-file":      "testdata/missing",
	"fingerprint-keys":      "testdata/missing",
	"answer-keys":           "testdata/missing",
	"forward-key-secret":    "testdata/missing",
	"docs-base":             "docs",
	"log-format":            "xml",
	"scope":                 "mine",
	"scope-jwt":             "sub",
	"jwks":                  "testdata/missing",
	"issuer":                "https://id.example",
	"audience":              "payments",
	"scope-mtls":            "uri",
	"tls-cert":              "testdata/missing",
	"tls-key":               "testdata/missing",
	"client-ca":             "testdata/missing",
	"upstream-ca":           "testdata/missing",
	"upstream-cert":         "testdata/missing",
	"upstream-key":          "testdata/missing",
	"upstream-http2":        "maybe",
}

func TestEnvironment(t *testing.T) {
	flags := gatewayFlags(t)
	for _, name := range slices.Sorted(maps.Keys(wrongValues)) {
		if !slices.Contains(flags, name) {
			t.Errorf("wrongValues has a row for --%s, which is no flag of the gateway", name)
		}
	}
	var help bytes.Buffer
	run(t.Context(), []string{"gateway", "--help"}, nil, &help, &help)
	for _, name := range flags {
		variable := "RETRYSAFE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		t.Run(variable, func(t *testing.T) {
			wrong, ok := wrongValues[name]
			if !ok {
				t.Fatalf("--%s has no row in wrongValues: add a value that it must refuse", name)
			}
			if !strings.Contains(help.String(), "$"+variable+")") {
				t.Errorf("gateway --help does not name %s", variable)
			}
			for rest, value := range map[string]string{"RETRYSAFE_UPSTREAM": "http://127.0.0.1:9090", "RETRYSAFE_LISTEN": "127.0.0.1:0", "RETRYSAFE_ADMIN": "127.0.0.1:0"} {
				t.Setenv(rest, value)
			}
			if name != "admin-token-file" {
				t.Setenv("RETRYSAFE_ADMIN_TOKEN", token)
			}
			t.Setenv(variable, wrong)
			ctx, cancel := context.WithTimeout(t.Context(), deadline) // of a gateway that starts nevertheless
			defer cancel()
			var stderr bytes.Buffer
			if got := run(ctx, []string{"gateway"}, nil, &stderr, &stderr); got != exitUsage {
				t.Errorf("gateway with %s=%s: got status %d, want %d", variable, wrong, got, exitUsage)
			}
			if flaw := refusalFlaw(stderr.String()); flaw != "" || !strings.Contains(stderr.String(), "--"+name) {
				t.Errorf("gateway with %s=%s: got %q, want one line that names --%s %s", variable, wrong, &stderr, name, flaw)
			}
		})
	}
}

// gatewayFlags are the names of all flags of the gateway, as the command line itself knows them.
func gatewayFlags(t *testing.T) (names []string) {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.NamedMapper("redacted", redactedMapper{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name != "gateway" {
			continue
		}
		for _, flag := range node.Flags {
			names = append(names, flag.Name)
		}
	}
	if len(names) < 20 {
		t.Fatalf("got the gateway's flags %q, want all of them", names)
	}
	return names
}

// The environment is as good as a flag, and a flag wins over it.
func TestEnvironmentStarts(t *testing.T) {
	t.Setenv("RETRYSAFE_UPSTREAM", "ftp://127.0.0.1")
	t.Setenv("RETRYSAFE_ADMIN_TOKEN", token)
	t.Setenv("RETRYSAFE_ADMIN", "http://127.0.0.1:0") // with the scheme, as the key commands take it
	t.Setenv("RETRYSAFE_LISTEN", "127.0.0.1:0")
	t.Setenv("RETRYSAFE_STORE", "pebble:"+t.TempDir())
	t.Setenv("RETRYSAFE_REQUIRE_KEY", "true")
	l := startBare(t, "gateway", "--upstream", startPayments(t).url)
	l.send(t, "POST", "/charges", "", charge(100)).wantProblem(t, 400, "key-missing")
	l.send(t, "POST", "/charges", "zq-key", charge(100)).wantStatus(t, 201)
	if got := l.get(t, "/api/keys", true); got.status != 200 {
		t.Errorf("GET /api/keys with the token of the environment: got %v", got)
	}
}

// What is decided over a key comes from the command line alone: a variable that somebody set for another command must
// not force anything, nor choose a store to be copied.
func TestDecisionsAreNotTakenFromTheEnvironment(t *testing.T) {
	for _, args := range [][]string{{"key", "resolve"}, {"key", "forget"}, {"store", "backup"}} {
		var help bytes.Buffer
		run(t.Context(), append(args, "--help"), nil, &help, &help)
		for _, name := range []string{"FORCE", "REASON", "COMPLETE", "RELEASE", "STATUS", "HEADER", "BODY", "ID", "KEY", "STORE", "DIR"} {
			if strings.Contains(help.String(), "$RETRYSAFE_"+name+")") {
				t.Errorf("%v takes RETRYSAFE_%s", args, name)
			}
		}
		if !strings.Contains(help.String(), "$RETRYSAFE_ADMIN)") {
			t.Errorf("%v --help names no variable: the test looks for the wrong text", args)
		}
	}
	l := startGateway(t, startPayments(t).url)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1000)).wantStatus(t, 201)
	for name, value := range map[string]string{"FORCE": "true", "RELEASE": "true", "REASON": "none", "KEY": "zq-key-1"} {
		t.Setenv("RETRYSAFE_"+name, value)
	}
	l.key(t, "resolve", "--key", "zq-key-1", "--release", "--by", "bob", "--reason", "a test").wantRefused(t, exitError, "--force")
}
