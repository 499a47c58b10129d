package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// The whole life of a key, in front of a real API.
func TestGatewayGuards(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := startGateway(t, api.url, "--require-key", "--docs-base", "https://docs.example.com/r")

	first := l.send(t, "POST", "/charges", `"zq-key-1"`, charge(1000))
	first.wantStatus(t, 201)
	l.send(t, "POST", "/charges", `"zq-key-1"`, charge(1000)).wantReplayOf(t, first)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1000)).wantReplayOf(t, first) // bare is the same key
	if got := api.count(t); got != 1 {
		t.Errorf("got %d charges after one key sent three times, want 1", got)
	}

	other := l.send(t, "POST", "/charges", `"zq-key-1"`, charge(1001))
	other.wantProblem(t, 422, "key-reused")
	if want := `"type":"https://docs.example.com/r/protocol.md#key-reused"`; !strings.Contains(other.body, want) {
		t.Errorf("with --docs-base: got %s, want %s in it", other.body, want)
	}
	l.send(t, "POST", "/charges", "", charge(1000)).wantProblem(t, 400, "key-missing")
	l.send(t, "POST", "/charges", `"zq-key`, charge(1000)).wantProblem(t, 400, "key-invalid")
	l.send(t, "GET", "/totals?customer=zq-body-c1", "", "").wantStatus(t, 200) // guards no GET
	if got := api.count(t); got != 1 {
		t.Errorf("got %d charges after requests that must be refused, want 1", got)
	}

	invalid := l.send(t, "POST", "/charges", "zq-key-2", charge(-1))
	invalid.wantStatus(t, 400) // the API's own answer is an answer
	l.send(t, "POST", "/charges", "zq-key-2", charge(-1)).wantReplayOf(t, invalid)

	l.wantClaims(t, map[string]int{"won": 2, "replay": 3, "mismatch": 1, "busy": 0, "outcome_unknown": 0})
}

// wantClaims checks the claims that /metrics counts by verdict.
func (l *lab) wantClaims(t *testing.T, want map[string]int) {
	t.Helper()
	metrics := l.get(t, "/metrics", true)
	for verdict, n := range want {
		line := fmt.Sprintf("retrysafe_claims_total{verdict=%q} %d\n", verdict, n)
		if !strings.Contains(metrics.body, line) {
			t.Errorf("GET /metrics: got\n%s\nwant the line %s", strings.Join(regexp.MustCompile("(?m)^retrysafe_claims.*$").FindAllString(metrics.body, -1), "\n"), line)
		}
	}
}

func TestAdminListener(t *testing.T) {
	t.Parallel()
	l := startGateway(t, "http://127.0.0.1:9", "--admin-host", "gateway.internal")
	for _, path := range []string{"/metrics", "/api/keys"} {
		l.get(t, path, false).wantProblem(t, 401, "unauthorized")
		l.get(t, path, true).wantStatus(t, 200)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		l.get(t, path, false).wantStatus(t, 200)
	}
	for host, want := range map[string]int{"gateway.internal:8081": 200, "example.com": 421} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", l.admin+"/api/keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := do(l.client, r)
		if err != nil {
			t.Fatal(err)
		}
		a.wantStatus(t, want)
	}
}

// The key reaches nobody before a byte has left: the caller is told so, and may send again.
func TestUpstreamThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	l := startGateway(t, gone.URL)
	for range 2 {
		l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 502, "upstream-unreachable")
	}
	l.wantClaims(t, map[string]int{"won": 2, "outcome_unknown": 0})
}

// Two tenants may use one key; who does not say whose it is, or may not say it, runs nothing.
func TestTenants(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := startGateway(t, api.url, "--scope-header", "x-tenant")
	if strings.Contains(l.stderr.String(), "share one scope") {
		t.Errorf("with --scope-header the gateway says:\n%s", l.stderr)
	}
	one := l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a")
	two := l.send(t, "POST", "/charges", "zq-key-1", charge(2), "X-Tenant", "zq-tenant-b")
	one.wantStatus(t, 201)
	two.wantStatus(t, 201)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a").wantReplayOf(t, one)
	l.send(t, "POST", "/charges", "zq-key-1", charge(2), "X-Tenant", "zq-tenant-b").wantReplayOf(t, two)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 401, "scope-missing")
	if got := api.count(t); got != 2 {
		t.Errorf("got %d charges, want 2: one a tenant", got)
	}

	far := startGateway(t, api.url, "--scope-header", "X-Tenant", "--trust-proxy", "10.0.0.0/8,192.168.1.1")
	far.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a").wantProblem(t, 401, "scope-missing")
	near := startGateway(t, api.url, "--scope-header", "X-Tenant", "--trust-proxy", "10.0.0.0/8", "--trust-proxy", "127.0.0.1")
	near.send(t, "POST", "/charges", "zq-key-1", charge(1), "X-Tenant", "zq-tenant-a").wantStatus(t, 201)
}

