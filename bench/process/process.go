// Package process runs the processes that are measured, and reads what a process uses.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process may take to announce itself, and to end when it is asked to.
const patience = 60 * time.Second

// maxTold bounds the lines of a process that are kept: those it began with.
const maxTold = 100

// A Process is a child of this one. Use Start, and Stop or Kill in the end, whatever happened.
type Process struct {
	cmd   *exec.Cmd
	input io.Closer     // ends with this process, however that ends: a child may watch it
	read  chan struct{} // closed when its output has ended
	ended bool

	mu   sync.Mutex
	told []string // its first lines; guarded by mu
}

// Start starts a command and returns when it has told a line that ready matches, on standard output or standard
// error. The process is killed when ctx ends.
func Start(ctx context.Context, ready *regexp.Regexp, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...), read: make(chan struct{})}
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("process: start %s: %w", name, err)
	}
	p.input = input
	output, theirs, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process: start %s: %w", name, err), input.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = theirs, theirs
	err = p.cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process: start: %w", err), input.Close(), output.Close())
	}
	announced := make(chan struct{})
	go p.listen(output, ready, announced)
	select {
	case <-announced:
		return p, nil
	case <-p.read:
		err = errors.New("it ended before it was ready")
	case <-time.After(patience):
		err = fmt.Errorf("it was not ready after %v", patience)
	}
	p.Kill()
	return nil, fmt.Errorf("process: start %s: %w; it told: %s", name, err, p.tail())
}

// listen keeps what the process tells, and reads on to the end, so that it never waits to be heard.
func (p *Process) listen(output io.ReadCloser, ready *regexp.Regexp, announced chan<- struct{}) {
	defer close(p.read)
	defer output.Close()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		p.mu.Lock()
		if len(p.told) < maxTold {
			p.told = append(p.told, lines.Text())
		}
		p.mu.Unlock()
		if announced != nil && ready.MatchString(lines.Text()) {
			close(announced)
			announced = nil
		}
	}
}

func (p *Process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.told[max(0, len(p.told)-5):], " / ")
}

// Told returns the first group of the first line that pattern matches, "" if there is none.
func (p *Process) Told(pattern *regexp.Regexp) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.told {
		if groups := pattern.FindStringSubmatch(line); len(groups) > 1 {
			return groups[1]
		}
	}
	return ""
}

// Stop asks the process to end, by SIGTERM, and waits for it. An exit status other than 0 is an error. A process that
// has ended is not asked again.
func (p *Process) Stop() error {
	if p.ended {
		return nil
	}
	p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	kill := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.wait(); err != nil {
		return fmt.Errorf("process: stop %s: %w; it told: %s", p.cmd.Path, err, p.tail())
	}
	return nil
}

// Kill ends the process with SIGKILL, which it cannot notice, and waits until it is gone.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.cmd.Process.Kill()
	p.wait() // tells of the signal, which is no news
}

func (p *Process) wait() error {
	p.ended = true
	<-p.read
	defer p.input.Close()
	return p.cmd.Wait()
}
