package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/examples/payments"
)

const (
	kills   = 6
	callers = 8
)

// process is the real program, started from its built binary.
type process struct {
	*exec.Cmd
	url string
}

// build builds the program once for a test.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "payments.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func start(t *testing.T, bin, db string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "--listen", "127.0.0.1:0", "--db", db)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{cmd, ready(t, stderr)}
}

// kill is kill -9: the program runs no line of its own any more.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := p.Wait(); err == nil {
		t.Error("the program ended by itself, want it killed")
	}
}

// Every charge that was answered 201 is there after each kill, as it was
// answered, and the slips have no gap: a charge cut off is there whole or not.
func TestAcknowledgedChargesSurviveKill(t *testing.T) {
	bin, db := build(t), filepath.Join(t.TempDir(), "payments.db")
	acknowledged := map[string]payments.Charge{}
	unanswered := 0
	for round := 1; round <= kills; round++ {
		p := start(t, bin, db)
		maps.Copy(acknowledged, chargeUntilKilled(t, p, 17*round))
		checkIntegrity(t, db)

		p = start(t, bin, db)
		kept := allCharges(t, p.url)
		p.kill(t)
		for id, want := range acknowledged {
			if got := kept[id]; got != want {
				t.Fatalf("after kill %d: got charge %+v, want %+v", round, got, want)
			}
		}
		unanswered = len(kept) - len(acknowledged)
		// Each caller has at most one charge whose answer the kill cut off.
		if most := callers * round; unanswered > most {
			t.Errorf("after kill %d: got %d charges without an answer, want at most %d", round, unanswered, most)
		}
	}
	t.Logf("%d charges acknowledged and kept, %d kept without an answer, %d kills", len(acknowledged), unanswered, kills)
}

// chargeUntilKilled charges from all callers at once, kills p while they do, as
// soon as n charges were answered, and returns all that were.
func chargeUntilKilled(t *testing.T, p *process, n int) map[string]payments.Charge {
	t.Helper()
	made := make(chan payments.Charge, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			body := fmt.Sprintf(`{"customer":"c%d","amount":%d,"currency":"EUR","memo":"caller %d"}`, caller, caller+1, caller)
			for {
				c, err := postCharge(t.Context(), p.url, body)
				if err != nil { // killed
					return
				}
				made <- c
			}
		})
	}
	go func() { wg.Wait(); close(made) }()
	acknowledged := map[string]payments.Charge{}
	for c := range made {
		acknowledged[c.ID] = c
		if len(acknowledged) == n {
			p.kill(t)
		}
	}
	if len(acknowledged) < n {
		t.Fatalf("got %d charges before the program failed, want %d", len(acknowledged), n)
	}
	return acknowledged
}

func postCharge(ctx context.Context, url, body string) (c payments.Charge, err error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/charges", strings.NewReader(body))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return c, err
	}
	if resp.StatusCode != http.StatusCreated {
		return c, fmt.Errorf("got %s: %s", resp.Status, data)
	}
	return c, json.Unmarshal(data, &c)
}

// allCharges reads page after page, and checks that the slips run from 1 without
// a gap.
func allCharges(t *testing.T, url string) map[string]payments.Charge {
	t.Helper()
	all := map[string]payments.Charge{}
	for after := int64(0); ; {
		page := readPage(t, fmt.Sprintf("%s/charges?limit=100&after=%d", url, after))
		for _, c := range page.Charges {
			all[c.ID] = c
			if c.Slip != int64(len(all)) {
				t.Fatalf("got slip %d on place %d", c.Slip, len(all))
			}
		}
		if page.Next == 0 {
			return all
		}
		after = page.Next
	}
}

func readPage(t *testing.T, url string) (page payments.Page) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: got %s, %v", url, resp.Status, err)
	}
	return page
}

// checkIntegrity opens the file that the killed program left behind.
func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got string
	if err := db.QueryRowContext(t.Context(), `pragma integrity_check`).Scan(&got); err != nil || got != "ok" {
		t.Fatalf("integrity_check after a kill: got %q, %v", got, err)
	}
}
