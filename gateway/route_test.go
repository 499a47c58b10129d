package gateway_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

func newExecutor(t testing.TB) *retrysafe.Executor {
	t.Helper()
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRouteThatDecides(t *testing.T) {
	g, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/base"}, idemhttp.SharedScope, &gateway.Options{Routes: []gateway.Route{
		{Name: "special", Path: "/charges/special"},
		{Name: "charge", Path: "/charges/{id}"},
		{Name: "put", Path: "/charges/{id}", Methods: []string{"PUT", "GET"}},
		{Name: "charges", Path: "/charges/{rest...}"},
		{Name: "folder", Path: "/folder/"},
		{Name: "open", Path: "/open", Methods: []string{"POST", "GET"}, Unguarded: true},
		{Name: "every", Path: "/every/{a}/{b}", Unguarded: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, method, path, want string }{
		{"a literal that stands first", "POST", "/charges/special", "special"},
		{"a hole", "POST", "/charges/1", "charge"},
		{"the other default method", "PATCH", "/charges/1", "charge"},
		{"a method that only a later one names", "PUT", "/charges/1", "put"},
		{"a method that is named and not guarded", "GET", "/charges/1", "put"},
		{"no method that any names", "DELETE", "/charges/1", ""},
		{"the rest", "POST", "/charges/1/capture/2", "charges"},
		{"nothing in the rest", "POST", "/charges/", "charges"},
		{"no slash before the rest", "POST", "/charges", ""},
		{"a slash at the end", "POST", "/folder/", "folder"},
		{"no slash at the end", "POST", "/folder", ""},
		{"an unguarded route", "GET", "/open", "open"},
		{"an unguarded route, another method", "PUT", "/open", ""},
		{"an unguarded route of all methods", "BREW", "/every/1/2", "every"},
		{"a hole too few", "POST", "/every/1", ""},
		{"a hole too many", "POST", "/every/1/2/3", ""},
		{"the upstream's own path is not part of it", "POST", "/base/charges/1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, refused := g.RouteOf(request(tt.method, tt.path, "")); got != tt.want || refused {
				t.Errorf("%s %s: got route %q, refused %v, want %q", tt.method, tt.path, got, refused, tt.want)
			}
		})
	}
}

// What a route says is what happens, beside what the gateway says of the rest.
func TestRouteOptions(t *testing.T) {
	up := newUpstream(t, charging)
	long := retrysafe.Policy{OnLeaseEnd: retrysafe.Rerun, Lease: time.Minute, Retention: 2 * time.Hour, Remember: 3 * time.Hour}
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{Required: true}, Routes: []gateway.Route{
		{Path: "/policy", Guard: idemhttp.Options{Policy: &long}},
		{Path: "/tenant", Scope: func(*http.Request) (string, error) { return "", errors.New("nobody") }},
		{Path: "/small", Guard: idemhttp.Options{MaxBody: 2, MaxResponse: 3}},
		{Path: "/hooks/{rest...}", Unguarded: true},
		{Path: "/put", Methods: []string{"PUT"}},
	}})
	wantCreated(t, "policy", l.do(request("POST", "/policy", "", "Idempotency-Key", "k1")), false)
	if got := l.stands(t, "k1").Policy; got != long {
		t.Errorf("/policy: the claim has policy %+v, want the route's %+v", got, long)
	}
	wantProblem(t, "no key", l.do(request("POST", "/", "")), 400, problem.KeyMissing, "")
	wantCreated(t, "no key where none is required", l.do(request("POST", "/policy", "")), false)
	wantProblem(t, "scope", l.do(request("POST", "/tenant", "", "Idempotency-Key", "k2")), 401, problem.ScopeMissing, "")
	wantProblem(t, "body", l.do(request("POST", "/small", "123", "Idempotency-Key", "k3")), 413, problem.BodyTooLarge, "")
	wantCreated(t, "large answer", l.do(request("POST", "/small", "12", "Idempotency-Key", "k3")), false)
	if got := l.stands(t, "k3"); !got.NotKept {
		t.Error("/small: an answer over the route's bound was kept")
	}
	for range 2 {
		wantCreated(t, "unguarded", l.do(request("POST", "/hooks/a", "", "Idempotency-Key", "k4")), false)
	}
	l.wantState(t, "k4", retrysafe.Absent)
	wantCreated(t, "PUT", l.do(request("PUT", "/put", "", "Idempotency-Key", "k5")), false)
	wantCreated(t, "PUT again", l.do(request("PUT", "/put", "", "Idempotency-Key", "k5")), true)
}

func TestRouteUpstreamTimeout(t *testing.T) {
	done := make(chan struct{})
	up := newUpstream(t, func(p *peer) {
		p.request()
		<-done
	})
	defer close(done)
	l := newLab(t, up.url(), gateway.Options{Routes: []gateway.Route{{Path: "/charges", UpstreamTimeout: 20 * time.Millisecond}}})
	wantProblem(t, "an upstream that is silent", l.do(post("k", "body")), 504, problem.OutcomeUnknown, "unknown")
}

