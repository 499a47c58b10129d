package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// token is the admin token of all tests. Keys begin with zq-key, bodies and tenants hold zq-body and zq-tenant,
// so that whatever should stay out of a log can be found in it.
const token = "zq-token-0123456789abcdef"

// secrets may stand in no message of a command; unlogged in nothing that a gateway says.
var (
	secrets  = []string{token}
	unlogged = []string{token, "zq-key", "zq-body", "zq-tenant"}
)

// leak says which of the texts stands in what was said.
func leak(said string, texts []string) string {
	for _, text := range texts {
		if strings.Contains(said, text) {
			return fmt.Sprintf("holds the secret %q", text)
		}
	}
	return ""
}

// A transcript is what a program writes while it runs. Readers may wait for a line.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{} // closed, and replaced, at the next write or at the end
	over bool
}

func newTranscript() *transcript { return &transcript{grew: make(chan struct{})} }

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.grew)
	s.grew = make(chan struct{})
	return s.text.Write(p)
}

// end tells readers that nothing more comes.
func (s *transcript) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	close(s.grew)
	s.grew = make(chan struct{})
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// deadline bounds every wait for something that must come, however busy the machine is.
const deadline = 20 * time.Second

// await returns the first match of pattern and of its groups, once it is there.
func (s *transcript) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	late := time.After(deadline)
	for {
		s.mu.Lock()
		match, over, grew := re.FindStringSubmatch(s.text.String()), s.over, s.grew
		s.mu.Unlock()
		if match != nil {
			return match
		}
		if over {
			t.Fatalf("it ended without saying %q; it said:\n%s", pattern, s)
		}
		select {
		case <-grew:
		case <-late:
			t.Fatalf("it does not say %q; it said:\n%s", pattern, s)
		}
	}
}

// A lab is a gateway, run as the program runs it, in this process.
type lab struct {
	url, admin string
	stderr     *transcript
	stop       context.CancelFunc // as SIGTERM does
	status     chan int           // of the exit, once
	client     *http.Client
}

// startGateway runs a gateway in front of upstream until the test ends. Then it must have exited with status 0,
// unless the test took the status, and have said no secret.
func startGateway(t *testing.T, upstream string, flags ...string) *lab {
	t.Helper()
	args := []string{"gateway", "--upstream", upstream, "--admin-token", token, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	if !slices.Contains(flags, "--store") {
		args = append(args, "--store", "pebble:"+filepath.Join(t.TempDir(), "keys"))
	}
	return startBare(t, append(args, flags...)...)
}

// startBare is startGateway with all arguments given.
func startBare(t *testing.T, args ...string) *lab {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &lab{stderr: newTranscript(), stop: stop, status: make(chan int, 1), client: newClient()}
	var stdout bytes.Buffer
	go func() {
		status := run(ctx, args, strings.NewReader(""), &stdout, l.stderr)
		l.status <- status
		close(l.status)
		l.stderr.end()
	}()
	t.Cleanup(func() {
		stop()
		l.client.CloseIdleConnections()
		if status, ok := <-l.status; ok && status != exitOK {
			t.Errorf("the gateway: got status %d, want %d; it said:\n%s", status, exitOK, l.stderr)
		}
		if flaw := leak(l.stderr.String()+stdout.String(), unlogged); flaw != "" {
			t.Errorf("the gateway's output %s:\n%s", flaw, l.stderr)
		}
	})
	l.awaitReady(t)
	return l
}

// newClient returns a client whose connections are its own.
func newClient() *http.Client { return &http.Client{Transport: &http.Transport{}, Timeout: deadline} }

// awaitReady reads where the gateway listens. The line about callers is the last of the start.
func (l *lab) awaitReady(t *testing.T) {
	t.Helper()
	l.url = l.stderr.await(t, `^listening on (https?://127\.0\.0\.1:[1-9]\d*)$`)[1]
	l.admin = l.stderr.await(t, `^retrysafe: admin listening on (http://127\.0\.0\.1:[1-9]\d*)$`)[1]
}

// An answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends one request, under the key if there is one. header is pairs of name and value.
func (l *lab) send(t *testing.T, method, path, key, body string, header ...string) answer {
	t.Helper()
	a, err := do(l.client, l.request(t, method, path, key, body, header...))
	if err != nil {
		t.Fatalf("%s %s: %v; the gateway said:\n%s", method, path, err, l.stderr)
	}
	return a
}

// begin sends a POST and returns at once. An answer that does not come is an error of the test, and a zero answer.
func (l *lab) begin(t *testing.T, path, key, body string) <-chan answer {
	t.Helper()
	done, r := make(chan answer, 1), l.request(t, "POST", path, key, body)
	go func() {
		a, err := do(l.client, r)
		if err != nil {
			t.Errorf("POST %s: %v; the gateway said:\n%s", path, err, l.stderr)
		}
		done <- a
	}()
	return done
}

func (l *lab) request(t *testing.T, method, path, key, body string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return r
}

// do sends r and reads its answer whole.
func do(client *http.Client, r *http.Request) (answer, error) {
	res, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body)}, err
}

func (a answer) String() string { return fmt.Sprintf("%d %v %q", a.status, a.header, a.body) }

// wantProblem checks that a is the problem of that status and code, made by the layer.
func (a answer) wantProblem(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, `"code":"`+code+`"`) || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %v, want the problem %d %s", a, status, code)
	}
}

// wantReplayOf checks that a retry got the answer of the first: status, body, the marker, and the headers kept.
func (a answer) wantReplayOf(t *testing.T, first answer) {
	t.Helper()
	if a.status != first.status || a.body != first.body || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the retry: got %v, want what the first got with Idempotent-Replayed: true: %v", a, first)
	}
	for _, name := range []string{"Content-Type", "Location"} {
		if got, want := a.header.Get(name), first.header.Get(name); got != want {
			t.Errorf("the retry: got %s %q, want %q", name, got, want)
		}
	}
	if first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the first is marked as replayed: %v", first)
	}
}

// get is a request to the admin listener, with the token if bearer is true.
func (l *lab) get(t *testing.T, path string, bearer bool) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := do(l.client, r)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

func (a answer) wantStatus(t *testing.T, want int) {
	t.Helper()
	if a.status != want {
		t.Errorf("got %v, want status %d", a, want)
	}
}
