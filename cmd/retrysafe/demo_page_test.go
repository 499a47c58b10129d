package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Everything the page is made of comes from the program itself, and the browser is told to take nothing else.
func TestDemoPageFiles(t *testing.T) {
	t.Parallel()
	h := newDemoPage(newPlan(minOrders), 0).handler()
	for path, media := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/picture.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml", "/events.json": "application/json"} {
		w := ask(t, h, http.MethodGet, path, "")
		if got := w.Header(); w.Code != 200 || !strings.HasPrefix(got.Get("Content-Type"), media) || got.Get("Content-Security-Policy") != demoPolicy || got.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: got %d %v, want 200 %s under the policy", path, w.Code, got, media)
		}
		body := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "") // a name, not an address
		if foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]+`).FindString(body); foreign != "" {
			t.Errorf("GET %s: names %s, want nothing from elsewhere", path, foreign)
		}
	}
	for path, method := range map[string]string{"/nothing": http.MethodGet, "/demo_page.go": http.MethodGet, "/run": http.MethodGet, "/events.json": http.MethodPost} {
		if w := ask(t, h, method, path, ""); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: got %d, want it refused", method, path, w.Code)
		}
	}
}

func ask(t *testing.T, h http.Handler, method, path, site string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if site != "" {
		r.Header.Set("Sec-Fetch-Site", site)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A run is asked for once, however often the button is pressed, and not by another site.
func TestDemoPageRuns(t *testing.T) {
	t.Parallel()
	page := newDemoPage(newPlan(minOrders), 0)
	h := page.handler()
	if w := ask(t, h, http.MethodPost, "/run", "cross-site"); w.Code != http.StatusForbidden {
		t.Errorf("a run asked for by another site: got %d, want 403", w.Code)
	}
	if e := page.events(); e.State != pageWaiting || e.Run != 0 || e.API != "" {
		t.Fatalf("before the first run: got %+v", e)
	}
	for range 3 {
		if w := ask(t, h, http.MethodPost, "/run", "same-origin"); w.Code != http.StatusAccepted {
			t.Errorf("POST /run: got %d, want 202", w.Code)
		}
	}
	if e := page.events(); e.State != pageRunning || e.Run != 1 || len(page.start) != 1 {
		t.Errorf("asked for three times: got run %d, %s, %d to start, want one", e.Run, e.State, len(page.start))
	}
	<-page.start
	if err := page.play(t.Context()); err != nil {
		t.Errorf("play: %v", err)
	}
	page.end(nil)
	var e demoEvents
	if err := json.Unmarshal(ask(t, h, http.MethodGet, "/events.json", "").Body.Bytes(), &e); err != nil || e.State != pageDone || e.API == "" {
		t.Errorf("after the run: got %+v, %v", e, err)
	}
	if err := page.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := charges(t.Context(), e.API, "client-1"); err == nil {
		t.Error("the payment API answers after the page was closed")
	}
}

// A run that cannot be, or that shows something else than it must, says so on the page.
func TestDemoPageSaysWhatFailed(t *testing.T) {
	t.Parallel()
	page := newDemoPage(plan{{lostAnswer}, {lostAnswer}}, 0)
	page.ask()
	<-page.start
	page.end(page.play(t.Context()))
	defer page.close()
	if e := page.events(); e.State != pageFailed || !strings.Contains(e.Flaw, "giving up") {
		t.Errorf("a line that loses no request: got %s, %q, want it to fail", e.State, e.Flaw)
	}
	page.ask()
	if e := page.events(); e.State != pageRunning || e.Flaw != "" {
		t.Errorf("asked for another run: got %s, %q", e.State, e.Flaw)
	}
}

// Stopped in the middle of a run, the page ends well and leaves nothing behind.
func TestDemoPageStops(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, stderr, status := newTranscript(), newTranscript(), make(chan int, 1)
	go func() { status <- run(ctx, []string{"demo", "--orders", "1000"}, nil, out, stderr); out.end() }()
	page := out.await(t, `^The demo is on (http://\S+/) \(Ctrl-C ends it\)$`)[1]
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page+"run", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := do(newClient(), r); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("POST /run: got %v, %v", a, err)
	}
	for late := time.Now().Add(deadline); readEvents(t, page).Clients[0].Requests == 0; {
		if time.Now().After(late) {
			t.Fatal("no request is sent")
		}
	}
	stop()
	if got := <-status; got != exitOK || stderr.String() != "" {
		t.Errorf("demo, stopped: got status %d and %q, want 0 and silence", got, stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("demo, stopped: it left %v, %v", left, err)
	}
}

func TestPageURL(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1:80": "http://127.0.0.1:80/", "[::1]:80": "http://[::1]:80/", "0.0.0.0:80": "http://localhost:80/", "[::]:80": "http://localhost:80/"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageURL(tcp); got != want {
			t.Errorf("pageURL(%s): got %s, want %s", addr, got, want)
		}
	}
}

// A browser is opened only where somebody sits in front of it.
func TestBrowserOpener(t *testing.T) {
	x11, wayland, ssh := map[string]string{"DISPLAY": ":0"}, map[string]string{"WAYLAND_DISPLAY": "w"}, map[string]string{"DISPLAY": ":10", "SSH_CONNECTION": "a"}
	tests := []struct {
		name     string
		goos     string
		env      map[string]string
		terminal bool
		want     string
	}{
		{"desktop", "linux", x11, true, "xdg-open"},
		{"desktop without X", "linux", wayland, true, "xdg-open"},
		{"BSD desktop", "freebsd", x11, true, "xdg-open"},
		{"no desktop", "linux", nil, true, ""},
		{"no terminal", "linux", x11, false, ""},
		{"desktop of another machine", "linux", ssh, true, ""},
		{"Mac", "darwin", nil, true, "open"},
		{"Mac over SSH", "darwin", ssh, true, ""},
		{"Windows", "windows", nil, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := browserOpener(tt.goos, func(name string) string { return tt.env[name] }, tt.terminal); got != tt.want {
				t.Errorf("browserOpener: got %q, want %q", got, tt.want)
			}
		})
	}
}
