package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

func TestToken(t *testing.T) {
	l := newLab(t, nil)
	paths := []string{"/api/keys", path(order), "/metrics", "/", "/api", "/nowhere"}
	for _, tt := range []struct {
		name  string
		lines []string
		pass  bool
	}{
		{"none", nil, false},
		{"right", []string{"Bearer " + token}, true},
		{"scheme in lower case", []string{"bearer " + token}, true},
		{"two spaces", []string{"Bearer  " + token}, true},
		{"another scheme", []string{"Basic " + token}, false},
		{"bare", []string{token}, false},
		{"wrong", []string{"Bearer correct-horse-batterz"}, false},
		{"its beginning", []string{"Bearer " + token[:16]}, false},
		{"with a tail", []string{"Bearer " + token + "x"}, false},
		{"in upper case", []string{"Bearer " + strings.ToUpper(token)}, false},
		{"empty", []string{"Bearer "}, false},
		{"twice", []string{"Bearer " + token, "Bearer " + token}, false},
	} {
		for _, p := range paths {
			r := request(t, http.MethodGet, p, "")
			delete(r.Header, "Authorization")
			if tt.lines != nil {
				r.Header["Authorization"] = tt.lines
			}
			w := send(t, l, r)
			if pass := w.Code != http.StatusUnauthorized; pass != tt.pass {
				t.Errorf("%s, GET %s: %d, want pass %v", tt.name, p, w.Code, tt.pass)
			}
			if tt.pass {
				continue
			}
			wantRefused(t, w, http.StatusUnauthorized, "unauthorized", "Authorization: Bearer")
			want := `Bearer realm="retrysafe"`
			if tt.lines != nil {
				want += `, error="invalid_token"`
			}
			if got := w.Header().Get("WWW-Authenticate"); got != want {
				t.Errorf("%s: WWW-Authenticate %q, want %q", tt.name, got, want)
			}
		}
	}
}

func TestNoDecisionWithoutToken(t *testing.T) {
	l := newLab(t, nil)
	l.ends(t, order, retrysafe.Outcome{})
	for _, verb := range []string{"resolve", "forget"} {
		r := request(t, http.MethodPost, path(order, verb), signed(""))
		r.Header.Del("Authorization")
		wantRefused(t, send(t, l, r), http.StatusUnauthorized, "unauthorized")
	}
	if d := l.detail(t, order); d.State != "unknown" || len(d.History) != 0 {
		t.Errorf("%+v, want it unchanged", d)
	}
}

func TestHosts(t *testing.T) {
	l := newLab(t, nil)
	api := newAPI(t, l.executor, &admin.Options{Token: token, Hosts: []string{"Admin.Example.org.", "192.0.2.7", "[2001:db8::7]"}})
	for _, tt := range []struct {
		host  string
		local string // address that the connection came in on
		pass  bool
	}{
		{host: "localhost", pass: true},
		{host: "LOCALHOST:8081", pass: true},
		{host: "localhost.:8081", pass: true},
		{host: "127.0.0.1:8081", pass: true},
		{host: "127.8.9.10", pass: true},
		{host: "[::1]:8081", pass: true},
		{host: "[::1]", pass: true},
		{host: "[::ffff:127.0.0.1]:8081", pass: true},
		{host: "10.1.2.3:8081", local: "10.1.2.3:8081", pass: true},
		{host: "[fe80::1]:8081", local: "[fe80::1%eth0]:8081", pass: true},
		{host: "admin.example.org", pass: true},
		{host: "ADMIN.example.org.:443", pass: true},
		{host: "192.0.2.7:8081", pass: true},
		{host: "[2001:DB8:0::7]", pass: true},
		{host: "evil.example.org:8081"},
		{host: "127.0.0.1.evil.example.org"},
		{host: "localhost.evil.example.org"},
		{host: "sub.admin.example.org"},
		{host: "10.1.2.3:8081"},
		{host: "10.1.2.4:8081", local: "10.1.2.3:8081"},
		{host: "0.0.0.0:8081", local: "127.0.0.1:8081"},
		{host: "2130706433"}, // 127.0.0.1 to some resolvers
		{host: ""},
		{host: ":8081"},
		{host: "a:b:c"},
	} {
		r := request(t, http.MethodGet, "/api/keys", "")
		r.Host = tt.host
		if tt.local != "" {
			addr, err := net.ResolveTCPAddr("tcp", tt.local)
			if err != nil {
				t.Fatalf("ResolveTCPAddr(%q): %v", tt.local, err)
			}
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
		}
		w := send(t, api, r)
		if pass := w.Code == http.StatusOK; pass != tt.pass {
			t.Errorf("Host %q on %q: %d, want pass %v", tt.host, tt.local, w.Code, tt.pass)
		}
		if !tt.pass {
			wantRefused(t, w, http.StatusMisdirectedRequest, "host-unknown", "hosts")
		}
	}
}

// TestListenerIsKnownByItsAddress asks over a real connection, under the listener's address and under a name that
// somebody pointed at it.
func TestListenerIsKnownByItsAddress(t *testing.T) {
	l := newLab(t, nil)
	server := httptest.NewServer(l)
	defer server.Close()
	for host, want := range map[string]int{server.Listener.Addr().String(): http.StatusOK, "rebound.example.org": http.StatusMisdirectedRequest} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		fmt.Fprintf(conn, "GET /api/keys HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", host, token)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("Host %s: %v", host, err)
		}
		if resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, resp.StatusCode, want)
		}
		conn.Close()
	}
}