// One operation at two concrete paths of one route is two operations: FP-11.
func TestRouteIsNoPartOfTheFingerprint(t *testing.T) {
	l := newLab(t, newUpstream(t, charging).url(), gateway.Options{Routes: []gateway.Route{{Path: "/tickets/{id}", Methods: []string{"PUT"}}}})
	wantCreated(t, "first", l.do(request("PUT", "/tickets/1", "x", "Idempotency-Key", "k")), false)
	wantProblem(t, "other ticket", l.do(request("PUT", "/tickets/2", "x", "Idempotency-Key", "k")), 422, problem.KeyReused, "")
	wantCreated(t, "again", l.do(request("PUT", "/tickets/1", "x", "Idempotency-Key", "k")), true)
}

// The bound over bodies is one: what one route holds is missing in the next.
func TestRoutesShareTheBoundOverBodies(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, func(p *peer) {
		p.request()
		if p.n == 1 {
			<-release
		}
		p.answer(created)
	})
	l := newLab(t, up.url(), gateway.Options{Guard: idemhttp.Options{MaxBody: 10, MaxBodies: 10}, Routes: []gateway.Route{
		{Path: "/a", Guard: idemhttp.Options{MaxBody: 10}}, {Path: "/b", Guard: idemhttp.Options{MaxBody: 10}}}})
	first := make(chan reply, 1)
	go func() { first <- l.do(request("POST", "/a", "12345678", "Idempotency-Key", "k1")) }()
	recv(t, "the first request", up.told)
	wantProblem(t, "other route", l.do(request("POST", "/b", "123", "Idempotency-Key", "k2")), 503, problem.Overloaded, "")
	wantProblem(t, "no route", l.do(request("POST", "/c", "123", "Idempotency-Key", "k3")), 503, problem.Overloaded, "")
	close(release)
	wantCreated(t, "first", recv(t, "the first answer", first), false)
}

// The policy stored with the claim decides, not that of the gateway that meets it: two gateways over one store.
func TestStoredPolicyDecides(t *testing.T) {
	tests := []struct {
		name        string
		first, then retrysafe.LeaseEnd
		wantRuns    int
	}{
		{"claimed to be held, met by one that would rerun", retrysafe.Hold, retrysafe.Rerun, 1},
		{"claimed to be rerun, met by one that would hold", retrysafe.Rerun, retrysafe.Hold, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hang := make(chan struct{})
			up := newUpstream(t, func(p *peer) {
				p.request()
				if p.n == 1 { // the first never ends
					<-hang
				}
				p.answer(created)
			})
			store := memstore.New(nil)
			first := make(chan reply, 1)
			g := policed(t, store, up.url(), tt.first)
			go func() { first <- g.do(post("k", "body")) }()
			recv(t, "the first request", up.told)
			got := policed(t, store, up.url(), tt.then).do(post("k", "body")) // waits for the lease to end
			if tt.wantRuns == 1 {
				wantProblem(t, "retry", got, 409, problem.OutcomeUnknown, "unknown")
			} else {
				wantCreated(t, "retry", got, false)
			}
			close(hang)
			recv(t, "the first answer", first)
			up.wantRequests(t, tt.wantRuns)
		})
	}
}

