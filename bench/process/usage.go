//go:build unix

package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// CPUTime returns what this process has used, in user and system mode.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("process: getrusage: " + err.Error()) // only a wrong argument makes it fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory is what a process holds of the machine's memory, in bytes.
type Memory struct {
	Resident int64 // now: VmRSS
	Peak     int64 // at most, so far: VmHWM
}

// Memory reads it from /proc, which Linux alone has.
func (p *Process) Memory() (m Memory, err error) {
	name := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return m, fmt.Errorf("process: read memory: %w", err)
	}
	m, err = parseStatus(text)
	if err != nil {
		return m, fmt.Errorf("process: read %s: %w", name, err)
	}
	return m, nil
}

// parseStatus reads a /proc/PID/status (proc_pid_status(5)).
func parseStatus(text []byte) (m Memory, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) != 3 || string(fields[2]) != "kB" {
			continue
		}
		to := map[string]*int64{"VmRSS:": &m.Resident, "VmHWM:": &m.Peak}[string(fields[0])]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseInt(string(fields[1]), 10, 53)
		if err != nil {
			return m, fmt.Errorf("%s is not a number", fields[0])
		}
		*to = kib << 10
	}
	if m.Resident == 0 || m.Peak == 0 {
		return m, fmt.Errorf("no VmRSS or VmHWM in it")
	}
	return m, nil
}
