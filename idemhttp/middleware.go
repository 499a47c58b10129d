// Package idemhttp puts idempotency keys in front of any http.Handler.
//
//	guard, err := idemhttp.New(executor, scope, nil)
//	...
//	http.ListenAndServe(addr, guard.Handler(api))
//
// A guarded request with a key is claimed, run once, recorded, and answered; a retry with the same key gets
// the same answer. What a caller is told in every situation stands in docs/protocol.md. The package follows
// draft-ietf-httpapi-idempotency-key-header-07, which is expired and no standard.
//
// Authentication and authorisation belong outside of the layer: they run on every request, replays too.
// http.TimeoutHandler belongs outside as well: inside, its 503 would be taken for the handler's answer while the handler
// still runs, so that Handler refuses it. So does compression: inside, the answer would be kept compressed for callers
// that cannot read it; the log says so when it is seen. Inside of a router (chi, gorilla/mux, echo, gin) and around one
// the guard works alike; bench/frameworks shows how.
package idemhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A ScopeFunc says whose request it is: a tenant or a principal, from an identity that was verified before.
// Keys of different scopes never meet. An error, or "", answers 401 and runs nothing.
type ScopeFunc func(r *http.Request) (string, error)

// ErrScopeUnavailable is what a ScopeFunc returns, wrapped, when it cannot tell for a fault that is not the caller's:
// the answer is 503, and a retry may get further.
var ErrScopeUnavailable = errors.New("scope cannot be verified at the moment")

// SharedScope is the ScopeFunc of an API that has one caller, or whose callers may see each other's answers.
func SharedScope(*http.Request) (string, error) { return "shared", nil }

// A Middleware guards handlers. Use New.
type Middleware struct {
	executor *retrysafe.Executor
	scope    ScopeFunc
	o        Options
	replay   []string // headers that are kept

	suspicions *suspicions // nil: switched off
	compressed sync.Once   // the log has been told of an answer that came compressed
}

// New returns a Middleware that keeps keys in e, each in the scope that scope finds.
func New(e *retrysafe.Executor, scope ScopeFunc, o *Options) (*Middleware, error) {
	m := &Middleware{executor: e, scope: scope}
	if e == nil || scope == nil {
		return nil, errors.New("idemhttp: new: an Executor and a ScopeFunc are required (SharedScope, if there is one caller)")
	}
	if o != nil {
		m.o = *o
	}
	if err := m.o.fill(); err != nil {
		return nil, fmt.Errorf("idemhttp: new: %w", err)
	}
	if m.o.Resend && m.o.Recover != nil {
		return nil, errors.New("idemhttp: new: Resend and Recover are two ways to learn what happened: give one")
	}
	recover := m.o.Recover
	if m.o.Resend {
		recover = unasked
	}
	m.o.Policy = m.o.policy(e)
	if err := e.Check(m.o.Policy, recover); err != nil {
		return nil, fmt.Errorf("idemhttp: new: %w", err)
	}
	if m.o.Suspect != retrysafe.Off {
		m.suspicions = newSuspicions(m.o.Suspect)
	}
	var err error
	if m.replay, err = replayed(m.o.ReplayHeaders); err != nil {
		return nil, fmt.Errorf("idemhttp: new: %w", err)
	}
	return m, nil
}

// Handler guards next. Requests of other methods, and those without a key where none is required, pass
// untouched and touch no store. It panics if next is an http.TimeoutHandler: that belongs outside.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if fmt.Sprintf("%T", next) == "*http.timeoutHandler" {
		panic("idemhttp: http.TimeoutHandler stands inside of the guard, where its 503 would be kept while the handler runs on: put the guard inside of it")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded, inBody := slices.Contains(m.o.Methods, r.Method), m.o.Key.inBody()
		var lines []string
		if !inBody {
			lines = m.o.Key.lines(r)
		}
		switch {
		case !guarded && m.miswritten(r.Method) && (len(lines) > 0 || inBody || m.o.Required):
			m.reject(w, r, problem.Answer{Code: problem.KeyInvalid, Detail: "The method is not written as it should be: methods are case-sensitive."})
		case !guarded:
			next.ServeHTTP(w, r)
		case len(lines) == 0 && !inBody && !m.o.Required:
			m.pass(w, r, next)
		case inBody:
			m.guardByBody(w, r, next)
		case len(lines) == 0:
			m.reject(w, r, problem.Answer{Code: problem.KeyMissing})
		default:
			m.guard(w, r, next, lines)
		}
	})
}

// pass lets a request without a key go by.
func (m *Middleware) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	m.executor.Tell(r.Context(), retrysafe.Event{Kind: retrysafe.EventPassed})
	next.ServeHTTP(w, r)
}

// miswritten tells whether a method is a guarded one but for its case. Passed on, it would go round the guard to
// a server that does not mind.
func (m *Middleware) miswritten(method string) bool {
	return !slices.Contains(m.o.Methods, method) && slices.ContainsFunc(m.o.Methods, func(guarded string) bool { return strings.EqualFold(guarded, method) })
}

