package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// S13: whatever callers and upstreams send, and however it fails, nothing of it is said again. Every text that they
// can choose holds zq- here: keys, tenants, bodies, queries, headers, methods, paths and answers.

// A hostile upstream answers by path; what it sends is full of canaries, too.
func hostileUpstream(t *testing.T) (url string, arrived <-chan struct{}, release func()) {
	t.Helper()
	blocked, gate := make(chan struct{}, 1), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Answer", "zq-header")
		switch r.URL.Path {
		case "/zq-path/fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "/zq-path/garbage":
			raw(w, "HTTP/1.1 zq-body 200 zq-body\r\n\r\n")
		case "/zq-path/header":
			raw(w, "HTTP/1.1 200 OK\r\nzq-header zq-body\r\n\r\n")
		case "/zq-path/length":
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: zq-body\r\n\r\n")
		case "/zq-path/short":
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nzq-body")
		case "/zq-path/stream":
			raw(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nzq-body\r\nzq-body\r\n")
		case "/zq-path/cut":
			panic(http.ErrAbortHandler)
		case "/zq-path/block":
			blocked <- struct{}{}
			<-gate
		}
		io.WriteString(w, "zq-body")
	}))
	release = func() { close(gate) }
	t.Cleanup(up.Close)
	return up.URL, blocked, release
}

// raw answers over the bare connection, and closes it.
func raw(w http.ResponseWriter, answer string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(c, answer)
	c.Close()
}

// shout sends bytes over a connection of their own and returns what comes back. Unless whole, its sending side is closed before the
// what it promised was sent.
func (l *lab) shout(t *testing.T, text string, whole bool) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	io.WriteString(c, text)
	if !whole {
		c.(*net.TCPConn).CloseWrite()
	}
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// hostile is a request as hostile callers write it. It asks to be the last of its connection.
func hostile(method, path, body string, lines ...string) string {
	head := fmt.Sprintf("%s /zq-path/%s?zq-query=zq-query HTTP/1.1\r\nHost: zq-header\r\nConnection: close\r\nX-Api-Key: zq-header\r\n", method, path)
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return head + strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

func TestNothingThatCallersSendIsSaid(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			to, arrived, release := hostileUpstream(t)
			l := startGateway(t, to, "--log-format", format, "--scope-header", "X-Tenant", "--max-body", "1KiB", "--quota-rate", "0.001")
			l.wantSaid(t, 429, hostile("POST", "quota", "zq-body", "Idempotency-Key: zq-key-1", "X-Tenant: zq-tenant-q"), hostile("POST", "quota", "zq-body", "Idempotency-Key: zq-key-2", "X-Tenant: zq-tenant-q"))
			l.wantSilent(t)

			l = startGateway(t, to, "--log-format", format, "--scope-header", "X-Tenant", "--max-body", "1KiB", "--require-key")
			key, tenant := "Idempotency-Key: zq-key-", "X-Tenant: zq-tenant"
			for status, requests := range map[int][]string{
				400: {
					hostile("POST", "a", "zq-body", tenant),
					hostile("POST", "a", "zq-body", `Idempotency-Key: "zq-key`, tenant),
					hostile("POST", "a", "zq-body", "Idempotency-Key: zq-key,zq-key", tenant),
					hostile("POST", "a", "zq-body", "Idempotency-Key: zq-key-\xff", tenant),
					hostile("POST", "a", "zq-body", key+"1", key+"2", tenant),
					hostile("POST", "a", "zq-body", key+strings.Repeat("x", 300), tenant),
					hostile("post", "a", "zq-body", key+"1", tenant),
					hostile("POST", "a", "", key+"1", tenant, "Upgrade: zq-header"),
					hostile("POST", "a", "", key+"1", tenant, "zq-header zq-header"),
					hostile("POST", "a", "", key+"1", tenant, "Content-Length: zq-body"),
					"zq-body zq-body zq-body\r\n\r\n",
					"POST /zq-path HTTP/1.1\r\nHost: a\r\nHost: zq-header\r\n\r\n",
				},
				401: {hostile("POST", "a", "zq-body", key+"1"), hostile("POST", "a", "zq-body", key+"1", tenant, "Connection: X-Tenant"), hostile("POST", "a", "zq-body", key+"1", tenant, tenant)},
				413: {hostile("POST", "a", strings.Repeat("zq-body", 200), key+"1", tenant)},
				422: {hostile("POST", "reused", "zq-body-1", key+"reused", tenant), hostile("POST", "reused", "zq-body-2", key+"reused", tenant)},
				425: {hostile("POST", "a", "zq-body", key+"1", tenant, "Early-Data: zq-header")},
				431: {hostile("POST", "a", "zq-body", key+"1", tenant, "X-Long: "+strings.Repeat("zq-header", 10_000))},
				500: {hostile("POST", "fail", "zq-body", key+"fail", tenant), hostile("POST", "fail", "zq-body", key+"fail", tenant)},
				502: {
					hostile("POST", "cut", "zq-body", key+"cut", tenant), hostile("POST", "garbage", "zq-body", key+"garbage", tenant), hostile("POST", "header", "zq-body", key+"header", tenant),
					hostile("POST", "length", "zq-body", key+"length", tenant), hostile("POST", "short", "zq-body", key+"short", tenant),
					hostile("GET", "cut", "", tenant), hostile("GET", "garbage", "", tenant), hostile("GET", "header", "", tenant), hostile("PUT", "length", "zq-body", tenant),
				},
				505: {"POST /zq-path HTTP/3.7\r\nHost: a\r\n\r\n"},
			} {
				l.wantSaid(t, status, requests...)
			}
			l.wantSaid(t, 409, hostile("POST", "cut", "zq-body", key+"cut", tenant))
			l.wantSaid(t, 200, hostile("POST", "once", "zq-body", key+"once-1", tenant), hostile("POST", "once", "zq-body", key+"once-2", tenant), hostile("POST", "stream", "zq-body", key+"stream", tenant))
			l.shout(t, hostile("POST", "a", "", key+"half", tenant, "Content-Length: 1000")+"zq-body", false)
			l.shout(t, "POST /zq-path HTTP/1.1\r\nzq-header", false)

			first := make(chan string, 1)
			go func() { first <- l.shout(t, hostile("POST", "block", "zq-body", key+"block", tenant), true) }()
			<-arrived
			l.wantSaid(t, 409, hostile("POST", "block", "zq-body", key+"block", tenant))
			release()
			<-first
			l.refusedByAdmin(t)
			l.stderr.await(t, "its answer is lost")
			l.stderr.await(t, "came under another key")
			l.stderr.await(t, "upstream failed on a request that is not guarded")
			l.wantSilent(t)
		})
	}
}

