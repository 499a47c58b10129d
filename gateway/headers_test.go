package gateway_test

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// forwardings are the two ways of a request: guarded, and not.
var forwardings = []struct {
	name, method string
	lines        []string
}{{"guarded", "POST", []string{"Idempotency-Key", "k"}}, {"not guarded", "PUT", nil}}

// sent forwards a request with more header lines on each way, and gives it to check as it stood on the wire.
func sent(t *testing.T, o gateway.Options, lines []string, check func(t *testing.T, got received)) {
	t.Helper()
	for _, way := range forwardings {
		t.Run(way.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), o)
			wantCreated(t, "request", l.do(request(way.method, "http://public.example/charges", "body", append(lines, way.lines...)...)), false)
			check(t, recv(t, "the request", up.told))
		})
	}
}

// wantLines expects the values of a header upstream, in the order of its lines.
func wantLines(t *testing.T, got received, name string, want ...string) {
	t.Helper()
	if values := got.header(name); !slices.Equal(values, want) {
		t.Errorf("%s is %q upstream, want %q", name, values, want)
	}
}

// What belongs to the connection with the caller ends there (RFC 9110, 7.6.1); the rest passes as it is.
func TestRequestHeaders(t *testing.T) {
	lines := []string{
		"Connection", "X-Hop, x-other-hop", "Connection", "keep-alive,close", "X-Hop", "1", "X-Other-Hop", "1",
		"Keep-Alive", "timeout=5", "Proxy-Connection", "keep-alive", "Proxy-Authorization", "Basic secret", "Proxy-Authenticate", "Basic", "Te", "trailers", "Trailer", "X-Sum",
		"Authorization", "Bearer 1", "Cookie", "a=1; b=2", "Accept", "a/a", "Accept", "b/b", "Content-Type", "application/json", "X-Empty", "", "X-Case", "AbC é", "Traceparent", "00-1",
	}
	sent(t, gateway.Options{}, lines, func(t *testing.T, got received) {
		for _, name := range []string{"Connection", "X-Hop", "X-Other-Hop", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Te", "Trailer", "User-Agent", "Expect", "Transfer-Encoding"} {
			wantLines(t, got, name)
		}
		wantLines(t, got, "Authorization", "Bearer 1")
		wantLines(t, got, "Cookie", "a=1; b=2")
		wantLines(t, got, "Accept", "a/a", "b/b")
		wantLines(t, got, "Content-Type", "application/json")
		wantLines(t, got, "X-Empty", "")
		wantLines(t, got, "X-Case", "AbC é")
		wantLines(t, got, "Traceparent", "00-1")
		wantLines(t, got, "Content-Length", "4")
	})
	sent(t, gateway.Options{}, []string{"User-Agent", "caller/1"}, func(t *testing.T, got received) { wantLines(t, got, "User-Agent", "caller/1") })
}

// HR-8: a guarded answer is asked for in no coding that another caller may not read; others choose for themselves.
func TestAcceptEncoding(t *testing.T) {
	sent(t, gateway.Options{}, []string{"Accept-Encoding", "gzip"}, func(t *testing.T, got received) {
		want := "gzip"
		if strings.HasPrefix(got.line, "POST") {
			want = "identity"
		}
		wantLines(t, got, "Accept-Encoding", want)
	})
	sent(t, gateway.Options{}, nil, func(t *testing.T, got received) {
		if strings.HasPrefix(got.line, "PUT") {
			wantLines(t, got, "Accept-Encoding")
		}
	})
}

