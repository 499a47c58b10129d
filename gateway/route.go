package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A Route is what becomes of some requests, in place of what the gateway's own Guard and Scope say. The first Route
// that matches decides; what matches none is the gateway's own.
type Route struct {
	Name string // in errors. Two routes cannot have the same

	// Methods are those it matches. Defaults to those that it guards; to all, if it guards nothing.
	Methods []string

	// Path is compared with the path as it is forwarded, segment by segment, each decoded. {id} is one segment that
	// is not empty; {rest...} at the end is whatever follows the slash before it. A slash at the end and the case of
	// letters matter: where the upstream does not mind them, give each spelling a Route, or have the gateway's own
	// Guard be the strictest.
	Path string

	// Guard is of the middleware in front. Its Methods default to those of Methods that can be guarded; its Logger,
	// DocsBase and BodyTimeout to the gateway's. The bound over all bodies is one for the whole gateway.
	Guard idemhttp.Options

	Scope           idemhttp.ScopeFunc // defaults to the gateway's
	Unguarded       bool               // passed on as it comes, with a key or without one
	UpstreamTimeout time.Duration      // for the upstream's next byte. Defaults to the gateway's
	Probe           *Probe             // asks what became of an operation. Defaults to none
	ForwardKey      ForwardKey         // what of the key goes upstream. Defaults to ForwardSame
}

// A RouteError says which of Options.Routes cannot be, and why.
type RouteError struct {
	Index int    // in Routes
	Name  string // of the route
	Field string // of the Route, "" if it is another
	Err   error
}

// Error names the route, by its place if it has no name.
func (e *RouteError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("route %d: %v", e.Index+1, e.Err)
	}
	return fmt.Sprintf("route %q: %v", e.Name, e.Err)
}

// Unwrap returns what is wrong.
func (e *RouteError) Unwrap() error { return e.Err }

// A branch is a Route at work: a gateway of its own over the same connections.
type branch struct {
	*Gateway
	pattern pattern
	methods []string // nil: all
}

func (b *branch) matches(method, path string) bool {
	return (b.methods == nil || named(b.methods, method)) && b.pattern.matches(path)
}

// named tells whether a method stands in a list, in whatever case it is written: what is miswritten is for the guard
// of its route to refuse.
func named(list []string, method string) bool {
	return slices.ContainsFunc(list, func(m string) bool { return strings.EqualFold(m, method) })
}

// choose returns what handles a request, or why its path cannot be told.
func (g *Gateway) choose(r *http.Request) (by *Gateway, why string) {
	if len(g.branches) == 0 {
		return g, ""
	}
	path := cmp.Or(r.URL.EscapedPath(), "/")
	if !g.o.AllowAmbiguousPaths && named(g.guards, r.Method) {
		if why := ambiguity(path); why != "" {
			return nil, "The path has " + why + ". The service behind this gateway might take it for another path, with other rules. Nothing was done: write the path in its plain form."
		}
	}
	for i := range g.branches {
		if g.branches[i].matches(r.Method, path) {
			return g.branches[i].Gateway, ""
		}
	}
	return g, ""
}

func (g *Gateway) refuseAmbiguous(w http.ResponseWriter, r *http.Request, why string) {
	g.executor.Tell(r.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: string(problem.PathAmbiguous)})
	problem.Write(w, g.o.Guard.DocsBase, problem.Answer{Code: problem.PathAmbiguous, Detail: why})
}

// branchOff builds the branches, and tells of every route that cannot be.
func (g *Gateway) branchOff(e *retrysafe.Executor, scope idemhttp.ScopeFunc) error {
	g.guards = guardedBy(&g.o.Guard)
	var errs []error
	for i := range g.o.Routes {
		b, field, err := g.branch(e, scope, g.o.Routes[i])
		if err == nil {
			field, err = g.conflict(&b, g.o.Routes[i].Name)
		}
		if err != nil {
			errs = append(errs, &RouteError{i, g.o.Routes[i].Name, field, err})
		}
		b.o.Routes = nil
		g.branches = append(g.branches, b)
		if !g.o.Routes[i].Unguarded {
			g.guards = append(g.guards, guardable(b.methods)...)
		}
	}
	return errors.Join(errs...)
}

// branch makes the branch of a route. What it returns with an error stands in for the route, and matches nothing.
func (g *Gateway) branch(e *retrysafe.Executor, scope idemhttp.ScopeFunc, r Route) (b branch, field string, err error) {
	own := *g
	own.branches = nil
	b = branch{Gateway: &own, methods: []string{}}
	parsed, err := parsePattern(r.Path)
	if err != nil {
		return b, "Path", err
	}
	methods, err := r.methods()
	if err != nil {
		return b, "Methods", err
	}
	if r.UpstreamTimeout < 0 {
		return b, "UpstreamTimeout", errors.New("timeouts must not be negative")
	}
	own.o.UpstreamTimeout = cmp.Or(r.UpstreamTimeout, g.o.UpstreamTimeout)
	if r.Scope != nil {
		scope = r.Scope
	}
	if field, err := own.guard(e, scope, &r); err != nil {
		return b, field, err
	}
	b.pattern, b.methods = parsed, methods
	return b, "", nil
}