func TestSharedScopeIsSaid(t *testing.T) {
	t.Parallel()
	startGateway(t, "http://127.0.0.1:9").stderr.await(t, "^retrysafe: all callers share one scope: set --scope-header ")
}

// An address that is taken is no mistake of the command line: it was tried.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--admin"} {
		addresses := map[string]string{"--listen": "127.0.0.1:0", "--admin": "127.0.0.1:0", flag: taken.Addr().String()}
		var stderr bytes.Buffer
		got := run(t.Context(), []string{"gateway", "--upstream", "http://127.0.0.1:9", "--admin-token", token,
			"--listen", addresses["--listen"], "--admin", addresses["--admin"]}, nil, io.Discard, &stderr)
		want := regexp.MustCompile(`^retrysafe: ` + flag + `: listen tcp ` + regexp.QuoteMeta(taken.Addr().String()) + `: .*: choose another address, or stop what listens there\n$`)
		if got != exitError || !want.MatchString(stderr.String()) {
			t.Errorf("gateway with %s in use: got status %d and %q, want %d and %v", flag, got, &stderr, exitError, want)
		}
	}
}

// A gateway that is given no token makes one, for its owner's eyes only, and finds it again at the next start.
func TestTokenFile(t *testing.T) {
	t.Chdir(t.TempDir())
	args := []string{"gateway", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "memory:"}
	l := startBare(t, args...)
	l.stderr.await(t, `^retrysafe: the admin token is in \./retrysafe-admin-token$`)
	info, err := os.Stat(defaultTokenFile)
	if err != nil || info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Fatalf("the token file: got %v, %v, want mode 0600", info, err)
	}
	made, err := os.ReadFile(defaultTokenFile)
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{64}\n$`).Match(made) {
		t.Fatalf("the token file: got %d bytes, %v, want 64 random digits", len(made), err)
	}
	secret := strings.TrimSpace(string(made))
	list := func(l *lab) int {
		var out, stderr bytes.Buffer
		status := run(t.Context(), []string{"key", "list", "--admin", l.admin}, nil, &out, &stderr)
		if flaw := leak(out.String()+stderr.String()+l.stderr.String(), []string{secret}); flaw != "" {
			t.Errorf("what was said %s", flaw)
		}
		return status
	}
	if got := list(l); got != exitOK {
		t.Errorf("key list beside the token file: got status %d, want 0", got)
	}
	again := startBare(t, args...)
	again.stderr.await(t, `^retrysafe: the admin token is in \./retrysafe-admin-token$`)
	if kept, err := os.ReadFile(defaultTokenFile); err != nil || !bytes.Equal(kept, made) {
		t.Errorf("the token file after the next start: got %v, changed %t", err, !bytes.Equal(kept, made))
	}
	if got := list(again); got != exitOK {
		t.Errorf("key list after the next start: got status %d, want 0", got)
	}
}

// A fingerprint key file is read at start. What it changes shows only in a store that outlives its gateway, which
// the store in memory does not.
func TestFingerprintKeysAreTaken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Repeat("0f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := startGateway(t, startPayments(t).url, "--fingerprint-keys", file)
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(1))
	first.wantStatus(t, 201)
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantReplayOf(t, first)
	l.send(t, "POST", "/charges", "zq-key-1", charge(2)).wantProblem(t, 422, "key-reused")
}

// --log-format json: what is logged is one JSON object a line.
func TestLogsAsJSON(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	api.breakOff(true)
	l := startGateway(t, api.url, "--log-format", "json")
	l.send(t, "POST", "/charges", "zq-key-1", charge(1)).wantProblem(t, 502, "outcome-unknown")
	line := l.stderr.await(t, `^\{.*its answer is lost.*\}$`)[0]
	var logged struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(line), &logged); err != nil || logged.Level != "ERROR" || logged.Msg == "" {
		t.Errorf("logged %q: got %+v, %v, want an error with a message", line, logged, err)
	}
}
