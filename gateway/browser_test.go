package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// Pages of other origins, through the gateway, to an upstream that does CORS by itself.

const shop = "https://shop.example"

// shopAPI lets pages of the shop charge, and nobody else's. A charge to /cut breaks off.
func shopAPI(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	if r.Header.Get("Origin") == shop {
		h.Set("Access-Control-Allow-Origin", shop)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", "Location")
	}
	switch {
	case r.Method == http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Idempotency-Key, Content-Type")
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/cut":
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "charged")
	}
}

// A page does what a browser does: it asks before it charges, and reads only what it is allowed to.
type page struct {
	origin  string
	gateway string
}

func (p page) ask(t *testing.T, method, path, key string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.gateway+path, strings.NewReader("10 EUR"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", p.origin)
	if method == http.MethodOptions {
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "content-type,idempotency-key")
	} else {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// reads tells whether a browser lets the page read an answer to a request with cookies, and these headers of it.
func (p page) reads(res *http.Response, names ...string) bool {
	h := res.Header
	if !slices.Equal(h["Access-Control-Allow-Origin"], []string{p.origin}) || h.Get("Access-Control-Allow-Credentials") != "true" {
		return false
	}
	shown := ", " + strings.ToLower(strings.Join(h["Access-Control-Expose-Headers"], ", ")) + ","
	return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(shown, ", "+strings.ToLower(name)+",") })
}

func TestPageOfAnotherOrigin(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(shopAPI))
	t.Cleanup(up.Close)
	l := newLab(t, up.URL, gateway.Options{Guard: idemhttp.Options{CORSOrigins: []string{shop}, CORSCredentials: true}})
	p := page{shop, serve(t, l)}

	preflight := p.ask(t, http.MethodOptions, "/charges", "")
	if preflight.StatusCode != 204 || !p.reads(preflight) || preflight.Header.Get("Access-Control-Allow-Headers") != "Idempotency-Key, Content-Type" ||
		preflight.Header.Get("Access-Control-Expose-Headers") != "Location" {
		t.Fatalf("preflight: %d %v, want the upstream's answer untouched", preflight.StatusCode, preflight.Header)
	}
	first := p.ask(t, http.MethodPost, "/charges", "k")
	if first.StatusCode != 201 || !p.reads(first, "Location", "Idempotency-Status", "Retry-After") {
		t.Errorf("first: %d %v, want an answer that the page can read", first.StatusCode, first.Header)
	}
	again := p.ask(t, http.MethodPost, "/charges", "k")
	if again.StatusCode != 201 || !p.reads(again, "Idempotent-Replayed") || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay: %d %v, want an answer that the page can read", again.StatusCode, again.Header)
	}
	for what, res := range map[string]*http.Response{
		"key invalid":      p.ask(t, http.MethodPost, "/charges", `"k`),
		"key reused":       p.ask(t, http.MethodPost, "/refunds", "k"),
		"outcome unknown":  p.ask(t, http.MethodPost, "/cut", "cut"),
		"held from now on": p.ask(t, http.MethodPost, "/cut", "cut"),
	} {
		if res.StatusCode < 400 || !p.reads(res) {
			t.Errorf("%s: %d %v, want a problem that the page can read", what, res.StatusCode, res.Header)
		}
	}

	stranger := page{"https://evil.example", p.gateway}
	for what, key := range map[string]string{"first": "s", "replay": "k", "problem": `"k`} {
		if res := stranger.ask(t, http.MethodPost, "/charges", key); res.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Origin") {
			t.Errorf("%s: a page of another origin may read it: %v", what, res.Header)
		}
	}
}

// What the gateway answers itself a page of another origin may read, as it may what the guard answers.
func TestGatewayAnswersAreShared(t *testing.T) {
	dead := newUpstream(t, charging)
	dead.Close()
	for name, url := range map[string]string{"unreachable": dead.url(), "unknown": newUpstream(t, says("")).url()} {
		l := newLab(t, url, gateway.Options{Guard: idemhttp.Options{CORSOrigins: []string{shop}}})
		got := l.do(post("k", "body", "Origin", shop))
		if got.status != http.StatusBadGateway || got.header.Get("Access-Control-Allow-Origin") != shop || !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "Idempotency-Status") {
			t.Errorf("%s: got %d %v, want it shared", name, got.status, got.header)
		}
	}
}
