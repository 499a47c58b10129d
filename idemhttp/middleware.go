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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A ScopeFunc says whose request it is: a tenant or a principal, from an identity that was verified before.
// Keys of different scopes never meet. An error, or "", answers 401 and runs nothing.
type ScopeFunc func(r *http.Request) (string, error)

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
	MaxResponse int64    // bytes of an answer: a larger one is passed on, and not kept. Defaults to 1 MiB

	// Headers of an answer are kept if they are listed here or in DefaultReplayHeaders; never those that
	// belong to one exchange, like Set-Cookie: New refuses them.
	ReplayHeaders []string

	Policy   *retrysafe.Policy     // of claims. Defaults to the Executor's
	Recover  retrysafe.RecoverFunc // defaults to the Executor's
	Wait     time.Duration         // for another attempt to end before 409. Defaults to 0
	DocsBase string                // of the links in problems. Defaults to the project's own pages
	Logger   *slog.Logger          // never told a key or a payload. Defaults to silence
}

// DefaultDocsBase is where the links in problems lead unless Options say otherwise.
const DefaultDocsBase = "https://github.com/retrysafe/retrysafe/blob/main/docs"

// A Middleware guards handlers. Use New.
type Middleware struct {
	executor *retrysafe.Executor
	scope    ScopeFunc
	o        Options
	replay   []string // headers that are kept
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
	if o.Policy != nil {
		if err := o.Policy.Check(); err != nil {
			return err
		}
	}
	if o.MaxKey < 0 || o.MaxBody < 0 || o.MaxResponse < 0 || o.Wait < 0 {
		return errors.New("MaxKey, MaxBody, MaxResponse and Wait must not be negative")
	}
	o.MaxKey = cmp.Or(o.MaxKey, 255)
	o.MaxBody = min(cmp.Or(o.MaxBody, 10<<20), largest)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, 1<<20), largest)
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
		case !slices.Contains(m.o.Methods, r.Method), len(lines) == 0 && !m.o.Required:
			next.ServeHTTP(w, r)
		case len(lines) == 0:
			m.refuse(w, problem.Answer{Code: problem.KeyMissing})
		default:
			m.guard(w, r, next, lines)
		}
	})
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
	if err != nil || scope == "" {
		m.refuse(w, problem.Answer{Code: problem.ScopeMissing})
		return
	}
	body, code := m.readBody(w, r)
	if code != "" {
		m.refuse(w, problem.Answer{Code: code})
		return
	}
	c := &call{middleware: m, next: next, r: r, w: recorder{w: w, limit: m.o.MaxResponse, replay: m.replay}}
	c.w.call = c
	if h := w.Header(); len(h) > 0 {
		c.w.outer = h.Clone()
	}
	c.body.r.Reset(body)
	result, err := m.executor.Execute(r.Context(), retrysafe.Request{
		Key: retrysafe.Key{Scope: scope, Name: name}, Fingerprint: fingerprint(r, body),
		Policy: m.o.Policy, Recover: m.o.Recover, Wait: m.o.Wait, Detached: true,
	}, c.run)
	switch {
	case err != nil:
		m.fail(w, err)
	case result.Verdict == retrysafe.Won || result.Verdict == retrysafe.TookOver:
		c.finish(result)
	case result.Verdict == retrysafe.Replay:
		m.replayAnswer(w, result)
	default:
		m.refuseResult(w, result)
	}
}

func (m *Middleware) refuse(w http.ResponseWriter, a problem.Answer) {
	problem.Write(w, m.o.DocsBase, a)
}

// fail answers where nothing ran.
func (m *Middleware) fail(w http.ResponseWriter, err error) {
	a := problem.Answer{Code: problem.StoreUnavailable, RetryAfter: time.Second}
	switch {
	case errors.Is(err, retrysafe.ErrDraining):
		a.Code = problem.Draining
	case errors.Is(err, retrysafe.ErrUnreadable):
		a = problem.Answer{Code: problem.EntryUnreadable}
	}
	if a.Code != problem.Draining {
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

// replayAnswer gives the answer of the first.
func (m *Middleware) replayAnswer(w http.ResponseWriter, r retrysafe.Result) {
	var room [12]line // answers of usual size are read without an allocation
	lines := room[:0]
	status, body, err := answer.DecodeLines(r.Answer, func(name, value string) { lines = append(lines, line{name, value}) })
	switch {
	case err != nil && r.NotKept && r.Answer == nil: // decided by an operator who had no answer
		status = http.StatusNoContent
	case err != nil:
		m.fail(w, errors.Join(retrysafe.ErrUnreadable, err))
		return
	}
	h := w.Header()
	for i, l := range lines {
		restoreLine(h, l, i > 0 && lines[i-1].name == l.name)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // the first had none: net/http must not guess one now
	}
	h.Set(replayedHeader, "true")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	if r.State == retrysafe.UnknownAnswered {
		h.Add(statusHeader, statusUnknown)
	}
	if r.NotKept {
		h.Add(statusHeader, string(problem.AnswerNotKept))
	}
	send(w, status, body)
}

// A line is one header line.
type line struct{ name, value string }

// restoreLine puts a line of the first answer among the headers that outer layers gave this one. It takes
// their place, but for lists to which each layer adds its own.
func restoreLine(h http.Header, l line, further bool) {
	switch {
	case l.name == "Vary" || l.name == "Link":
		if !slices.Contains(h[l.name], l.value) {
			h[l.name] = append(h[l.name], l.value)
		}
	case further:
		h[l.name] = append(h[l.name], l.value)
	default:
		h[l.name] = []string{l.value}
	}
}

// A call is one guarded request whose operation runs here, and the context it runs in.
type call struct {
	context.Context
	middleware *Middleware
	next       http.Handler
	r          *http.Request
	body       body
	w          recorder
	said       atomic.Uint32 // a retrysafe.State: what the handler says of its outcome, against its status
	panicked   any
	stack      []byte // of the panic
}

// Value returns the call itself under its key.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// run is the operation: the handler, its answer recorded, its panic caught.
func (c *call) run(ctx context.Context) (out retrysafe.Outcome) {
	defer func() {
		if c.panicked = recover(); c.panicked != nil {
			c.stack = debug.Stack()
			out = retrysafe.Outcome{Reason: "the handler panicked"}
		}
	}()
	c.Context = ctx
	r := c.r.WithContext(c)
	r.Body = &c.body
	c.next.ServeHTTP(&c.w, r)
	return c.w.outcome()
}

// finish sends what the operation left to be sent.
func (c *call) finish(r retrysafe.Result) {
	w := c.w.w
	switch {
	case c.panicked == nil && c.w.short(), c.panicked == http.ErrAbortHandler, c.panicked != nil && c.w.streaming:
		panic(http.ErrAbortHandler) // the connection is cut: the answer is not whole
	case c.panicked == nil && !c.w.streaming:
		c.w.flush(r)
	case c.panicked == nil:
	default:
		c.middleware.o.Logger.Error("handler panicked", "id", r.ID.String()[:12], "type", fmt.Sprintf("%T", c.panicked), "stack", string(c.stack))
		clear(w.Header())
		maps.Copy(w.Header(), c.w.outer)
		w.Header().Set(statusHeader, statusUnknown)
		c.middleware.refuse(w, problem.Answer{Code: problem.OutcomeUnknown, Status: http.StatusInternalServerError, Instance: "urn:retrysafe:key:" + r.ID.String()})
	}
}