// A body is framed upstream as the caller framed it.
func TestRequestFraming(t *testing.T) {
	for _, s := range sendings {
		for _, way := range forwardings {
			t.Run(s.name+", "+way.name, func(t *testing.T) {
				up := newUpstream(t, charging)
				c := dial(t, serve(t, newLab(t, up.url(), gateway.Options{})))
				c.send(t, "%s / HTTP/1.1\r\nHost: api\r\n", way.method)
				for i := 0; i < len(way.lines); i += 2 {
					c.send(t, "%s: %s\r\n", way.lines[i], way.lines[i+1])
				}
				switch {
				case !s.chunked:
					c.send(t, "Content-Length: %d\r\n\r\n%s", len(s.body), s.body)
				case s.body == "":
					c.send(t, "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
				default:
					c.send(t, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(s.body), s.body)
				}
				wantCreated(t, "request", c.answer(t, way.method), false)
				got := recv(t, "the request", up.told)
				if got.chunked != s.chunked || string(got.body) != s.body {
					t.Errorf("upstream: chunked %v, %d bytes: want chunked %v, %d bytes", got.chunked, len(got.body), s.chunked, len(s.body))
				}
				if lengths := got.header("Content-Length"); len(lengths) != 1 && !s.chunked {
					t.Errorf("Content-Length is %q upstream", lengths)
				}
			})
		}
	}
}

// The upstream's own name is asked for; who asked, and for what, stands beside it.
func TestForwardedHeaders(t *testing.T) {
	told := []string{"X-Forwarded-For", "203.0.113.1, 198.51.100.2", "X-Forwarded-For", "198.51.100.3", "X-Forwarded-Host", "shop.example", "X-Forwarded-Proto", "https", "X-Forwarded-Port", "443", "Forwarded", "for=203.0.113.1", "X-Real-Ip", "203.0.113.1"}
	host := func(t *testing.T, got received) {
		if hosts := got.header("Host"); len(hosts) != 1 || !strings.HasPrefix(hosts[0], "127.0.0.1:") {
			t.Errorf("Host is %q upstream, want the upstream's own", hosts)
		}
	}
	t.Run("from a trusted peer", func(t *testing.T) {
		sent(t, gateway.Options{}, told, func(t *testing.T, got received) {
			host(t, got)
			wantLines(t, got, "X-Forwarded-For", "203.0.113.1, 198.51.100.2, 198.51.100.3, 127.0.0.1")
			wantLines(t, got, "X-Forwarded-Host", "shop.example")
			wantLines(t, got, "X-Forwarded-Proto", "https")
			wantLines(t, got, "X-Forwarded-Port", "443")
			wantLines(t, got, "Forwarded", "for=203.0.113.1")
			wantLines(t, got, "X-Real-Ip", "203.0.113.1")
		})
	})
	nobody := gateway.Options{TrustProxy: []netip.Prefix{}}
	for name, lines := range map[string][]string{"from a peer that is not trusted": told, "named by Connection": append(told, "Connection", "X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto"), "by nobody": nil} {
		t.Run(name, func(t *testing.T) {
			sent(t, nobody, lines, func(t *testing.T, got received) {
				host(t, got)
				wantLines(t, got, "X-Forwarded-For", "127.0.0.1")
				wantLines(t, got, "X-Forwarded-Host", "public.example")
				wantLines(t, got, "X-Forwarded-Proto", "http")
				wantLines(t, got, "X-Forwarded-Port")
				wantLines(t, got, "Forwarded")
				wantLines(t, got, "X-Real-Ip")
			})
		})
	}
}

// A caller who came over TLS, or over IPv6, is told as such.
func TestForwardedHeadersOfTheConnection(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	r := post("k", "body")
	r.TLS, r.RemoteAddr = &tls.ConnectionState{}, "[2001:db8::1]:4711"
	wantCreated(t, "request", l.do(r), false)
	got := recv(t, "the request", up.told)
	wantLines(t, got, "X-Forwarded-Proto", "https")
	wantLines(t, got, "X-Forwarded-For", "2001:db8::1")
}

// The Connection header cannot have the key removed on its way: the retry upstream would be a stranger.
func TestConnectionNamesTheKey(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	for _, replayed := range []bool{false, true} {
		wantCreated(t, "request", l.do(post("k", "body", "Connection", "idempotency-key, close")), replayed)
	}
	got := recv(t, "the request", up.told)
	wantLines(t, got, "Idempotency-Key", "k")
	wantLines(t, got, "Connection")
	up.wantRequests(t, 1)
}

// What belongs to the connection with the upstream ends at the gateway, and what belongs to the exchange at the replay.
func TestAnswerHeaders(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 201 Created\r\nConnection: X-Hop, keep-alive\r\nX-Hop: hop-secret\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n"+
		"Set-Cookie: a=one-time-secret\r\nSet-Cookie: b=one-time-secret\r\nX-Custom: v\r\nEtag: \"1\"\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: up\r\nContent-Length: 2\r\n\r\nok"))
	s := memstore.New(nil)
	l := labOver(t, s, up.url(), idemhttp.SharedScope, gateway.Options{})
	first, again := l.do(post("k", "body")), l.do(post("k", "body"))
	for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Proxy-Authenticate", "Upgrade"} {
		for what, got := range map[string]reply{"first": first, "again": again} {
			if lines := got.header[name]; lines != nil {
				t.Errorf("%s: %s is %q", what, name, lines)
			}
		}
	}
	if len(first.header["Set-Cookie"]) != 2 || first.header.Get("X-Custom") != "v" || first.header.Get("Server") != "up" || first.header.Get("Etag") != `"1"` || first.body != "ok" {
		t.Errorf("first: %v", first)
	}
	if again.header["Set-Cookie"] != nil || again.header.Get("X-Custom") != "" || again.header.Get("Date") == "Mon, 01 Jan 2024 00:00:00 GMT" || again.header.Get("Etag") != `"1"` || again.body != "ok" {
		t.Errorf("again: %v", again)
	}
	page, err := s.List(t.Context(), retrysafe.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if strings.Contains(string(e.Body), "secret") {
			t.Errorf("the store keeps what belongs to one exchange: %q", e.Body)
		}
	}
}

