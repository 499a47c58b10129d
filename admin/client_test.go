package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

// serve serves h over a real connection and returns a Client of it.
func serve(t *testing.T, h http.Handler) admin.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return admin.Client{URL: server.URL, Token: token}
}

func TestClientSeesWhatTheAPISays(t *testing.T) {
	l := newLab(t, nil)
	c := serve(t, l)
	l.completes(t, order)
	l.ends(t, key("order-1002"), retrysafe.Outcome{Reason: "reset"})
	l.ends(t, retrysafe.Key{Scope: "tenant-8", Name: "order-1003"}, retrysafe.Outcome{})
	l.ends(t, key("refund-7"), retrysafe.Outcome{})
	d, err := c.Get(t.Context(), order.ID(), true)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	var want admin.Detail
	read(t, l.get(t, path(order)+"?answer=1"), &want)
	if diff := cmp.Diff(want, d); diff != "" || d.Answer == nil || string(d.Answer.Body) != string(created.Body) {
		t.Errorf("Get: answer %+v, -want +got\n%s", d.Answer, diff)
	}
	page, err := c.List(t.Context(), retrysafe.Filter{State: retrysafe.Unknown, Scope: order.Scope, Prefix: "order-10", Limit: 10})
	if err != nil || len(page.Keys) != 1 || page.Keys[0].Key != "order-1002" || page.Keys[0].Reason != "reset" {
		t.Errorf("List: %+v, %v, want order-1002", page, err)
	}
}

func TestClientReadsAllPages(t *testing.T) {
	l := newLab(t, nil)
	c := serve(t, l)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		l.completes(t, key(name))
	}
	var got []string
	for f := (retrysafe.Filter{Limit: 2}); ; {
		page, err := c.List(t.Context(), f)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		got = append(got, names(page)...)
		if f.Cursor = page.Next; f.Cursor == "" || len(got) > 5 {
			break
		}
	}
	if len(got) != 5 {
		t.Errorf("pages hold %q, want 5 keys", got)
	}
}

func TestClientDecides(t *testing.T) {
	l := newLab(t, nil)
	c := serve(t, l)
	l.ends(t, order, retrysafe.Outcome{})
	resolution := admin.Resolution{Action: admin.Complete, By: "ana", Reason: "seen", Status: http.StatusCreated,
		Headers: http.Header{"Location": {"/charges/7"}}, Body: []byte{0, 0xff}}
	d, err := c.Resolve(t.Context(), order.ID(), resolution)
	if err != nil || d.State != "completed" || len(d.History) != 1 || d.History[0].By != "ana" {
		t.Fatalf("Resolve: %+v, %v", d, err)
	}
	if d, err = c.Get(t.Context(), order.ID(), true); err != nil {
		t.Fatalf("Get: %v", err)
	}
	want := &admin.Answer{Status: http.StatusCreated, HeaderNames: []string{"Location"}, BodyBytes: 2, Headers: resolution.Headers, Body: resolution.Body}
	if diff := cmp.Diff(want, d.Answer); diff != "" {
		t.Errorf("the answer: -want +got\n%s", diff)
	}
	_, err = c.Forget(t.Context(), order.ID(), admin.Forgetting{By: "bob", Reason: "wrong shop"})
	p, ok := errors.AsType[*admin.Error](err)
	if !ok || p.Status != http.StatusConflict || p.State != "completed" || !p.Force || !strings.Contains(err.Error(), p.Detail) {
		t.Errorf("Forget: %v (%+v), want the API's refusal with its words", err, p)
	}
	if d, err = c.Forget(t.Context(), order.ID(), admin.Forgetting{By: "bob", Reason: "wrong shop", Force: true}); err != nil || d.State != "free" {
		t.Errorf("Forget with force: %+v, %v, want free", d, err)
	}
}

func TestClientOfSomethingElse(t *testing.T) {
	api := newLab(t, nil)
	text := func(status int, mediaType, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			w.WriteHeader(status)
			w.Write([]byte(body))
		})
	}
	for _, tt := range []struct {
		name    string
		h       http.Handler
		change  func(*admin.Client)
		status  int // of an *admin.Error; 0: another error
		message string
	}{
		{"wrong token", api, func(c *admin.Client) { c.Token = "another-token-entirely" }, 401, "Authorization: Bearer"},
		{"no token", api, func(c *admin.Client) { c.Token = "" }, 0, "at least 16"},
		{"no URL", api, func(c *admin.Client) { c.URL = "" }, 0, "like http://127.0.0.1:8081"},
		{"address", api, func(c *admin.Client) { c.URL = "127.0.0.1:8081" }, 0, "like http://127.0.0.1:8081"},
		{"URL with a query", api, func(c *admin.Client) { c.URL += "?a=b" }, 0, "like http://127.0.0.1:8081"},
		{"path that is not the API's", api, func(c *admin.Client) { c.URL += "/v2/" }, 404, "The paths are"},
		{"a web page", text(200, "text/html", "<p>hello"), nil, 200, "its listener?"},
		{"a proxy's error", text(502, "text/html", "<p>bad gateway"), nil, 502, "its listener?"},
		{"another API's error", text(400, "application/json", `{"error":"no"}`), nil, 400, "its listener?"},
		{"a problem that is none", text(500, "application/problem+json", `{`), nil, 500, "its listener?"},
		{"a problem with another status", text(403, "application/problem+json", `{"status":200,"title":"No","detail":"not you","code":"x"}`), nil, 403, "not you"},
		{"JSON that breaks off", text(200, "application/json", `{"keys":[`), nil, 0, "read the reply"},
		{"JSON of another shape", text(200, "application/json", `[]`), nil, 0, "read the reply"},
		{"an endless reply", text(200, "application/json", strings.Repeat(" ", 64<<20+1)), nil, 0, "larger than 64 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, tt.h)
			if tt.change != nil {
				tt.change(&c)
			}
			_, err := c.List(t.Context(), retrysafe.Filter{Prefix: order.Name})
			p, ok := errors.AsType[*admin.Error](err)
			if err == nil || ok != (tt.status != 0) || ok && p.Status != tt.status {
				t.Fatalf("error %v (%+v), want status %d", err, p, tt.status)
			}
			if !strings.Contains(err.Error(), tt.message) || strings.Contains(err.Error(), order.Name) || strings.Contains(err.Error(), token) {
				t.Errorf("error %q, want %q in it, and no key or token", err, tt.message)
			}
		})
	}
}

func TestClientGivesItsTokenToNobodyElse(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	c := serve(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	_, err := c.Get(t.Context(), order.ID(), false)
	if p, ok := errors.AsType[*admin.Error](err); !ok || p.Status != http.StatusTemporaryRedirect {
		t.Errorf("error %v, want one of status 307", err)
	}
}

func TestClientOfNobody(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := admin.Client{URL: server.URL, Token: token}
	_, err := c.List(t.Context(), retrysafe.Filter{Prefix: order.Name})
	if err == nil || !strings.Contains(err.Error(), "is the process running") || !strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), order.Name) {
		t.Errorf("error %v, want one that asks whether the process runs, without the key", err)
	}
}

func TestClientGivesUp(t *testing.T) {
	over := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(func() { close(over) })
	c.Timeout = 10 * time.Millisecond
	if _, err := c.Get(t.Context(), order.ID(), false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline exceeded", err)
	}
}
