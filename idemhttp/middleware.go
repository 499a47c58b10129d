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
// http.TimeoutHandler belongs outside as well (inside, its 503 would be taken for the handler's answer), and
// so does compression (inside, the answer would be kept compressed for callers that cannot read it).
package idemhttp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

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

// Options are what a Middleware does. Nil, and the zero value of each field, is the default.
type Options struct {
	Header      string   // that carries the key. Defaults to Idempotency-Key
	Required    bool     // a guarded request without a key is refused, with 400. Defaults to passing it on unguarded
	Strict      bool     // the key must be a quoted string, as the draft says. Defaults to taking bare ones too
	Methods     []string // guarded. Defaults to POST and PATCH; of the others only PUT and DELETE may be added
	MaxKey      int      // bytes of a key. Defaults to 255
	MaxBody     int64    // bytes of a guarded request's body: a larger one is refused with 413. Defaults to 10 MiB
	MaxBodies   int64    // bytes of all guarded bodies held at once: beyond, 503 and nothing runs. Defaults to 256 MiB, or to MaxBody if that is more
	MaxResponse int64    // bytes of an answer: a larger one is passed on, and not kept. Defaults to 1 MiB

	// Headers of an answer are kept if they are listed here or in DefaultReplayHeaders; never those that
	// belong to one exchange, like Set-Cookie: New refuses them.
	ReplayHeaders []string

	Policy  *retrysafe.Policy     // of claims. Defaults to the Executor's
	Recover retrysafe.RecoverFunc // defaults to the Executor's
	// BodyTimeout is for the next byte of a body: without it the request is refused with 400. Defaults to 30 s.
	// It takes the place of a read deadline that a layer outside has set, and never extends the server's
	// ReadTimeout. retrysafe.Off leaves deadlines alone.
	BodyTimeout time.Duration

	Wait     time.Duration // for another attempt to end before 409. Defaults to 0
	DocsBase string        // of the links in problems. Defaults to the project's own pages
	Logger   *slog.Logger  // never told a key or a payload. Defaults to silence: then a handler's panic goes unseen
}

// DefaultDocsBase is where the links in problems lead unless Options say otherwise.
const DefaultDocsBase = "https://github.com/retrysafe/retrysafe/blob/main/docs"

// A Middleware guards handlers. Use New.
type Middleware struct {
	executor *retrysafe.Executor
	scope    ScopeFunc
	o        Options
	replay   []string // headers that are kept
	bodies   budget
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
	if err := e.Check(m.o.Policy, m.o.Recover); err != nil {
		return nil, fmt.Errorf("idemhttp: new: %w", err)
	}
	m.bodies.give(m.o.MaxBodies)
	var err error
	if m.replay, err = replayed(m.o.ReplayHeaders); err != nil {
		return nil, fmt.Errorf("idemhttp: new: %w", err)
	}
	return m, nil
}

// largest bounds MaxBody and MaxResponse, so that one more does not overflow.
const largest = 1 << 40

