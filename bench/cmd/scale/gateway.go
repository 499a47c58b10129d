package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/retrysafe/retrysafe/bench/process"
)

// build builds the real binary, once.
func (s *scale) build(ctx context.Context) (binary string, err error) {
	binary = filepath.Join(s.dir, "retrysafe")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	const program = "github.com/retrysafe/retrysafe/cmd/retrysafe"
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/retrysafe/retrysafe").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w: run it in the folder bench", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", string(bytes.TrimSpace(root)), "-o", binary, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // one file that needs nothing: its caches are in Go's own memory
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, nil
}

var (
	public    = regexp.MustCompile(`^listening on (http://\S+)`)
	operators = regexp.MustCompile(`admin listening on (http://\S+)`)
)

// A running gateway.
type running struct {
	*process.Process
	url, admin, token string
}

// startGateway starts the binary on the folder data and returns when it listens. Its token is kept in dir.
func startGateway(ctx context.Context, binary, dir, data, upstream string) (running, error) {
	token := rand.Text()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		return running{}, err
	}
	p, err := process.Start(ctx, public, binary, "gateway", "--upstream", upstream, "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--admin-token-file", file, "--store", "pebble:"+data)
	if err != nil {
		return running{}, err
	}
	return running{Process: p, url: p.Told(public), admin: p.Told(operators), token: token}, nil
}
