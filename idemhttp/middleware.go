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
	"log/slog"
	"maps"
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

// Options are what a Middleware does. Nil, and the zero value of each field, is the default.
type Options struct {
	Preset      Preset    // the dialect that the API speaks. Defaults to IETF
	Key         KeySource // where a request carries its key. Defaults to the Idempotency-Key header
	Required    bool      // a guarded request without a key is refused, with 400. Defaults to passing it on unguarded
	Methods     []string  // guarded. Defaults to POST and PATCH; of the others only PUT and DELETE may be added
	MaxKey      int       // bytes of a key. Defaults to 255
	MaxBody     int64     // bytes of a guarded request's body: a larger one is refused with 413. Defaults to 10 MiB
	MaxBodies   int64     // bytes of all guarded bodies held at once: beyond, 503 and nothing runs. Defaults to 256 MiB, or to MaxBody if that is more
	Bodies      *Bodies   // takes the place of MaxBodies, to share one bound with other Middlewares. Defaults to one of its own
	MaxResponse int64     // bytes of an answer: a larger one is passed on, and not kept. Defaults to 1 MiB

	Fingerprint FingerprintFunc // by which a reused key is told from a retry. Defaults to RawFingerprint

	// Headers of an answer are kept if they are listed here or in DefaultReplayHeaders; never those that
	// belong to one exchange, like Set-Cookie: New refuses them.
	ReplayHeaders []string

	// Outcomes say what answers of a status mean, against what the layer thinks of them: Free (nothing happened: it
	// releases the key), Completed (kept and replayed) or UnknownAnswered (kept, and nobody knows).
	Outcomes map[int]retrysafe.State

	DropAnswers bool // answers are recorded as done and not kept: for those that must not lie in a store

	// Resend asks the handler itself what became of an operation whose owner is gone: it runs again, with the request
	// of the next retry. Only for a handler, or an upstream, that honours the same key itself.
	Resend bool

	Policy  *retrysafe.Policy     // of claims. Defaults to the Executor's
	Recover retrysafe.RecoverFunc // defaults to the Executor's
	// BodyTimeout is for the next byte of a body: without it the request is refused with 400. Defaults to 30 s.
	// It takes the place of a read deadline that a layer outside has set, and never extends the server's
	// ReadTimeout. retrysafe.Off leaves deadlines alone.
	BodyTimeout time.Duration

	Quota  Quota   // of each scope. Defaults to none
	Quotas *Quotas // takes the place of Quota, to share one with other Middlewares

	// Suspect is for how long the same request under another key is told as a client that makes a new key for each
	// attempt: counted, and said in the log. Nothing is refused. Defaults to 10 s; Off looks for none.
	Suspect time.Duration

	// CORSOrigins are the origins, like https://shop.example.com or *, whose pages may see answers that the layer makes
	// itself: replays and refusals. On first answers the handler, or a layer outside, says so; it is not replayed,
	// since it may be about another page. CORSCredentials lets such pages send cookies.
	CORSOrigins     []string
	CORSCredentials bool

	Wait     time.Duration // for another attempt to end before 409. Defaults to 0
	Words    Words         // of the published Specification
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

// largest bounds MaxBody and MaxResponse, so that one more does not overflow.
const largest = 1 << 40

func (o *Options) fill() error {
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	for _, m := range o.Methods {
		if !slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}, m) {
			return fmt.Errorf("method %q cannot be guarded: want POST, PATCH, PUT or DELETE", m)
		}
	}
	if o.Preset > Stripe {
		return errors.New("Preset is not one of IETF, IETFStrict and Stripe")
	}
	o.Outcomes = maps.Clone(o.Outcomes)
	if o.DocsBase == "" {
		o.DocsBase = DefaultDocsBase
	}
	o.DocsBase = strings.TrimSuffix(o.DocsBase, "/")
	if o.Fingerprint == nil {
		o.Fingerprint, o.Words.Fingerprint = RawFingerprint, cmp.Or(o.Words.Fingerprint, "raw")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return cmp.Or(o.Key.fill(), o.fillLimits(), o.Quota.check(), o.checkOutcomes(), CheckOrigins(o.CORSOrigins, o.CORSCredentials))
}

