package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// demoArgs is what `make demo` runs.
var demoArgs = []string{"demo", "--headless"}

// The demo shows what it must, by the table that it prints.
func TestDemo(t *testing.T) {
	var out, stderr bytes.Buffer
	if got := run(t.Context(), demoArgs, nil, &out, &stderr); got != exitOK || stderr.Len() > 0 {
		t.Fatalf("retrysafe %q: got status %d and %q, want 0 and silence; it said:\n%s", demoArgs, got, &stderr, &out)
	}
	wantDemoTable(t, out.String(), 120)
	if want := "120 orders, one charge each, sent over a line on which 40 first attempts go wrong:\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the demo says:\n%s\nwant first %q", &out, want)
	}
	if strings.ContainsAny(out.String(), "\033\r") {
		t.Error("the demo colours what is no terminal")
	}
}

// The fewest orders prove it too: every fault occurs.
func TestDemoOfFewOrders(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	if got := run(t.Context(), []string{"demo", "--headless", "--orders", strconv.Itoa(minOrders)}, nil, &out, &stderr); got != exitOK {
		t.Fatalf("demo --orders %d: got status %d and %q; it said:\n%s", minOrders, got, &stderr, &out)
	}
	wantDemoTable(t, out.String(), minOrders)
}

var demoRow = regexp.MustCompile(`(?m)^(\S.*?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$`)

// wantDemoTable checks every column of the table in text against what the demo is there to show.
func wantDemoTable(t *testing.T, text string, orders int) {
	t.Helper()
	names := []string{"gives up", "resends bare", "resends with a new key each time", "resends with one key, through retrysafe"}
	rows := demoRow.FindAllStringSubmatch(text, -1)
	if len(rows) != len(names) || !regexp.MustCompile(`(?m)^client +requests +charges +missing +double +stands, but believed failed$`).MatchString(text) {
		t.Fatalf("got\n%s\nwant a table of %d clients", text, len(names))
	}
	for i, cells := range rows {
		var n [5]int
		for j := range n {
			n[j], _ = strconv.Atoi(cells[j+2]) // digits by the pattern
		}
		requests, charges, missing, double, deceived := n[0], n[1], n[2], n[3], n[4]
		check := func(ok bool, fact string) {
			if !ok {
				t.Errorf("row %q: want %s", cells[0], fact)
			}
		}
		check(cells[1] == names[i], "the client "+names[i])
		check(charges == orders-missing+double, "charges that are orders, but for the missing and the double")
		check(requests >= charges, "no charge without a request")
		switch i {
		case 0:
			check(requests == orders, "one request an order")
			check(missing > 0 && double == 0 && deceived > 0, "charges missing, none double, and some that nobody knows of")
		case 1, 2:
			check(requests > orders, "requests sent again")
			check(double > 0, "charges double")
		case 3:
			check(requests > orders, "requests sent again")
			check(charges == orders && missing == 0 && double == 0 && deceived == 0, "each order charged once and known to be")
		}
	}
}

// A run that does not show its point is a failure, whatever it shows besides.
func TestJudgeRows(t *testing.T) {
	good := func() []row {
		return []row{
			{charges: 110, missing: 10, deceived: 30},
			{charges: 164, double: 44},
			{charges: 164, double: 44},
			{charges: 120},
		}
	}
	if err := judgeRows(good(), 120); err != nil {
		t.Fatalf("judgeRows of a good run: got %v", err)
	}
	tests := []struct {
		name  string
		spoil func([]row)
		want  string
	}{
		{"giving up misses nothing", func(r []row) { r[0].missing = 0 }, "giving up"},
		{"giving up deceives nobody", func(r []row) { r[0].deceived = 0 }, "giving up"},
		{"giving up charges twice", func(r []row) { r[0].double = 1 }, "giving up"},
		{"bare without doubles", func(r []row) { r[1].double = 0 }, "bare"},
		{"new keys without doubles", func(r []row) { r[2].double = 0 }, "new key"},
		{"one key with a double", func(r []row) { r[3].double = 1 }, "one key"},
		{"one key with one missing", func(r []row) { r[3].missing = 1 }, "one key"},
		{"one key that deceives", func(r []row) { r[3].deceived = 1 }, "one key"},
		{"one key with fewer charges", func(r []row) { r[3].charges = 119 }, "one key"},
		{"everything wrong", func(r []row) { clear(r) }, "; "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows := good()
			tt.spoil(rows)
			if err := judgeRows(rows, 120); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("judgeRows: got %v, want an error that names %q", err, tt.want)
			}
		})
	}
}

// Stopped midway, the demo ends soon, says so once, and leaves nothing behind.
func TestDemoStops(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, stderr, status := newTranscript(), newTranscript(), make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"demo", "--headless", "--orders", "1000"}, nil, out, stderr)
		stderr.end()
		out.end()
	}()
	out.await(t, "answer never comes$")
	stop()
	if got := <-status; got != exitError {
		t.Errorf("demo, stopped: got status %d, want %d", got, exitError)
	}
	if got, want := stderr.String(), "retrysafe: demo: context canceled\n"; got != want {
		t.Errorf("demo, stopped: got %q, want %q", got, want)
	}
	if demoRow.MatchString(out.String()) {
		t.Errorf("demo, stopped: it printed a table:\n%s", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("demo, stopped: it left %v, %v", left, err)
	}
}

// A client that is stopped sends no further order, and no order again.
func TestDriveStops(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	tired := errors.New("enough")
	var sent atomic.Int64
	count := roundTripper(func(*http.Request) (*http.Response, error) {
		if sent.Add(1) == 10 {
			stop(tired)
		}
		return nil, errBroken{}
	})
	d := &demo{plan: newPlan(1000)}
	c := &client{target: "http://127.0.0.1:9", attempts: 5, trace: newTrace(len(d.plan), nil), http: &http.Client{Transport: count}}
	if err := d.drive(ctx, c, new(atomic.Int64)); err != tired {
		t.Errorf("drive: got %v, want %v", err, tired)
	}
	// Each worker may have been about to send once more, and the next order may have been on its way to one.
	if got, most := sent.Load(), int64(10+2*demoWorkers); got > most {
		t.Errorf("drive: got %d requests, want %d at most", got, most)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	return f(r)
}

// What the demo counts is what stands of one customer, by order; the demo itself has more than a page of them.
func TestCharges(t *testing.T) {
	t.Parallel()
	api := startPayments(t)
	l := &lab{url: api.url, client: newClient(), stderr: newTranscript()}
	for range 2 {
		l.send(t, "POST", "/charges", "", charge(1)).wantStatus(t, 201)
	}
	l.send(t, "POST", "/charges", "", strings.Replace(charge(1), "c1", "c2", 1)).wantStatus(t, 201)
	got, err := charges(t.Context(), api.url, "zq-body-c1")
	if err != nil || len(got) != 1 || got["zq-body"] != 2 {
		t.Errorf("charges: got %v, %v, want two of one memo", got, err)
	}
	if _, err := charges(t.Context(), api.url+"/nowhere", "zq-body-c1"); err == nil {
		t.Error("charges of an API that answers 404: got no error")
	}
}

// A terminal that is none gets neither colours nor progress.
func TestNoTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, w := range map[string]io.Writer{"buffer": new(bytes.Buffer), "closed file": (*os.File)(nil)} {
		if isLively(w) {
			t.Errorf("isLively(%s): got true", name)
		}
	}
	t.Setenv("NO_COLOR", "1")
	if isLively(f) {
		t.Error("isLively with NO_COLOR: got true")
	}
}
