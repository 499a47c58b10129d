package main

import (
	"os"
	"path/filepath"
	"testing"
)

// writeConfig puts a file where one may stand already, in one step.
func writeConfig(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// What the routes of a file say is what the gateway does.
func TestRoutesOfAFile(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeConfig(t, file, `
require-key: true
max-body: 1KiB
routes:
  - name: tenants
    match: {path: "/charges", methods: [POST]}
    scope: header:X-Tenant
    limits: {max-key: 8}
  - name: open
    match: {path: "/open/{rest...}"}
    required: false
  - name: hooks
    match: {path: "/hooks/{rest...}"}
    unguarded: true
`)
	l := startGateway(t, api.url, "--config", file)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a")
	first.wantStatus(t, 201)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a").wantReplayOf(t, first)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 401, "scope-missing")
	l.send(t, "POST", "/charges", "zq-key-12", charge(1), "X-Tenant", "zq-tenant-a").wantProblem(t, 400, "key-invalid")
	l.send(t, "POST", "/charges", "", charge(1)).wantProblem(t, 400, "key-missing")
	l.send(t, "POST", "/%63harges", "", charge(1)).wantProblem(t, 400, "path-ambiguous")
	l.send(t, "POST", "/elsewhere", "", charge(1)).wantProblem(t, 400, "key-missing")
	l.send(t, "POST", "/open/a", "", charge(1)).wantStatus(t, 404) // the API's own answer: it passed
	l.send(t, "POST", "/hooks/a", "zq-key-2", charge(1)).wantStatus(t, 404)
	l.wantClaims(t, map[string]int{"won": 1, "replay": 1})

	lax := startGateway(t, api.url, "--config", file, "--allow-ambiguous-paths")
	lax.send(t, "POST", "/%63harges", "", charge(1)).wantProblem(t, 400, "key-missing")
}
