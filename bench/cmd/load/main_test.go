package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/bench/load"
)

// runLoad runs the command against h for a moment, with args behind its own.
func runLoad(t *testing.T, h http.HandlerFunc, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	args = append([]string{"--url", server.URL, "--warmup", "0s", "--duration", "30ms", "--connections", "2"}, args...)
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// parseLine fails t unless out is one line of JSON with a report.
func parseLine(t *testing.T, out string) load.Report {
	t.Helper()
	if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") {
		t.Fatalf("output %q is not one line", out)
	}
	var r load.Report
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("output %q: %v", out, err)
	}
	return r
}

func TestReportIsOneLine(t *testing.T) {
	var calls atomic.Uint64
	code, stdout, stderr := runLoad(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if body, _ := io.ReadAll(r.Body); r.Method != "PUT" || len(body) != 300 {
			w.WriteHeader(http.StatusBadRequest)
		}
	}, "--method", "PUT", "--body-size", "300", "--mode", "replay", "--keys", "5")
	got := parseLine(t, stdout)
	if code != 0 || stderr != "" {
		t.Errorf("exit %d, stderr %q; want 0 and nothing", code, stderr)
	}
	if got.Sent != calls.Load() || got.Requests != got.Sent-5 || got.Statuses[200] != got.Requests {
		t.Errorf("report %+v; the server had %d requests", got, calls.Load())
	}
}

func TestFailedRequestsAreToldAndExitOne(t *testing.T) {
	var calls atomic.Uint64
	code, stdout, stderr := runLoad(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%7 == 0 {
			panic(http.ErrAbortHandler)
		}
	})
	got := parseLine(t, stdout)
	if code != 1 || got.Errors == 0 || got.Errors != calls.Load()/7 {
		t.Errorf("exit %d with %d errors; want 1 with %d", code, got.Errors, calls.Load()/7)
	}
	if want := "requests failed, the first: read head of answer: EOF\n"; !strings.HasSuffix(stderr, want) {
		t.Errorf("stderr %q; want it to end in %q", stderr, want)
	}
}

func TestErrorStatusIsNoFailure(t *testing.T) {
	code, stdout, _ := runLoad(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if got := parseLine(t, stdout); code != 0 || got.Statuses[500] != got.Requests {
		t.Errorf("exit %d, statuses %v of %d; want 0 and only 500", code, got.Statuses, got.Requests)
	}
}

func TestBadFlagsExitTwo(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no url", nil, "want http://host:port/path"},
		{"unknown flag", []string{"--rate", "5"}, "flag provided but not defined"},
		{"number in letters", []string{"--connections", "many"}, "invalid value"},
		{"time without unit", []string{"--url", "http://localhost", "--duration", "5"}, "invalid value"},
		{"no duration", []string{"--url", "http://localhost", "--duration", "0s"}, "want positive times"},
		{"no connections", []string{"--url", "http://localhost", "--connections", "0"}, "connections is 0"},
		{"unknown mode", []string{"--url", "http://localhost", "--mode", "x"}, `mode is "x"`},
		{"no keys to replay", []string{"--url", "http://localhost", "--mode", "replay", "--keys", "0"}, "keys is 0"},
		{"argument left over", []string{"--url", "http://localhost", "now"}, `unexpected argument "now"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), tt.args, &out, &errs)
			if code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("run(%q) = %d, stdout %q, stderr %q; want 2, nothing, %q", tt.args, code, &out, &errs, tt.want)
			}
		})
	}
}

func TestHelpExitsZero(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &out, &errs); code != 0 || !strings.Contains(errs.String(), "-connections") {
		t.Errorf("run(--help) = %d, %q; want 0 and the flags", code, &errs)
	}
}

func TestInterruptedRunExitsOne(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer server.Close()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"--url", server.URL, "--duration", "1h"}, &out, &errs)
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "context canceled") {
		t.Errorf("run = %d, stdout %q, stderr %q; want 1, nothing, context canceled", code, &out, &errs)
	}
}