// policed returns a gateway whose claims end on their own, as if it had died, and whose callers wait for that.
func policed(t *testing.T, s retrysafe.Store, upstream string, end retrysafe.LeaseEnd) *lab {
	t.Helper()
	policy := retrysafe.Policy{OnLeaseEnd: end, Lease: 50 * time.Millisecond, Retention: time.Hour}
	l := &lab{log: &logbook{}}
	e, err := retrysafe.New(s, &retrysafe.Options{MaxRun: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	l.Gateway, err = gateway.New(e, u, idemhttp.SharedScope, &gateway.Options{Guard: idemhttp.Options{Policy: &policy, Wait: patience / 2}})
	if err != nil {
		t.Fatal(err)
	}
	l.executor = e
	return l
}

func TestRoutesThatCannotBe(t *testing.T) {
	strict := idemhttp.Options{Required: true}
	tests := []struct {
		name  string
		route gateway.Route
		field string
		want  string
	}{
		{"no path", gateway.Route{}, "Path", "must begin with a slash"},
		{"no slash", gateway.Route{Path: "charges"}, "Path", "must begin with a slash"},
		{"a query", gateway.Route{Path: "/a?b"}, "Path", "leave out the query"},
		{"half a hole", gateway.Route{Path: "/a{b}"}, "Path", "want {name} as a whole segment"},
		{"an open hole", gateway.Route{Path: "/{b"}, "Path", "want {name} as a whole segment"},
		{"a hole without a name", gateway.Route{Path: "/{}"}, "Path", "want {name}"},
		{"a hole twice", gateway.Route{Path: "/{a}/{a}"}, "Path", "{a} stands there twice"},
		{"a rest within", gateway.Route{Path: "/{a...}/b"}, "Path", "{a...} must be the last"},
		{"a percent sign", gateway.Route{Path: "/100%"}, "Path", "a percent sign must begin"},
		{"an encoded letter", gateway.Route{Path: "/%61"}, "Path", "an encoded letter"},
		{"two slashes", gateway.Route{Path: "/a//b"}, "Path", "an empty segment"},
		{"dots", gateway.Route{Path: "/a/.."}, "Path", "a dot segment"},
		{"a method in small letters", gateway.Route{Path: "/b", Methods: []string{"post"}}, "Methods", "in capitals"},
		{"an empty method", gateway.Route{Path: "/b", Methods: []string{""}}, "Methods", "in capitals"},
		{"nothing to guard", gateway.Route{Path: "/b", Methods: []string{"GET"}}, "Methods", "say that it is unguarded"},
		{"matched and not guarded", gateway.Route{Path: "/b", Methods: []string{"POST", "PUT"}, Guard: idemhttp.Options{Methods: []string{"POST"}}}, "Methods", "matches PUT and does not guard it"},
		{"guarded and not matched", gateway.Route{Path: "/b", Methods: []string{"POST"}, Guard: idemhttp.Options{Methods: []string{"POST", "PUT"}}}, "Methods", "guards PUT and does not match it"},
		{"unguarded, with methods to guard", gateway.Route{Path: "/b", Unguarded: true, Guard: idemhttp.Options{Methods: []string{"POST"}}}, "Methods", "leave one out"},
		{"a time-out below zero", gateway.Route{Path: "/b", UpstreamTimeout: -1}, "UpstreamTimeout", "must not be negative"},
		{"a bound over bodies of its own", gateway.Route{Path: "/b", Guard: idemhttp.Options{MaxBodies: 1}}, "Guard", "are the gateway's"},
		{"what its middleware refuses", gateway.Route{Path: "/b", Guard: idemhttp.Options{Wait: -1}}, "Guard", "must not be negative"},
		{"a name that is taken", gateway.Route{Path: "/b", Name: "first"}, "Name", "another route has this name"},
		{"the same again", gateway.Route{Path: "/charges/{x}", Guard: strict}, "Path", "unreachable"},
		{"a literal behind a hole", gateway.Route{Path: "/charges/1", Guard: strict}, "Path", "unreachable"},
		{"two methods, taken one by one", gateway.Route{Path: "/split", Methods: []string{"POST", "PUT"}}, "Path", "unreachable"},
		{"behind a rest", gateway.Route{Path: "/all/{x}/b"}, "Path", "unreachable"},
		{"a rest behind a rest", gateway.Route{Path: "/all/b/{rest...}"}, "Path", "unreachable"},
		{"a slash behind a rest", gateway.Route{Path: "/all/"}, "Path", "unreachable"},
		{"all methods behind all methods", gateway.Route{Path: "/open", Unguarded: true}, "Path", "unreachable"},

		{"another method", gateway.Route{Path: "/charges/1", Methods: []string{"POST", "DELETE"}}, "", ""},
		{"one method that is left", gateway.Route{Path: "/split", Methods: []string{"POST", "DELETE"}}, "", ""},
		{"all methods behind some", gateway.Route{Path: "/charges/1", Unguarded: true}, "", ""},
		{"a slash at the end", gateway.Route{Path: "/charges/"}, "", ""},
		{"a rest behind a hole", gateway.Route{Path: "/charges/{rest...}"}, "", ""},
		{"the folder of a rest", gateway.Route{Path: "/all"}, "", ""},
		{"another literal", gateway.Route{Path: "/chargez/{x}"}, "", ""},
	}
	before := []gateway.Route{
		{Name: "first", Path: "/charges/{id}"}, {Path: "/all/{rest...}"}, {Path: "/split", Methods: []string{"POST"}}, {Path: "/split", Methods: []string{"PUT"}},
		{Path: "/open", Unguarded: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "a"}, idemhttp.SharedScope, &gateway.Options{Routes: append(before[:len(before):len(before)], tt.route)})
			if tt.want == "" {
				if err != nil {
					t.Errorf("New: %v, want none", err)
				}
				return
			}
			route, ok := errors.AsType[*gateway.RouteError](err)
			if !ok || route.Index != len(before) || route.Field != tt.field || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want one of route %d, field %q, that says %q", err, len(before)+1, tt.field, tt.want)
			}
		})
	}
	t.Run("every one is told", func(t *testing.T) {
		_, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "a"}, idemhttp.SharedScope, &gateway.Options{Routes: []gateway.Route{{Name: "one"}, {Path: "/a"}, {Name: "three"}}})
		if err == nil || !strings.Contains(err.Error(), `route "one"`) || !strings.Contains(err.Error(), `route "three"`) {
			t.Errorf("New: %v, want it to name routes one and three", err)
		}
	})
}