// wantSaid sends requests one after the other and expects the last to be answered with status, and every other
// with the same or with 200.
func (l *lab) wantSaid(t *testing.T, status int, requests ...string) {
	t.Helper()
	for i, request := range requests {
		got := l.shout(t, request, true)
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", status)) && (i == len(requests)-1 || !strings.HasPrefix(got, "HTTP/1.1 200 ")) {
			t.Errorf("%.200q: got %.300q, want status %d", request, got, status)
		}
	}
}

// refusedByAdmin asks the operators' listener for what it refuses.
func (l *lab) refusedByAdmin(t *testing.T) {
	t.Helper()
	for _, ask := range []struct{ method, path, body string }{
		{"GET", "/api/keys/zq-key?zq-query=zq-query", ""}, {"GET", "/zq-path", ""}, {"GET", "/api/keys?state=zq-query", ""}, {"GET", "/api/keys?cursor=zq-query", ""},
		{"POST", "/api/keys/zq-key/resolve", `{"action":"zq-body"}`}, {"POST", "/api/backup", `{"dir":"zq-body"}`}, {"POST", "/api/keys/zq-key/forget", "zq-body"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), ask.method, l.admin+ask.path, strings.NewReader(ask.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		a, err := do(l.client, r)
		if err != nil || a.status < 400 {
			t.Errorf("%s %s: got %v, %v, want it to be refused", ask.method, ask.path, a, err)
		}
		r.Header.Set("Authorization", "Bearer zq-token-wrong")
		r.Body = http.NoBody
		r.ContentLength = 0
		if a, err := do(l.client, r); err != nil || a.status != 401 {
			t.Errorf("%s %s with a wrong token: got %v, %v", ask.method, ask.path, a, err)
		}
	}
}

// wantSilent expects neither the log nor the metrics to hold anything that somebody sent.
func (l *lab) wantSilent(t *testing.T) {
	t.Helper()
	metrics := l.get(t, "/metrics", true).body
	if !regexp.MustCompile(`(?m)^retrysafe_refused_total\{code="[a-z-]+"\} [1-9]`).MatchString(metrics) {
		t.Errorf("no refusal is counted: the test shows nothing:\n%s", metrics)
	}
	for what, text := range map[string]string{"log": l.stderr.String(), "metrics": metrics} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "zq-") {
				t.Errorf("%s: %s", what, line)
			}
		}
	}
}
