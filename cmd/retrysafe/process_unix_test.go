//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"testing"
)

// A process is a gateway of its own, to send signals to. Its status is -1 when a signal ended it.
type process struct {
	*lab
	cmd *exec.Cmd
}

func startProcess(t *testing.T, upstream string, flags ...string) *process {
	t.Helper()
	cmd := exec.Command("retrysafe", append([]string{"gateway", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)...)
	cmd.Env = append(cmd.Environ(), "RETRYSAFE_ADMIN_TOKEN="+token, "RETRYSAFE_STORE=pebble:"+t.TempDir())
	p := startCommand(t, cmd)
	p.awaitReady(t)
	return p
}

// startCommand starts a gateway, which is killed when the test ends and must have said no secret.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{&lab{stderr: newTranscript(), status: make(chan int, 1), client: newClient()}, cmd}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		p.stderr.end()
		p.status <- cmd.ProcessState.ExitCode()
		close(p.status)
	}()
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		cmd.Process.Kill()
		<-p.status
		if flaw := leak(p.stderr.String(), unlogged); flaw != "" {
			t.Errorf("the gateway's output %s:\n%s", flaw, p.stderr)
		}
	})
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		url, arrived, release := startStates(t)
		p := startProcess(t, url)
		underway := p.begin(t, "/block", "zq-key-1", "")
		<-arrived
		p.signal(t, s)
		p.stderr.await(t, "msg=draining")
		release()
		(<-underway).wantStatus(t, 200)
		if got := <-p.status; got != exitOK {
			t.Errorf("after %v: got status %d, want 0; it said:\n%s", s, got, p.stderr)
		}
	}
}

// A second signal ends the gateway at once, whatever is under way.
func TestSecondSignalEnds(t *testing.T) {
	t.Parallel()
	url, arrived, _ := startStates(t)
	p := startProcess(t, url)
	r := p.request(t, "POST", "/block", "zq-key-1", "")
	cut := make(chan error, 1)
	go func() {
		_, err := do(p.client, r)
		cut <- err
	}()
	<-arrived
	p.signal(t, syscall.SIGTERM)
	p.stderr.await(t, "msg=draining")
	for { // the first is done with a moment after it was heard; only then is the next a second
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			break
		}
	}
	if got := <-p.status; got != -1 {
		t.Errorf("after a second signal: got status %d, want it ended by the signal; it said:\n%s", got, p.stderr)
	}
	if err := <-cut; err == nil {
		t.Error("the request under way got an answer, want it cut off")
	}
}
