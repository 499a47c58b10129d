// Package admin is the operators' door: a JSON API to look keys up, to see what is held, and to decide, with a
// name and a reason that stay in the key's history.
//
//	GET  /api/keys?state=&scope=&prefix=&limit=&cursor=
//	GET  /api/keys/{id}             with ?answer=1 also the answer that is kept
//	POST /api/keys/{id}/resolve     a [Resolution]: it happened, or it did not
//	POST /api/keys/{id}/forget      a [Forgetting]: claimable again, whatever happened
//	GET  /metrics
//	GET  /healthz, /readyz          open, for whoever watches the process
//
// All but the last two want the bearer token and an address that the listener is known by. Every refusal is a
// problem (RFC 9457) that says what to do instead. [Client] is the other end of the same contract.
package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Options are what an API does. Token is required; the zero value of every other field is its default.
type Options struct {
	// Token is the bearer token of everybody who may look and decide: at least 16 characters of printable
	// ASCII without spaces, random ones.
	Token string

	// Hosts are further names or addresses by which callers reach the listener, without port. Loopback, and
	// the address that a connection came in on, are known by themselves; every other name in a Host header is
	// refused, since it may be a web page's own name, pointed at this machine (DNS rebinding).
	Hosts []string

	// Backup writes a copy of the store into a folder that does not exist; ErrInvalid: it exists. Defaults to none:
	// POST /api/backup is refused.
	Backup func(ctx context.Context, dir string) error

	Metrics  http.Handler // answers /metrics. Defaults to none: 404
	DocsBase string       // of the links in problems. Defaults to the project's own pages
	Logger   *slog.Logger // told of every decision at Info, without key or reason, and of failures at Error. Defaults to silence
}

// DefaultDocsBase is where the links in problems lead unless Options say otherwise.
const DefaultDocsBase = "https://github.com/retrysafe/retrysafe/blob/main/docs"

// minToken is the length below which a token could be guessed.
const minToken = 16

// callTimeout bounds one call of the API, all its store calls together.
const callTimeout = 20 * time.Second

// An API is the operators' http.Handler over one Executor. Use New. Deadlines for slow readers and writers are
// those of the http.Server in front.
type API struct {
	executor *retrysafe.Executor
	o        Options // without the token
	token    [sha256.Size]byte
	hosts    map[string]bool
	origin   *http.CrossOriginProtection
	ready    probe
	routes   http.Handler
}

var _ http.Handler = (*API)(nil)

// New returns the API over e. It touches neither the store nor any goroutine.
func New(e *retrysafe.Executor, o *Options) (*API, error) {
	if e == nil || o == nil {
		return nil, errors.New("admin: new: an Executor and Options with a Token are required")
	}
	if err := checkToken(o.Token); err != nil {
		return nil, fmt.Errorf("admin: new: %w", err)
	}
	hosts, err := parseHosts(o.Hosts)
	if err != nil {
		return nil, fmt.Errorf("admin: new: %w", err)
	}
	a := &API{executor: e, o: *o, token: sha256.Sum256([]byte(o.Token)), hosts: hosts, origin: http.NewCrossOriginProtection()}
	a.o.Token = ""
	a.o.DocsBase = strings.TrimSuffix(a.o.DocsBase, "/")
	if a.o.DocsBase == "" {
		a.o.DocsBase = DefaultDocsBase
	}
	if a.o.Logger == nil {
		a.o.Logger = slog.New(slog.DiscardHandler)
	}
	a.routes = a.route()
	return a, nil
}

// checkToken refuses a token that could be guessed, or that no Authorization header could carry.
func checkToken(token string) error {
	if len(token) < minToken {
		return fmt.Errorf("the token has %d bytes: want at least %d random ones", len(token), minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token may hold printable ASCII only, no spaces")
	}
	return nil
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store") // what is told here is of one moment, and some of it is secret
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	a.routes.ServeHTTP(w, r)
}

// route is every path. What is not open is guarded, unknown paths too.
func (a *API) route() http.Handler {
	guarded := http.NewServeMux()
	guarded.Handle("/api/keys", a.call(http.MethodGet, a.list))
	guarded.Handle("/api/keys/{id}", a.call(http.MethodGet, a.show))
	guarded.Handle("/api/keys/{id}/resolve", a.call(http.MethodPost, a.resolve))
	guarded.Handle("/api/keys/{id}/forget", a.call(http.MethodPost, a.forget))
	guarded.Handle("/api/backup", a.only(http.MethodPost, a.answer(a.backup)))
	guarded.Handle("/metrics", a.only(http.MethodGet, a.metrics))
	guarded.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, &Error{Code: codeNoPath, Detail: "The paths are /api/keys, /api/keys/{id}, /api/keys/{id}/resolve, /api/keys/{id}/forget, /api/backup, /metrics, /healthz and /readyz."})
	})
	open := http.NewServeMux()
	open.Handle("/healthz", a.only(http.MethodGet, a.healthz))
	open.Handle("/readyz", a.only(http.MethodGet, a.readyz))
	open.Handle("/", a.guard(guarded))
	return open
}

// only lets one method pass; HEAD passes with GET (RFC 9110, 9.3.2).
func (a *API) only(method string, next http.HandlerFunc) http.Handler {
	allow := method
	if method == http.MethodGet {
		allow = "GET, HEAD"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
			next(w, r)
			return
		}
		w.Header().Set("Allow", allow) // RFC 9110, 15.5.6
		a.refuse(w, r, &Error{Code: codeMethod, Detail: "This path answers " + allow + " only."})
	})
}

// call is answer for one method, in bounded time, on a store that is open.
func (a *API) call(method string, do func(*http.Request) (any, error)) http.Handler {
	return a.only(method, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		if err := a.executor.Open(ctx); err != nil { // told apart from an entry that cannot be read
			a.refuse(w, r, fmt.Errorf("open the store: %v", err))
			return
		}
		a.answer(do)(w, r.WithContext(ctx))
	})
}

// answer answers with what do returns, as JSON, or with the problem that its error is.
func (a *API) answer(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := do(r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", v)
	}
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	if a.o.Metrics == nil {
		a.refuse(w, r, &Error{Code: codeNoPath, Detail: "No metrics are collected here: set the option Metrics."})
		return
	}
	a.o.Metrics.ServeHTTP(w, r)
}
