package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	db := filepath.Join(t.TempDir(), "payments.db")
	tests := []struct {
		name   string
		args   []string
		status int
		stdout string
		stderr string
	}{
		{"help", []string{"--help"}, 0, "--listen HOST:PORT", ""},
		{"unknown flag", []string{"--port", "1"}, 2, "", "not defined: -port"},
		{"flag without a value", []string{"--db"}, 2, "", "needs an argument: -db"},
		{"argument", []string{"serve"}, 2, "", `unexpected argument "serve"`},
		{"no port", []string{"--listen", "localhost"}, 2, "", `--listen "localhost" is not HOST:PORT`},
		{"no file", []string{"--db", ""}, 2, "", "--db is empty"},
		{"file in no folder", []string{"--db", filepath.Join(db, "x", "y.db")}, 1, "", "open database"},
		{"port taken", []string{"--db", db, "--listen", taken.Addr().String()}, 1, "", "listen tcp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if got := run(t.Context(), tt.args, &stdout, &stderr); got != tt.status {
				t.Errorf("run(%q): got status %d, want %d", tt.args, got, tt.status)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || (tt.stdout == "") != (stdout.Len() == 0) {
				t.Errorf("run(%q): got stdout %q, want %q in it", tt.args, stdout.String(), tt.stdout)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("run(%q): got stderr %q, want %q in it", tt.args, stderr.String(), tt.stderr)
			}
			if lines := strings.Count(stderr.String(), "\n"); lines > 1 {
				t.Errorf("run(%q): got %d lines of stderr, want one", tt.args, lines)
			}
		})
	}
}

// ready reads the address from the one line that says it.
func ready(t *testing.T, stderr io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok || strings.HasSuffix(url, ":0") {
		t.Fatalf("got first line %q, %v, want listening on the real address", line, err)
	}
	return url
}

const oneEuro = `{"customer":"c1","amount":100,"currency":"EUR"}`

// A stop lets a charge under way finish, and takes no other.
func TestStopDrains(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stderr, says := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "payments.db")}, io.Discard, says)
	}()
	url := ready(t, stderr)
	go io.Copy(io.Discard, stderr)

	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	begin(t, conn, answers)
	stop()
	waitRefused(t, strings.TrimPrefix(url, "http://"))
	if _, err := io.WriteString(conn, oneEuro); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatalf("read the answer during the drain: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("got %s, want 201", resp.Status)
	}
	if got := <-status; got != 0 {
		t.Errorf("got status %d, want 0", got)
	}
}

// begin sends a charge but for its body, and returns when it is under way: the
// server says 100 only once the handler reads (RFC 9110, 10.1.1).
func begin(t *testing.T, conn net.Conn, answers *bufio.Reader) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(oneEuro))
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if got, err := answers.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done() // ends when its connection is cut
	})}
	call := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		call <- err
	}()
	if err := serveUntil(ctx, srv, ln, 10*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("serveUntil: got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := <-call; err == nil {
		t.Error("the request that never ends: got an answer, want it cut off")
	}
}

// waitRefused returns when nobody listens on addr any more.
func waitRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
	}
}
