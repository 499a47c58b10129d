package gateway_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// GW-7: path and query reach the upstream as they came (RFC 9110, 7.7), to the byte, behind the upstream's own path.
// What a URI may not hold is encoded, as net/http does; the fingerprint is of the path as it is forwarded.
func TestTarget(t *testing.T) {
	tests := []struct {
		name, base, target, want string
	}{
		{"a path", "", "/charges", "/charges"},
		{"the root", "", "/", "/"},
		{"a slash at the end", "", "/charges/", "/charges/"},
		{"a query", "", "/charges?a=1&b=2&a=3", "/charges?a=1&b=2&a=3"},
		{"an empty query", "", "/charges?", "/charges?"},
		{"a query that is no form", "", "/charges?a;b&%zz&=&c=%20+", "/charges?a;b&%zz&=&c=%20+"},
		{"a question mark in the query", "", "/a?b?c", "/a?b?c"},
		{"an encoded slash", "", "/a%2Fb", "/a%2Fb"},
		{"an encoded slash in small letters", "", "/a%2fb", "/a%2fb"},
		{"an encoded letter", "", "/%61", "/%61"},
		{"an encoded question mark", "", "/a%3Fb=c", "/a%3Fb=c"},
		{"an encoded percent sign", "", "/100%25", "/100%25"},
		{"an encoded space and plus", "", "/a%20b+c", "/a%20b+c"},
		{"a path that is not clean", "", "//a/../b", "//a/../b"},
		{"slashes only", "", "///", "///"},
		{"dots", "", "/./a/../../b", "/./a/../../b"},
		{"encoded dots", "", "/%2e%2e/a", "/%2e%2e/a"},
		{"signs that may stand there", "", "/a;b=1,c:d@e!$&'()*+~_-.", "/a;b=1,c:d@e!$&'()*+~_-."},
		{"signs that a URI may not hold are encoded", "", `/a{b}|c^d"<e>`, "/a%7Bb%7D%7Cc%5Ed%22%3Ce%3E"},
		{"brackets", "", "/a[0]", "/a[0]"},
		{"bytes that a URI may not hold are encoded", "", "/caf\xc3\xa9", "/caf%C3%A9"},
		{"a path of two colons", "", "/a:b:c", "/a:b:c"},
		{"absolute form", "", "http://public.example/a%2Fb?c=d", "/a%2Fb?c=d"},
		{"absolute form of another host", "", "http://evil.example:81/a", "/a"},
		{"absolute form without a path", "", "http://public.example", "/"},
		{"behind a base", "/api/v1", "/charges?a=1", "/api/v1/charges?a=1"},
		{"behind a base with a slash", "/api/v1/", "/charges", "/api/v1/charges"},
		{"an encoded slash behind a base", "/api", "/a%2Fb", "/api/a%2Fb"},
		{"behind a base with an encoded slash", "/a%2Fb", "/c", "/a%2Fb/c"},
		{"behind a base, not clean", "/api", "//a/../b", "/api//a/../b"},
		{"behind a base, signs that a URI may not hold are encoded", "/api", "/{id}", "/api/%7Bid%7D"},
	}
	for _, tt := range tests {
		for _, way := range forwardings {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				up := newUpstream(t, charging)
				c := dial(t, serve(t, newLab(t, up.url()+tt.base, gateway.Options{})))
				c.send(t, "%s %s HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx", way.method, tt.target)
				wantCreated(t, "request", c.answer(t, way.method), false)
				if got, want := recv(t, "the request", up.told).line, way.method+" "+tt.want+" HTTP/1.1"; got != want {
					t.Errorf("upstream: %q, want %q", got, want)
				}
			})
		}
	}
}

