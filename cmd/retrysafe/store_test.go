package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A store is copied while its gateway serves and when it is stopped; both copies, and the store, are whole; and a
// gateway on a copy replays what was answered before, and says that it goes on from a backup.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	api, folder := startPayments(t), t.TempDir()
	keys, live, cold := filepath.Join(folder, "keys"), filepath.Join(folder, "live"), filepath.Join(folder, "cold")
	command := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if got := run(t.Context(), args, nil, &out, &out); got != want {
			t.Fatalf("retrysafe %q: got status %d, want %d: %s", args, got, want, &out)
		}
		if flaw := leak(out.String(), unlogged); flaw != "" {
			t.Errorf("retrysafe %q %s: %s", args, flaw, &out)
		}
		return out.String()
	}

	l := startGateway(t, api.url, "--store", "pebble:"+keys)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1000))
	first.wantStatus(t, 201)
	remote := []string{"store", "backup", "--admin", l.admin, "--admin-token", token}
	if got := command(exitOK, append(remote, live)...); !regexp.MustCompile(`^backup in .*live, made in [0-9.]+ s\n$`).MatchString(got) {
		t.Errorf("store backup of a running gateway: got %q", got)
	}
	if got := command(exitUsage, append(remote, live)...); !strings.Contains(got, "something stands there already") {
		t.Errorf("store backup onto a backup: got %q", got)
	}
	if got := command(exitUsage, "store", "verify", "--store", "pebble:"+keys); !strings.Contains(got, "stop the gateway") {
		t.Errorf("store verify of an open store: got %q", got)
	}
	if got := command(exitUsage, "store", "backup", "--store", "pebble:"+keys, cold); !strings.Contains(got, "leave --store away") {
		t.Errorf("store backup of an open store past its gateway: got %q", got)
	}
	l.stop()
	<-l.status

	command(exitOK, "store", "backup", "--store", "pebble:"+keys, cold)
	for _, dir := range []string{keys, live, cold} {
		got := command(exitOK, "store", "verify", "--store", "pebble:"+dir)
		if !regexp.MustCompile(`(?s)^2 entries, \d+ bytes\n  completed +1\n  reserved +1\nnothing is wrong\n$`).MatchString(got) {
			t.Errorf("store verify of %s: got %q", filepath.Base(dir), got)
		}
	}
	again := filepath.Join(folder, "again") // a copy of a copy that nobody has opened yet
	command(exitOK, "store", "backup", "--store", "pebble:"+live, again)
	for _, dir := range []string{live, cold, again} {
		l := startGateway(t, api.url, "--store", "pebble:"+dir)
		l.stderr.await(t, `the store was restored from a backup`)
		l.send(t, "POST", "/charges", "zq-key-1", charge(1000)).wantReplayOf(t, first)
	}
	if got := api.count(t); got != 1 {
		t.Errorf("got %d charges of one key, want 1", got)
	}
}

// A byte that flipped is found, and named without the key's text.
func TestStoreVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	l := startGateway(t, startPayments(t).url, "--store", "pebble:"+dir)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1000)).wantStatus(t, 201)
	l.stop()
	<-l.status
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		tables, err = filepath.Glob(filepath.Join(dir, "*.log"))
	}
	if err != nil || len(tables) == 0 {
		t.Fatalf("there is nothing to damage: %v", err)
	}
	b, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("zq-key-1"))
	if at < 0 {
		at = len(b) / 2
	}
	b[at] ^= 1
	if err := os.WriteFile(tables[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if got := run(t.Context(), []string{"store", "verify", "--store", "pebble:" + dir}, nil, &out, &out); got != exitError {
		t.Errorf("store verify of a damaged store: got status %d, want %d: %s", got, exitError, &out)
	}
	if flaw := leak(out.String(), unlogged); flaw != "" {
		t.Errorf("store verify %s: %s", flaw, &out)
	}
}
