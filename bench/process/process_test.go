package process

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes this binary the child of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func child(how string) {
	if how == "ends early" {
		fmt.Fprintln(os.Stderr, "no room")
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, "admin on 2")
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("listening on 1")
	<-asked
	if how == "ends badly" {
		os.Exit(4)
	}
}

var ready = regexp.MustCompile(`^listening on (\d)`)

func startChild(t *testing.T, how string) (*Process, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("Executable: %v", err)
	}
	p, err := Start(t.Context(), ready, self, "child", how)
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, err
}

func TestStartReturnsWhenTheProcessIsReady(t *testing.T) {
	p, err := startChild(t, "well")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	if got := p.Told(ready); got != "1" {
		t.Errorf("Told: %q, want what stood on its standard output", got)
	}
	if got := p.Told(regexp.MustCompile(`admin on (\d)`)); got != "2" {
		t.Errorf("Told: %q, want what stood on its standard error", got)
	}
	if got := p.Told(regexp.MustCompile(`nothing (\d)`)); got != "" {
		t.Errorf("Told: %q of a line it never told", got)
	}
}

func TestStopTellsHowTheProcessEnded(t *testing.T) {
	tests := []struct {
		how, want string // "": well
	}{{"well", ""}, {"ends badly", "exit status 4"}}
	for _, tt := range tests {
		p, err := startChild(t, tt.how)
		if err != nil {
			t.Fatalf("Start: %v", err)
		}
		if err := p.Stop(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Stop of one that ends %q: %v, want %q", tt.how, err, tt.want)
		}
		if err := p.Stop(); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	}
}

func TestProcessThatNeverGetsReadyIsAnError(t *testing.T) {
	_, err := startChild(t, "ends early")
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("Start: %v, want what the process told", err)
	}
	if _, err := Start(t.Context(), ready, "/no/such/program"); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func TestKilledProcessIsGone(t *testing.T) {
	p, err := startChild(t, "well")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	p.Kill()
	if p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
		t.Errorf("after Kill: %v, want the end by a signal", p.cmd.ProcessState)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("Stop after Kill: %v", err)
	}
}

func TestStatusIsRead(t *testing.T) {
	const whole = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t8\n"
	tests := []struct {
		name, text string
		want       Memory
		ok         bool
	}{
		{"whole", whole, Memory{Resident: 1 << 20, Peak: 2 << 20}, true},
		{"of a process that has ended", "Name:\tx\nState:\tZ (zombie)\n", Memory{}, false},
		{"no number", "VmHWM:\tmany kB\n", Memory{}, false},
		{"empty", "", Memory{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStatus([]byte(tt.text))
			if (err == nil) != tt.ok || tt.ok && got != tt.want {
				t.Errorf("parseStatus = %+v, %v; want %+v, fine: %t", got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestCPUTimeGrowsWithWork(t *testing.T) {
	before := CPUTime()
	for end := time.Now().Add(10 * time.Second); CPUTime() <= before; {
		if time.Now().After(end) {
			t.Fatal("10 s of work took no CPU time")
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"))
	f.Add([]byte("VmRSS: -1 kB\nVmHWM: 9007199254740993 kB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseStatus(text); err == nil && (m.Resident == 0 || m.Peak == 0) {
			t.Errorf("parseStatus(%q) = %+v without an error", text, m)
		}
	})
}
