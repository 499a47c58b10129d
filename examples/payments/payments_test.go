package payments

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// server is an API behind a real listener, over a database file of its own.
type server struct {
	t    *testing.T
	api  *API
	path string
	url  string
}

func serve(t *testing.T, opts *Options) *server {
	t.Helper()
	return serveFile(t, filepath.Join(t.TempDir(), "payments.db"), opts)
}

func serveFile(t *testing.T, path string, opts *Options) *server {
	t.Helper()
	api, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	ts := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		ts.Close()
		if err := api.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &server{t: t, api: api, path: path, url: ts.URL}
}

// in is s with the subtest t to fail.
func (s *server) in(t *testing.T) *server {
	return &server{t: t, api: s.api, path: s.path, url: s.url}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// send may be called from any goroutine. A body goes out as application/json.
func (s *server) send(ctx context.Context, method, target, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+target, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return s.sendRequest(req)
}

func (s *server) sendRequest(req *http.Request) (answer, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data)}, err
}

// must sends from the test's goroutine and wants the status.
func (s *server) must(status int, method, target, body string) answer {
	s.t.Helper()
	got, err := s.send(s.t.Context(), method, target, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, target, err)
	}
	if got.status != status {
		s.t.Fatalf("%s %s %s: got %v, want %d", method, target, body, got, status)
	}
	return got
}

// charge makes a charge and decodes the answer.
func (s *server) charge(body string) Charge {
	s.t.Helper()
	return decoded[Charge](s.t, s.must(http.StatusCreated, "POST", "/charges", body))
}

func (s *server) totals(query string) Totals {
	s.t.Helper()
	return decoded[Totals](s.t, s.must(http.StatusOK, "GET", "/totals"+query, ""))
}

func decoded[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %v: %v", a, err)
	}
	return v
}

// wantProblem checks the form of RFC 9457 and gives the problem back.
func wantProblem(t *testing.T, a answer) problem {
	t.Helper()
	p := decoded[problem](t, a)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%v: got Content-Type %q, want application/problem+json", a, got)
	}
	if p.Status != a.status || p.Type == "" || p.Title == "" || p.Detail == "" {
		t.Errorf("%v: got problem %+v, want all members, with the answer's status", a, p)
	}
	return p
}

func TestRoutesRefuseWithProblems(t *testing.T) {
	s := serve(t, nil)
	tests := []struct {
		name         string
		method, path string
		status       int
		allow        string
	}{
		{"no such path", "GET", "/nothing", 404, ""},
		{"no such path below a charge", "POST", "/charges/ch_1/void", 404, ""},
		{"root", "GET", "/", 404, ""},
		{"other method on charges", "DELETE", "/charges", 405, "GET, HEAD, POST"},
		{"other method on a charge", "PUT", "/charges/ch_1", 405, "GET, HEAD"},
		{"reading a transition", "GET", "/charges/ch_1/capture", 405, "POST"},
		{"other method on a customer", "PATCH", "/customers/c1", 405, "DELETE, GET, HEAD, PUT"},
		{"options", "OPTIONS", "/totals", 405, "GET, HEAD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			got := s.must(tt.status, tt.method, tt.path, "")
			wantProblem(t, got)
			if allow := got.header.Get("Allow"); allow != tt.allow {
				t.Errorf("%s %s: got Allow %q, want %q", tt.method, tt.path, allow, tt.allow)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	s := serve(t, nil)
	if got, want := s.must(200, "GET", "/healthz", "").body, `{"status":"ok"}`; got != want {
		t.Errorf("GET /healthz: got %s, want %s", got, want)
	}
	if err := s.api.Close(); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.must(500, "GET", "/healthz", ""))
}

func TestAnswersAreNotCached(t *testing.T) {
	s := serve(t, nil)
	for _, got := range []answer{s.must(200, "GET", "/totals", ""), s.must(404, "GET", "/charges/x", "")} {
		if cache := got.header.Get("Cache-Control"); cache != "no-store" {
			t.Errorf("%v: got Cache-Control %q, want no-store", got, cache)
		}
	}
}