func (o *Options) fill() error {
	if o.Header == "" {
		o.Header = "Idempotency-Key"
	}
	o.Header = http.CanonicalHeaderKey(o.Header)
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	for _, m := range o.Methods {
		if !slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}, m) {
			return fmt.Errorf("method %q cannot be guarded: want POST, PATCH, PUT or DELETE", m)
		}
	}
	if !httpguts.ValidHeaderFieldName(o.Header) {
		return errors.New("Header is no valid name of a header")
	}
	if o.MaxKey < 0 || o.MaxBody < 0 || o.MaxResponse < 0 || o.Wait < 0 {
		return errors.New("MaxKey, MaxBody, MaxResponse and Wait must not be negative")
	}
	o.MaxKey = cmp.Or(o.MaxKey, 255)
	o.MaxBody = min(cmp.Or(o.MaxBody, 10<<20), largest)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, 1<<20), largest)
	o.MaxBodies = cmp.Or(o.MaxBodies, max(256<<20, o.MaxBody))
	if o.MaxBodies < o.MaxBody {
		return errors.New("MaxBodies must not be less than MaxBody: one body may be that large")
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	if o.BodyTimeout < 0 && o.BodyTimeout != retrysafe.Off {
		return errors.New("BodyTimeout must not be negative")
	}
	if o.DocsBase == "" {
		o.DocsBase = DefaultDocsBase
	}
	o.DocsBase = strings.TrimSuffix(o.DocsBase, "/")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Handler guards next. Requests of other methods, and those without a key where none is required, pass
// untouched and touch no store.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := r.Header[m.o.Header]
		switch {
		case m.miswritten(r.Method) && (len(lines) > 0 || m.o.Required):
			m.refuse(w, problem.Answer{Code: problem.KeyInvalid, Detail: "The method is not written as it should be: methods are case-sensitive."})
		case !slices.Contains(m.o.Methods, r.Method), len(lines) == 0 && !m.o.Required:
			next.ServeHTTP(w, r)
		case len(lines) == 0:
			m.refuse(w, problem.Answer{Code: problem.KeyMissing})
		default:
			m.guard(w, r, next, lines)
		}
	})
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
	if why == "" && r.Header.Get("Upgrade") != "" {
		why = "An upgrade cannot be made safe to retry: send it without a key."
	}
	if why != "" {
		m.refuse(w, problem.Answer{Code: problem.KeyInvalid, Detail: why})
		return
	}
	scope, err := m.scope(r)
	if errors.Is(err, ErrScopeUnavailable) {
		m.refuse(w, problem.Answer{Code: problem.ScopeUnavailable, RetryAfter: time.Second})
		return
	}
	if err != nil || scope == "" {
		m.refuse(w, problem.Answer{Code: problem.ScopeMissing})
		return
	}
	if r.Header["Early-Data"] != nil { // whatever its value: RFC 8470, 5.1
		m.refuse(w, problem.Answer{Code: problem.TooEarly})
		return
	}
	body, code := m.readBody(w, r)
	if code != "" {
		m.refuseBody(w, code)
		return
	}
	defer m.bodies.give(int64(len(body)))
	c := &call{middleware: m, next: next, r: r, w: recorder{w: w, limit: m.o.MaxResponse, replay: m.replay}}
	c.w.call = c
	if h := w.Header(); len(h) > 0 {
		c.w.outer = h.Clone()
	}
	c.body.r.Reset(body)
	req := retrysafe.Request{
		Key: retrysafe.Key{Scope: scope, Name: name}, Fingerprint: fingerprint(r, body),
		Policy: m.o.Policy, Recover: m.o.Recover, Wait: m.o.Wait, Detached: true,
	}
	result, err := m.executor.Execute(r.Context(), req, c.run)
	if errors.Is(result.Err, retrysafe.ErrClaimLost) {
		result = c.overruled(req, result)
	}
	switch {
	case err != nil:
		m.fail(w, r, err)
	case result.Verdict == retrysafe.Won || result.Verdict == retrysafe.TookOver:
		c.finish(result)
	case result.Verdict == retrysafe.Replay:
		m.replayAnswer(w, r, result)
	default:
		m.refuseResult(w, result)
	}
}

func (m *Middleware) refuseBody(w http.ResponseWriter, code problem.Code) {
	a := problem.Answer{Code: code}
	if code == problem.Overloaded {
		a.RetryAfter = time.Second
	}
	m.refuse(w, a)
}

func (m *Middleware) refuse(w http.ResponseWriter, a problem.Answer) {
	problem.Write(w, m.o.DocsBase, a)
}

// fail answers where nothing ran.
func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := problem.Answer{Code: problem.StoreUnavailable, RetryAfter: time.Second}
	switch {
	case errors.Is(err, retrysafe.ErrDraining):
		a.Code = problem.Draining
	case errors.Is(err, retrysafe.ErrUnreadable):
		a = problem.Answer{Code: problem.EntryUnreadable}
	}
	if a.Code != problem.Draining && r.Context().Err() == nil { // a caller who hung up is no failure of the store
		m.o.Logger.Error("key could not be claimed, nothing ran", "code", string(a.Code), "err", err)
	}
	m.refuse(w, a)
}

// refuseResult answers where another attempt, or its remains, hold the key.
func (m *Middleware) refuseResult(w http.ResponseWriter, r retrysafe.Result) {
	a := problem.Answer{Instance: "urn:retrysafe:key:" + r.ID.String()}
	switch r.Verdict {
	case retrysafe.Busy:
		a.Code, a.RetryAfter = problem.InFlight, retryAfter(r)
		a.Detail = fmt.Sprintf("The operation is in progress, not failed: send the same request with the same key again in %d s.", problem.Seconds(a.RetryAfter))
	case retrysafe.Mismatch:
		a.Code, a.Instance = problem.KeyReused, ""
	case retrysafe.Expired:
		a.Code = problem.AnswerExpired
	default:
		a.Code = problem.OutcomeUnknown
		w.Header().Set(statusHeader, statusUnknown)
	}
	m.refuse(w, a)
}

// retryAfter grows with the time that the operation has taken already, so that a caller who obeys it backs
// off; it stays within the lease.
func retryAfter(r retrysafe.Result) time.Duration {
	return min(max(r.Age, time.Second), max(r.Left, time.Second))
}