// GW-7: what is forwarded is what the fingerprint is of: targets that reach the upstream differently are different.
func TestTargetsAreTold(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{})
	wantCreated(t, "first", l.do(request("POST", "/a%2Fb?x=1", "", "Idempotency-Key", "k")), false)
	for _, target := range []string{"/a/b?x=1", "/a%2fb?x=1", "/a%2Fb?x=2", "/a%2Fb", "//a%2Fb?x=1", "/a%2Fb/?x=1"} {
		wantProblem(t, target, l.do(request("POST", target, "", "Idempotency-Key", "k")), 422, problem.KeyReused, "")
	}
	for _, targets := range [][2]string{{"/{id}", "/%7Bid%7D"}, {"/caf\xc3\xa9", "/caf%C3%A9"}} {
		wantCreated(t, targets[0], l.do(request("POST", targets[0], "", "Idempotency-Key", targets[1])), false)
		wantCreated(t, targets[1], l.do(request("POST", targets[1], "", "Idempotency-Key", targets[1])), true)
	}
	wantCreated(t, "again", l.do(request("POST", "/a%2Fb?x=1", "", "Idempotency-Key", "k")), true)
	up.wantRequests(t, 3)
}

// What makes no sense is refused at construction.
func TestNewRefuses(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	good := &url.URL{Scheme: "http", Host: "upstream"}
	for _, tt := range []struct {
		name     string
		e        *retrysafe.Executor
		upstream *url.URL
		scope    idemhttp.ScopeFunc
		o        *gateway.Options
	}{
		{"no upstream", e, nil, idemhttp.SharedScope, nil},
		{"no scheme", e, &url.URL{Host: "upstream"}, idemhttp.SharedScope, nil},
		{"another scheme", e, &url.URL{Scheme: "ftp", Host: "upstream"}, idemhttp.SharedScope, nil},
		{"no host", e, &url.URL{Scheme: "http", Path: "/api"}, idemhttp.SharedScope, nil},
		{"an opaque URL", e, &url.URL{Scheme: "http", Opaque: "upstream"}, idemhttp.SharedScope, nil},
		{"a user", e, &url.URL{Scheme: "http", Host: "upstream", User: url.User("me")}, idemhttp.SharedScope, nil},
		{"a query", e, &url.URL{Scheme: "http", Host: "upstream", RawQuery: "a=1"}, idemhttp.SharedScope, nil},
		{"a fragment", e, &url.URL{Scheme: "http", Host: "upstream", Fragment: "a"}, idemhttp.SharedScope, nil},
		{"no executor", nil, good, idemhttp.SharedScope, nil},
		{"no scope", e, good, nil, nil},
		{"UpstreamTimeout", e, good, idemhttp.SharedScope, &gateway.Options{UpstreamTimeout: -time.Second}},
		{"DialTimeout", e, good, idemhttp.SharedScope, &gateway.Options{DialTimeout: -time.Second}},
		{"UpstreamIdle", e, good, idemhttp.SharedScope, &gateway.Options{UpstreamIdle: -time.Second}},
		{"the guard's options", e, good, idemhttp.SharedScope, &gateway.Options{Guard: idemhttp.Options{MaxBody: -1}}},
		{"the guard's limit of answers", e, good, idemhttp.SharedScope, &gateway.Options{Guard: idemhttp.Options{MaxResponse: -1}}},
		{"the guard's methods", e, good, idemhttp.SharedScope, &gateway.Options{Guard: idemhttp.Options{Methods: []string{"GET"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if g, err := gateway.New(tt.e, tt.upstream, tt.scope, tt.o); err == nil {
				t.Errorf("New gave %v, want an error", g)
			}
		})
	}
	if _, err := gateway.New(e, good, idemhttp.SharedScope, nil); err != nil {
		t.Errorf("New with defaults: %v", err)
	}
}

// An unused connection to the upstream is dropped before the upstream does so.
func TestIdleConnectionsAreDropped(t *testing.T) {
	closed := make(chan struct{})
	up := newUpstream(t, func(p *peer) {
		charging(p)
		close(closed)
	})
	l := newLab(t, up.url(), gateway.Options{UpstreamIdle: 50 * time.Millisecond})
	wantCreated(t, "request", l.do(post("k", "body")), false)
	select {
	case <-closed:
	case <-time.After(patience / 4):
		t.Error("the gateway keeps the connection")
	}
}