// guard answers a guarded request that carries a key. All checks come before the claim, and the body is read
// whole before it: what broke off on its way here never holds a key.
func (m *Middleware) guard(w http.ResponseWriter, r *http.Request, next http.Handler, lines []string) {
	name, why := m.parseKey(lines)
	if why = cmp.Or(why, unfit(r)); why != "" {
		m.reject(w, r, problem.Answer{Code: problem.KeyInvalid, Detail: why})
		return
	}
	scope, ok := m.admit(w, r)
	if !ok {
		return
	}
	body, code := m.readBody(w, r)
	if code != "" {
		m.rejectBody(w, r, code)
		return
	}
	defer m.o.Bodies.give(int64(len(body)))
	m.execute(w, r, next, retrysafe.Key{Scope: scope, Name: name}, body)
}

// guardByBody answers a guarded request whose key, if it has one, stands in its body.
func (m *Middleware) guardByBody(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if why := unfit(r); why != "" { // a server that does not upgrade reads the body
		m.reject(w, r, problem.Answer{Code: problem.KeyInvalid, Detail: why})
		return
	}
	body, code := m.readBody(w, r)
	if code != "" {
		m.rejectBody(w, r, code)
		return
	}
	defer m.o.Bodies.give(int64(len(body)))
	name, missing, why := m.keyInBody(r, body)
	switch {
	case missing && !m.o.Required:
		r = r.WithContext(r.Context()) // a copy: the caller of a handler keeps its request
		r.Body = newBody(body)
		m.pass(w, r, next)
	case missing:
		m.reject(w, r, problem.Answer{Code: problem.KeyMissing, Detail: m.o.Key.name() + " is missing: this operation needs it."})
	case why != "":
		m.reject(w, r, problem.Answer{Code: problem.KeyInvalid, Detail: why})
	default:
		if scope, ok := m.admit(w, r); ok {
			m.execute(w, r, next, retrysafe.Key{Scope: scope, Name: name}, body)
		}
	}
}

// unfit says why a request cannot be guarded whatever its key: its answer is no HTTP answer that could be kept.
func unfit(r *http.Request) (why string) {
	mediaType, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Type"))), ";")
	switch {
	case r.Header.Get("Upgrade") != "":
		return "An upgrade cannot be made safe to retry: send it without a key."
	case mediaType == "application/grpc" || strings.HasPrefix(mediaType, "application/grpc+") || strings.HasPrefix(mediaType, "application/grpc-"):
		return "A gRPC call cannot be made safe to retry here, since its outcome stands in trailers: send it without a key, and put one into its message for the service."
	}
	return ""
}

// admit finds whose request it is, and refuses one that is nobody's, or that may have come twice already.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (scope string, ok bool) {
	scope, err := m.scope(r)
	switch {
	case errors.Is(err, ErrScopeUnavailable):
		m.reject(w, r, problem.Answer{Code: problem.ScopeUnavailable, RetryAfter: time.Second})
	case err != nil || scope == "":
		m.reject(w, r, problem.Answer{Code: problem.ScopeMissing})
	case r.Header["Early-Data"] != nil: // whatever its value: RFC 8470, 5.1
		m.reject(w, r, problem.Answer{Code: problem.TooEarly})
	default:
		return scope, true
	}
	return "", false
}

// execute claims the key, has the handler run under it, and answers.
func (m *Middleware) execute(w http.ResponseWriter, r *http.Request, next http.Handler, key retrysafe.Key, body []byte) {
	t, after := m.o.Quotas.enter(key.Scope)
	if after > 0 {
		m.reject(w, r, problem.Answer{Code: problem.QuotaExceeded, RetryAfter: after})
		return
	}
	defer m.o.Quotas.leave(t)
	fp, err := m.o.Fingerprint(r, body)
	if err != nil { // not logged: it may repeat what was sent
		m.rejectBody(w, r, problem.BodyUnreadable)
		return
	}
	c := &call{middleware: m, next: next, r: r, key: key, fp: fp, sent: body, w: recorder{w: w, limit: m.o.MaxResponse}}
	c.w.call = c
	if h := w.Header(); len(h) > 0 {
		c.w.outer = h.Clone()
	}
	c.conclude(w)
}

// conclude executes the call, and answers.
func (c *call) conclude(w http.ResponseWriter) {
	m := c.middleware
	req := retrysafe.Request{Key: c.key, Fingerprint: c.fp, Policy: m.o.Policy, Recover: m.o.Recover, Wait: m.o.Wait, Detached: true}
	if m.o.Resend {
		req.Recover = c.resend
	}
	result, err := m.executor.Execute(c.r.Context(), req, c.run)
	if errors.Is(result.Err, retrysafe.ErrClaimLost) {
		result = c.overruled(req, result)
	}
	switch {
	case c.asked && c.resent():
	case err != nil:
		m.fail(w, c.r, err)
	case result.Verdict == retrysafe.Won || result.Verdict == retrysafe.TookOver:
		c.finish(result)
	case result.Verdict == retrysafe.Replay:
		m.replayAnswer(w, c.r, result)
	default:
		m.refuseResult(w, c.r, result)
	}
}