// guard makes g the gateway of a route. An error comes with the field that it is about.
func (g *Gateway) guard(e *retrysafe.Executor, scope idemhttp.ScopeFunc, r *Route) (field string, err error) {
	if r.Guard.MaxBodies != 0 || r.Guard.Bodies != nil || r.Guard.Quota != (idemhttp.Quota{}) || r.Guard.Quotas != nil {
		return "Guard", errors.New("the bounds over all bodies, and of each scope, are the gateway's: leave MaxBodies, Bodies, Quota and Quotas to its own Guard")
	}
	whole := g.o.Guard
	g.o.Guard = r.Guard
	g.o.Guard.Bodies, g.o.Guard.Quotas, g.o.Guard.Logger, g.o.Guard.DocsBase = whole.Bodies, whole.Quotas, cmp.Or(r.Guard.Logger, whole.Logger), cmp.Or(r.Guard.DocsBase, whole.DocsBase)
	g.o.Guard.BodyTimeout = cmp.Or(r.Guard.BodyTimeout, whole.BodyTimeout)
	if r.Guard.Methods == nil {
		g.o.Guard.Methods = guardable(r.Methods)
	}
	if err := g.o.fill(); err != nil {
		return "Guard", err
	}
	g.plain, g.middleware, g.guarded = g.reverseProxy(), nil, http.HandlerFunc(g.forward)
	g.o.Probe, g.o.ForwardKey = r.Probe, r.ForwardKey
	switch {
	case r.Unguarded && r.Probe != nil:
		return "Probe", errors.New("the route is unguarded: there is nothing to ask about")
	case r.Unguarded && r.ForwardKey != ForwardSame:
		return "ForwardKey", errors.New("the route is unguarded: what it is sent goes on as it comes")
	case r.Unguarded:
		return "", nil
	}
	return g.install(e, scope)
}

// specification is what all guards do, for callers.
func (g *Gateway) specification() idemhttp.Specification {
	s := g.says
	for i, b := range g.branches {
		r := g.o.Routes[i]
		of := b.says
		if r.Unguarded {
			of = idemhttp.Specification{Unguarded: true, Methods: b.methods}
		}
		if of.Route, of.Path = r.Name, r.Path; of.Syntax == s.Syntax {
			of.Errors = nil // the same as above
		}
		s.Routes = append(s.Routes, of)
	}
	return s
}

// publishes tells whether r asks for the specification.
func (g *Gateway) publishes(r *http.Request) bool {
	return g.published != nil && r.URL.Path == idemhttp.SpecificationPath && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// guardedBy returns the methods that a Guard of these options guards.
func guardedBy(o *idemhttp.Options) []string {
	if o.Methods == nil {
		return []string{http.MethodPost, http.MethodPatch}
	}
	return slices.Clone(o.Methods)
}

// guardable returns those methods that can be guarded, nil for none.
func guardable(methods []string) (can []string) {
	for _, m := range methods {
		if slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}, m) {
			can = append(can, m)
		}
	}
	return can
}

// methods returns those that the route matches, nil for all. Of a route that guards, every one that can be guarded is:
// a request that matches it and passes by its guard would surprise whoever wrote it.
func (r *Route) methods() ([]string, error) {
	for _, m := range r.Methods {
		if !httpguts.ValidHeaderFieldName(m) || m != strings.ToUpper(m) { // a method is a token, as a name is (RFC 9110, 9.1)
			return nil, errors.New("a method must be a word in capitals, like POST")
		}
	}
	switch {
	case r.Unguarded && r.Guard.Methods != nil:
		return nil, errors.New("the route is unguarded, and names methods to guard: leave one out")
	case r.Unguarded:
		return r.Methods, nil
	case r.Methods == nil:
		return guardedBy(&r.Guard), nil
	}
	can := guardable(r.Methods)
	if len(can) == 0 {
		return nil, errors.New("the route matches no method that can be guarded (POST, PATCH, PUT, DELETE): have it match one, or say that it is unguarded")
	}
	for _, m := range can {
		if r.Guard.Methods != nil && !slices.Contains(r.Guard.Methods, m) {
			return nil, fmt.Errorf("the route matches %s and does not guard it: guard it, or match it in an unguarded route", m)
		}
	}
	for _, m := range r.Guard.Methods {
		if !slices.Contains(can, m) {
			return nil, fmt.Errorf("the route guards %s and does not match it: match it too", m)
		}
	}
	return r.Methods, nil
}

// conflict tells what is wrong with a route beside those before it: a request would never reach it.
func (g *Gateway) conflict(b *branch, name string) (field string, err error) {
	before := g.o.Routes[:len(g.branches)]
	if name != "" && slices.ContainsFunc(before, func(r Route) bool { return r.Name == name }) {
		return "Name", errors.New("another route has this name")
	}
	reached := func(method string) bool {
		return !slices.ContainsFunc(g.branches, func(e branch) bool {
			return (e.methods == nil || method != "" && named(e.methods, method)) && e.pattern.covers(b.pattern)
		})
	}
	methods := b.methods
	if methods == nil {
		methods = []string{""} // one that no list names
	}
	if !slices.ContainsFunc(methods, reached) {
		return "Path", errors.New("unreachable: earlier routes take every request that it matches: put it before them")
	}
	return "", nil
}
