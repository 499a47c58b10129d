package gateway_test

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Nobody gets round a route by spelling its path in another way.

// spelled are the routes of the table below: one strict, one that guards nothing, the rest as they come.
func spelled() []gateway.Route {
	return []gateway.Route{
		{Name: "charges", Path: "/charges", Guard: idemhttp.Options{Required: true}},
		{Name: "capture", Path: "/charges/{id}/capture", Guard: idemhttp.Options{Required: true}},
		{Name: "coffee", Path: "/caf%C3%A9/a:b", Guard: idemhttp.Options{Required: true}},
		{Name: "hooks", Path: "/hooks/{rest...}", Unguarded: true},
	}
}

const (
	refusedPath = "refused" // path-ambiguous
	strict      = "strict"  // key-missing: a route's rule
	passed      = "passed"
)

var spellings = []struct{ name, target, want string }{
	{"plain", "/charges", strict},
	{"with a query", "/charges?a=..//;%63", strict},
	{"a segment in a hole", "/charges/1/capture", strict},
	{"an encoded space in a hole", "/charges/a%20b/capture", strict},
	{"an encoded percent sign in a hole", "/charges/100%25/capture", strict},
	{"three dots in a hole", "/charges/.../capture", strict},
	{"dots within a name", "/charges/a..b/capture", strict},
	{"signs that may stand there", "/charges/a=1,c@d!$&'()*+~_-./capture", strict},
	{"a byte that must be encoded", "/caf%C3%A9/a:b", strict},
	{"small hexadecimal letters", "/caf%c3%a9/a:b", strict},
	{"a byte that must be encoded and is not", "/caf\xc3\xa9/a:b", strict},
	{"an encoded colon", "/caf%C3%A9/a%3Ab", strict},
	{"absolute form", "http://api/charges", strict},
	{"absolute form of another host", "http://other.example/charges", strict},
	{"another path", "/orders", passed},
	{"the root", "/", passed},
	{"absolute form without a path", "http://api", passed},
	{"behind the unguarded prefix", "/hooks/a", passed},
	{"deep behind the unguarded prefix", "/hooks/a/b/c", passed},
	{"right behind the unguarded prefix", "/hooks/", passed},
	{"the prefix without its slash", "/hooks", passed},
	{"an encoded question mark in an unguarded rest", "/hooks/a%3Fb", passed},
	{"capitals (documented)", "/Charges", passed},
	{"a slash at the end (documented)", "/charges/", passed},
	{"a longer name", "/chargesx", passed},
	{"a shorter name", "/charge", passed},
	{"a space at the end", "/charges%20", passed},

	{"an encoded letter", "/%63harges", refusedPath},
	{"the last letter encoded", "/charge%73", refusedPath},
	{"a capital encoded", "/%43harges", refusedPath},
	{"an encoded digit", "/charges/%31/capture", refusedPath},
	{"an encoded hyphen", "/a%2Db", refusedPath},
	{"an encoded tilde", "/a%7Eb", refusedPath},
	{"an encoded underscore", "/a%5fb", refusedPath},
	{"an encoded dot", "/a%2Eb", refusedPath},
	{"two slashes", "//charges", refusedPath},
	{"two slashes within", "/charges//capture", refusedPath},
	{"two slashes at the end", "/charges//", refusedPath},
	{"slashes only", "///", refusedPath},
	{"a dot", "/./charges", refusedPath},
	{"a dot at the end", "/charges/.", refusedPath},
	{"up and back", "/a/../charges", refusedPath},
	{"up at the end", "/charges/1/..", refusedPath},
	{"above the root", "/../charges", refusedPath},
	{"encoded dots", "/a/%2e%2e/charges", refusedPath},
	{"one dot encoded", "/a/.%2E/charges", refusedPath},
	{"out of the unguarded prefix", "/hooks/../charges", refusedPath},
	{"out of the unguarded prefix, encoded", "/hooks/%2e%2e/charges", refusedPath},
	{"out of the unguarded prefix by a backslash", `/hooks\..\charges`, refusedPath},
	{"out of the unguarded prefix by an encoded slash", "/hooks/..%2fcharges", refusedPath},
	{"out of the unguarded prefix, for Tomcat", "/hooks/..;/charges", refusedPath},
	{"an encoded slash", "/charges%2F1/capture", refusedPath},
	{"an encoded slash in small letters", "/charges%2f", refusedPath},
	{"a leading encoded slash", "/%2fcharges", refusedPath},
	{"a backslash", `/charges\`, refusedPath},
	{"an encoded backslash", "/charges%5C1", refusedPath},
	{"a parameter", "/charges;a=1", refusedPath},
	{"an empty parameter", "/charges;", refusedPath},
	{"an encoded semicolon", "/charges%3Ba", refusedPath},
	{"a parameter for a segment", "/;a/charges", refusedPath},
	{"NUL", "/charges%00", refusedPath},
	{"a line break", "/charges%0d%0a", refusedPath},
	{"a tab", "/charges%09", refusedPath},
	{"DEL", "/charges%7f", refusedPath},
	{"encoded twice", "/%2563harges", refusedPath},
	{"a slash encoded twice", "/a%252fcharges", refusedPath},
	{"dots encoded twice", "/hooks/%252e%252e/charges", refusedPath},
	{"an overlong slash", "/hooks/..%c0%afcharges", refusedPath},
	{"bytes that are no UTF-8", "/charges%ff", refusedPath},
	{"absolute form, not clean", "http://api//charges", refusedPath},
}

func TestSpellings(t *testing.T) {
	up := newUpstream(t, charging)
	l := newLab(t, up.url(), gateway.Options{Routes: spelled()})
	lax := newLab(t, up.url(), gateway.Options{Routes: spelled(), AllowAmbiguousPaths: true})
	none := newLab(t, up.url(), gateway.Options{})
	for _, tt := range spellings {
		t.Run(tt.name, func(t *testing.T) {
			got := l.do(request("POST", tt.target, ""))
			switch tt.want {
			case refusedPath:
				wantProblem(t, "POST", got, 400, problem.PathAmbiguous, "")
				wantCreated(t, "GET", l.do(request("GET", tt.target, "")), false)
				if got := lax.do(request("POST", tt.target, "")); strings.Contains(got.body, string(problem.PathAmbiguous)) {
					t.Errorf("POST where ambiguous paths are allowed: got %d %q", got.status, got.body)
				}
				wantCreated(t, "POST to a gateway without routes", none.do(request("POST", tt.target, "")), false)
			case strict:
				wantProblem(t, "POST", got, 400, problem.KeyMissing, "")
			default:
				wantCreated(t, "POST", got, false)
			}
		})
	}
}

// A method whose case is wrong is no way round either, and PUT is checked as soon as one route guards it.
func TestSpellingsOfOtherMethods(t *testing.T) {
	up := newUpstream(t, charging)
	put := append(spelled(), gateway.Route{Path: "/orders/{id}", Methods: []string{"PUT"}, Guard: idemhttp.Options{Required: true}})
	with, without := newLab(t, up.url(), gateway.Options{Routes: put}), newLab(t, up.url(), gateway.Options{Routes: spelled()})
	wantProblem(t, "post", with.do(request("post", "//charges", "")), 400, problem.PathAmbiguous, "")
	wantProblem(t, "post, plain", with.do(request("post", "/charges", "")), 400, problem.KeyInvalid, "")
	wantProblem(t, "PUT", with.do(request("PUT", "//orders/1", "")), 400, problem.PathAmbiguous, "")
	wantProblem(t, "PUT, plain", with.do(request("PUT", "/orders/1", "")), 400, problem.KeyMissing, "")
	wantCreated(t, "PUT that nothing guards", without.do(request("PUT", "//orders/1", "")), false)
}

// FuzzSpellings: however an upstream reads a path that is let through, the same route decides over what it reads.
func FuzzSpellings(f *testing.F) {
	l := fuzzGateway(f, gateway.Options{Routes: spelled()})
	lax := fuzzGateway(f, gateway.Options{Routes: spelled(), AllowAmbiguousPaths: true})
	for _, tt := range spellings {
		f.Add(tt.target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // the server refuses it
		}
		route, refused := l.RouteOf(&http.Request{Method: "POST", URL: u})
		if refused {
			return
		}
		for how := range 1 << len(readings) {
			read := u.EscapedPath()
			for i, step := range readings {
				if how&(1<<i) != 0 {
					read = step(read)
				}
			}
			plain := unescaped(read)
			if got, _ := lax.RouteOf(&http.Request{Method: "POST", URL: &url.URL{Path: plain}}); got != route {
				t.Errorf("%q went by route %q; an upstream may read %q, which is of route %q", target, route, plain, got)
			}
		}
	})
}

func fuzzGateway(f *testing.F, o gateway.Options) *gateway.Gateway {
	f.Helper()
	g, err := gateway.New(newExecutor(f), &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, idemhttp.SharedScope, &o)
	if err != nil {
		f.Fatal(err)
	}
	return g
}

func unescaped(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// readings are what servers do to a path, in an order in which one or the other does it.
var readings = []func(string) string{
	unescaped,
	func(s string) string { return strings.ReplaceAll(s, `\`, "/") },
	func(s string) string { // parameters
		segments := strings.Split(s, "/")
		for i := range segments {
			segments[i], _, _ = strings.Cut(segments[i], ";")
		}
		return strings.Join(segments, "/")
	},
	func(s string) string { // empty segments, dot segments
		clean := path.Clean("/" + s)
		if strings.HasSuffix(s, "/") && clean != "/" {
			clean += "/"
		}
		return clean
	},
	unescaped,
	func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s },
}