// The scope header is believed from one kind of peer, once, and if nobody on the way could have had it removed.
func TestHeaderScope(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, peer string
		lines      []string
		scope      string // "": refused
	}{
		{"a trusted peer", "10.1.2.3:9", []string{"X-Tenant", "t-7"}, "t-7"},
		{"in other letters", "10.1.2.3:9", []string{"x-tenant", "t-7"}, "t-7"},
		{"a trusted peer over IPv6", "[fd00::1]:9", []string{"X-Tenant", "t-7"}, "t-7"},
		{"a trusted peer over IPv6, with a zone", "[fd00::1%eth0]:9", []string{"X-Tenant", "t-7"}, "t-7"},
		{"a trusted peer in an IPv6 form", "[::ffff:10.1.2.3]:9", []string{"X-Tenant", "t-7"}, "t-7"},
		{"case counts", "10.1.2.3:9", []string{"X-Tenant", "T-7"}, "T-7"},
		{"missing", "10.1.2.3:9", nil, ""},
		{"empty", "10.1.2.3:9", []string{"X-Tenant", ""}, ""},
		{"doubled", "10.1.2.3:9", []string{"X-Tenant", "t-7", "X-Tenant", "t-8"}, ""},
		{"doubled, equal", "10.1.2.3:9", []string{"X-Tenant", "t-7", "X-Tenant", "t-7"}, ""},
		{"a peer that is not trusted", "11.1.2.3:9", []string{"X-Tenant", "t-7"}, ""},
		{"a peer that is not trusted, and says that it is", "11.1.2.3:9", []string{"X-Tenant", "t-7", "X-Forwarded-For", "10.1.2.3"}, ""},
		{"loopback that is not trusted", "127.0.0.1:9", []string{"X-Tenant", "t-7"}, ""},
		{"no peer", "", []string{"X-Tenant", "t-7"}, ""},
		{"a socket of this machine", "@", []string{"X-Tenant", "t-7"}, ""},
		{"named by Connection", "10.1.2.3:9", []string{"X-Tenant", "t-7", "Connection", "close, X-TENANT"}, ""},
		{"named by the second Connection line", "10.1.2.3:9", []string{"X-Tenant", "t-7", "Connection", "close", "Connection", " x-tenant "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			s := memstore.New(nil)
			l := labOver(t, s, up.url(), gateway.HeaderScope("x-tenant", trusted), gateway.Options{})
			r := post("k", "body", tt.lines...)
			r.RemoteAddr = tt.peer
			got := l.do(r)
			if tt.scope != "" {
				wantCreated(t, "request", got, false)
				if _, err := l.executor.Inspect(t.Context(), retrysafe.Key{Scope: tt.scope, Name: "k"}.ID()); err != nil {
					t.Errorf("scope %q: %v", tt.scope, err)
				}
				return
			}
			wantProblem(t, "request", got, 401, problem.ScopeMissing, "")
			up.wantRequests(t, 0)
			if page, err := s.List(t.Context(), retrysafe.Query{}); err != nil || len(page.Entries) != 0 {
				t.Errorf("%d entries stand, %v: want no claim", len(page.Entries), err)
			}
			without := post("", "body", tt.lines...)
			without.Header.Del("Idempotency-Key")
			without.RemoteAddr = tt.peer
			wantCreated(t, "without a key", l.do(without), false)
		})
	}
}

// TN-1: two tenants with one key are two operations, and neither learns of the other.
func TestTenantsNeverMeet(t *testing.T) {
	up := newUpstream(t, charging)
	l := labOver(t, memstore.New(nil), up.url(), gateway.HeaderScope("X-Tenant", gateway.Loopback()), gateway.Options{})
	wantCreated(t, "one", l.do(post("k", "body", "X-Tenant", "one")), false)
	wantCreated(t, "two", l.do(post("k", "another body", "X-Tenant", "two")), false)
	wantCreated(t, "one again", l.do(post("k", "body", "X-Tenant", "one")), true)
	wantProblem(t, "two reuses its own", l.do(post("k", "body", "X-Tenant", "two")), 422, problem.KeyReused, "")
	up.wantRequests(t, 2)
}

var _ http.Handler = (*gateway.Gateway)(nil)