func (o *Options) fillLimits() error {
	if o.MaxKey < 0 || o.MaxBody < 0 || o.MaxResponse < 0 || o.Wait < 0 {
		return errors.New("MaxKey, MaxBody, MaxResponse and Wait must not be negative")
	}
	o.MaxKey = cmp.Or(o.MaxKey, 255)
	o.MaxBody = min(cmp.Or(o.MaxBody, 10<<20), largest)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, 1<<20), largest)
	if o.Quotas == nil {
		o.Quotas = NewQuotas(o.Quota)
	}
	if o.Bodies == nil {
		o.Bodies = NewBodies(cmp.Or(o.MaxBodies, max(256<<20, o.MaxBody)))
	}
	if o.Bodies.whole < o.MaxBody {
		return errors.New("MaxBodies must not be less than MaxBody: one body may be that large")
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	o.Suspect = cmp.Or(o.Suspect, 10*time.Second)
	if o.BodyTimeout < 0 && o.BodyTimeout != retrysafe.Off || o.Suspect < 0 && o.Suspect != retrysafe.Off {
		return errors.New("BodyTimeout and Suspect must not be negative")
	}
	return nil
}

// policy is what is stored with the claims of this guard, nil for the Executor's.
func (o *Options) policy(e *retrysafe.Executor) *retrysafe.Policy {
	if o.Preset != Stripe && !o.Resend {
		return o.Policy
	}
	p := e.Policy()
	if o.Policy != nil {
		p = *o.Policy
	} else {
		p.Remember = o.Preset.remember(p.Remember)
	}
	if o.Resend {
		p.OnLeaseEnd = retrysafe.Recover
	}
	return &p
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

func (m *Middleware) rejectBody(w http.ResponseWriter, r *http.Request, code problem.Code) {
	a := problem.Answer{Code: code}
	switch code {
	case problem.Overloaded:
		a.RetryAfter = time.Second
	case problem.BodyTooLarge:
		a.Detail = fmt.Sprintf("Nothing was done: a body may have %d bytes.", m.o.MaxBody)
	}
	m.reject(w, r, a)
}

// reject answers a request that asked for no claim.
func (m *Middleware) reject(w http.ResponseWriter, r *http.Request, a problem.Answer) {
	m.executor.Tell(r.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: string(a.Code)})
	m.refuse(w, r, a)
}

func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, a problem.Answer) {
	m.share(w.Header(), r)
	problem.Write(w, m.o.DocsBase, m.o.Preset.shape(a))
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
	m.refuse(w, r, a)
}

// refuseResult answers where another attempt, or its remains, hold the key.
func (m *Middleware) refuseResult(w http.ResponseWriter, req *http.Request, r retrysafe.Result) {
	a := problem.Answer{Instance: "urn:retrysafe:key:" + r.ID.String()}
	switch r.Verdict {
	case retrysafe.Busy:
		a.Code, a.RetryAfter = problem.InFlight, retryAfter(r)
		a.Detail = fmt.Sprintf("The operation is in progress, not failed: send the same request with the same key again in %d s.", problem.Seconds(a.RetryAfter))
	case retrysafe.Mismatch:
		a.Code, a.Instance, a.Original = problem.KeyReused, "", original(r.State)
	case retrysafe.Expired:
		a.Code = problem.AnswerExpired
	default:
		a.Code = problem.OutcomeUnknown
		w.Header().Set(statusHeader, statusUnknown)
	}
	m.refuse(w, req, a)
}

// original says, to who reused a key, what became of the request that it was used for first: a person who changed a
// form and sent it again wants to know whether the first one went through.
func original(s retrysafe.State) string {
	switch s {
	case retrysafe.InFlight:
		return "in-flight"
	case retrysafe.Completed:
		return "completed"
	}
	return "unknown"
}

// retryAfter grows with the time that the operation has taken already, so that a caller who obeys it backs
// off; it stays within the lease.
func retryAfter(r retrysafe.Result) time.Duration {
	return min(max(r.Age, time.Second), max(r.Left, time.Second))
}