func TestForeignPagesCannotDecide(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"program", nil, http.StatusOK},
		{"own page", http.Header{"Sec-Fetch-Site": {"same-origin"}}, http.StatusOK},
		{"other site", http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		{"other port", http.Header{"Sec-Fetch-Site": {"same-site"}}, http.StatusForbidden},
		{"other origin of an old browser", http.Header{"Origin": {"https://evil.example.org"}}, http.StatusForbidden},
		{"null origin", http.Header{"Origin": {"null"}}, http.StatusForbidden},
		{"own origin of an old browser", http.Header{"Origin": {"http://127.0.0.1:8081"}}, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, nil)
			l.ends(t, order, retrysafe.Outcome{})
			r := request(t, http.MethodPost, path(order, "forget"), signed(""))
			for name, values := range tt.header {
				r.Header[name] = values
			}
			w := send(t, l, r)
			if w.Code != tt.want {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
			if w.Code == http.StatusForbidden {
				wantRefused(t, w, http.StatusForbidden, "cross-origin", "page")
			}
		})
	}
}

func TestPathsAndMethods(t *testing.T) {
	l := newLab(t, nil)
	for _, tt := range []struct {
		method, target string
		status         int
		allow          string
	}{
		{http.MethodHead, "/api/keys", http.StatusOK, ""},
		{http.MethodHead, "/healthz", http.StatusOK, ""},
		{http.MethodPost, "/api/keys", http.StatusMethodNotAllowed, "GET, HEAD"},
		{http.MethodDelete, path(order), http.StatusMethodNotAllowed, "GET, HEAD"},
		{http.MethodGet, path(order, "resolve"), http.StatusMethodNotAllowed, "POST"},
		{http.MethodHead, path(order, "forget"), http.StatusMethodNotAllowed, "POST"},
		{http.MethodOptions, path(order, "forget"), http.StatusMethodNotAllowed, "POST"},
		{http.MethodPost, "/metrics", http.StatusMethodNotAllowed, "GET, HEAD"},
		{http.MethodPost, "/healthz", http.StatusMethodNotAllowed, "GET, HEAD"},
		{http.MethodPost, "/readyz", http.StatusMethodNotAllowed, "GET, HEAD"},
		{http.MethodGet, "/", http.StatusNotFound, ""},
		{http.MethodGet, "/api", http.StatusNotFound, ""},
		{http.MethodGet, "/api/keys/", http.StatusNotFound, ""},
		{http.MethodPost, path(order, "complete"), http.StatusNotFound, ""},
		{http.MethodGet, "/metrics", http.StatusNotFound, ""},
	} {
		w := send(t, l, request(t, tt.method, tt.target, ""))
		if w.Code != tt.status || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q, want %d, %q", tt.method, tt.target, w.Code, w.Header().Get("Allow"), tt.status, tt.allow)
		}
	}
}

func TestMetricsAreServedToWhoHasTheToken(t *testing.T) {
	l := newLab(t, nil)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
	api := newAPI(t, l.executor, &admin.Options{Token: token, Metrics: metrics})
	r := request(t, http.MethodGet, "/metrics", "")
	if w := send(t, api, r); w.Code != http.StatusOK || w.Body.String() != "up 1\n" {
		t.Errorf("%d %q, want the metrics", w.Code, w.Body)
	}
	r.Header.Del("Authorization")
	wantRefused(t, send(t, api, r), http.StatusUnauthorized, "unauthorized")
}

func TestProblemsPointToTheDocumentsOfTheirDeployment(t *testing.T) {
	l := newLab(t, nil)
	api := newAPI(t, l.executor, &admin.Options{Token: token, DocsBase: "https://docs.example.com/rs/"})
	w := httptest.NewRecorder()
	api.ServeHTTP(w, request(t, http.MethodGet, "/api/keys/7", ""))
	var p admin.Error
	read(t, w.Body.String(), &p)
	if want := "https://docs.example.com/rs/operate.md#request-invalid"; p.Type != want {
		t.Errorf("type %q, want %q", p.Type, want)
	}
	if admin.DefaultDocsBase != idemhttp.DefaultDocsBase {
		t.Errorf("default base %q, that of idemhttp is %q", admin.DefaultDocsBase, idemhttp.DefaultDocsBase)
	}
}

func TestNewRefuses(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	for _, tt := range []struct {
		name string
		e    *retrysafe.Executor
		o    *admin.Options
		want string
	}{
		{"no executor", nil, &admin.Options{Token: token}, "required"},
		{"no options", e, nil, "required"},
		{"no token", e, &admin.Options{}, "at least 16"},
		{"short token", e, &admin.Options{Token: "fifteen-chars-x"}, "15 bytes"},
		{"token with a line end", e, &admin.Options{Token: token + "\n"}, "printable ASCII"},
		{"token with a space", e, &admin.Options{Token: "correct horse battery"}, "no spaces"},
		{"token that is no ASCII", e, &admin.Options{Token: "schlüssel-zum-glück"}, "printable ASCII"},
		{"host with a port", e, &admin.Options{Token: token, Hosts: []string{"admin:8081"}}, "admin:8081"},
		{"host with a scheme", e, &admin.Options{Token: token, Hosts: []string{"https://admin"}}, "without scheme"},
		{"host with a wildcard", e, &admin.Options{Token: token, Hosts: []string{"*.example.org"}}, "wildcard"},
		{"empty host", e, &admin.Options{Token: token, Hosts: []string{""}}, `host ""`},
	} {
		_, err := admin.New(tt.e, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that says %q", tt.name, err, tt.want)
		}
		if tt.o != nil && tt.o.Token != "" && err != nil && strings.Contains(err.Error(), tt.o.Token) {
			t.Errorf("%s: the error tells the token", tt.name)
		}
	}
}
