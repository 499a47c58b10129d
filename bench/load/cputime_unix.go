//go:build unix

package load

import (
	"syscall"
	"time"
)

// cpuTime returns what this process has used, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("load: getrusage: " + err.Error()) // only a wrong argument makes it fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
