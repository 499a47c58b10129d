// Package machine says what figures were taken on.
package machine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/sample"
)

// Describe returns a line on the processor, the system, Go, and the disk under the folder dir: how long a sync of 4 KiB
// takes there tells whether it is a disk at all.
func Describe(dir string) (string, error) {
	syncs, err := syncTimes(dir)
	if err != nil {
		return "", fmt.Errorf("machine: time syncs in %s: %w", dir, err)
	}
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux alone has it
	return fmt.Sprintf("%d cores of %s, %s/%s, %s; a sync of 4 KiB takes %s us", runtime.NumCPU(), processor(info),
		runtime.GOOS, runtime.GOARCH, runtime.Version(), syncs.Text("%.0f")), nil
}

// processor reads the model out of a /proc/cpuinfo.
func processor(info []byte) string {
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown model"
}

// syncTimes appends to a file and syncs it, 50 times, and returns how long each took, in microseconds.
func syncTimes(dir string) (took sample.Sample, err error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4<<10)
	for range 50 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return took, nil
}
