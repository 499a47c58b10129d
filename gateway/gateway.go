// Package gateway puts idempotency keys in front of an API in any language, as a reverse proxy: it claims the
// key, forwards the request once, records the answer and replays it.
//
// "Once" is meant to the letter. Go's own HTTP client sends a request a second time when a kept-alive
// connection breaks before the first byte of an answer, if the request carries an Idempotency-Key and its
// body can be rewound; so the key travels under a name that the client does not know and the body cannot be
// rewound. Whether a failed request may have acted is decided by the bytes that left on its connection.
package gateway

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// Options are what a Gateway does. Nil, and the zero value of each field, is the default.
type Options struct {
	Guard idemhttp.Options // of the middleware in front

	Probe *Probe // asks the upstream what became of an operation whose owner is gone. Defaults to none

	ForwardKey    ForwardKey // what of the key goes upstream. Defaults to ForwardSame
	ForwardSecret []byte     // by which ForwardDerived derives keys, of routes too: at least MinForwardSecret random bytes

	Routes []Route // for some requests, in place of Guard. Defaults to none

	// AllowAmbiguousPaths lets guarded methods through whose path an upstream might take for that of another route:
	// with dot segments, say, or encoded letters. Off by default: with Routes they are refused, with 400.
	AllowAmbiguousPaths bool

	UpstreamTimeout time.Duration // for the upstream's next byte. Defaults to 60 s
	DialTimeout     time.Duration // to connect, TLS included. Defaults to 5 s
	WriteTimeout    time.Duration // for the caller to take the next 32 KiB of its answer. Defaults to 30 s
	UpstreamIdle    time.Duration // after which an unused connection is dropped. Defaults to 2 s; keep it below the upstream's own

	NoSpecification bool // leaves /.well-known/idempotency to the upstream. Off by default: what the guards do is published there

	// KeepAlive lets guarded requests share connections to the upstream. Off by default: Go's HTTP client takes
	// what an upstream sends beyond its answer (a 204 with a body, say) for the answer to whoever gets the
	// connection next, which would be another key's. Switch it on for an upstream whose framing you trust.
	KeepAlive bool

	UpstreamTLS *tls.Config // how an https:// upstream is known, and we to it. Defaults to the system's roots

	// UpstreamHTTP2 has HTTP/2 spoken to an https:// upstream that offers it. It needs KeepAlive. Of requests that fail on
	// such a connection none counts as not sent: their bytes are not told from those of others.
	UpstreamHTTP2 bool

	// TrustProxy are the peers whose X-Forwarded-* and Forwarded headers are passed on. Defaults to loopback.
	TrustProxy []netip.Prefix

	Logger *slog.Logger // never told a key or a payload. Defaults to silence
}

// A Gateway is the http.Handler in front of one upstream. Use New.
type Gateway struct {
	executor   *retrysafe.Executor
	middleware *idemhttp.Middleware // in front of forward; nil: not guarded
	guarded    http.Handler
	lease      time.Duration // of a claim
	upstream   *url.URL
	transport  *http.Transport
	plain      *httputil.ReverseProxy // for what is not guarded
	pseudonym  string                 // in the Via header
	keyHeaders []string               // that may carry a key
	branches   []branch               // of the routes, in their order
	guards     []string               // methods that are guarded somewhere
	published  http.Handler           // nil: nothing is
	says       idemhttp.Specification // of its own guard
	o          Options
}

// New returns a Gateway to upstream that keeps keys in e, each in the scope that scope finds.
func New(e *retrysafe.Executor, upstream *url.URL, scope idemhttp.ScopeFunc, o *Options) (*Gateway, error) {
	if err := checkUpstream(upstream); err != nil {
		return nil, fmt.Errorf("gateway: new: %w", err)
	}
	g := &Gateway{executor: e, upstream: upstream, pseudonym: newPseudonym()}
	if o != nil {
		g.o = *o
	}
	if err := g.o.fill(); err != nil {
		return nil, fmt.Errorf("gateway: new: %w", err)
	}
	if g.o.Guard.Bodies == nil {
		g.o.Guard.Bodies = idemhttp.NewBodies(g.o.maxBodies())
	}
	if g.o.Guard.Quotas == nil {
		g.o.Guard.Quotas = idemhttp.NewQuotas(g.o.Guard.Quota)
	}
	g.transport = newTransport(&g.o, upstream)
	g.plain = g.reverseProxy()
	if _, err := g.install(e, scope); err != nil {
		return nil, fmt.Errorf("gateway: new: %w", err)
	}
	if err := g.branchOff(e, scope); err != nil {
		return nil, fmt.Errorf("gateway: new: %w", err)
	}
	if !g.o.NoSpecification {
		g.published = g.specification().Handler()
	}
	return g, nil
}

// install puts the middleware in front of forward. An error comes with the field of a Route that it is about.
func (g *Gateway) install(e *retrysafe.Executor, scope idemhttp.ScopeFunc) (field string, err error) {
	if err := g.installProbe(e); err != nil {
		return "Probe", err
	}
	if err := g.checkForwardKey(); err != nil {
		return "ForwardKey", err
	}
	if g.middleware, err = idemhttp.New(e, scope, &g.o.Guard); err != nil {
		return "Guard", err
	}
	g.keyHeaders, g.says = g.middleware.KeyHeaders(), g.middleware.Specification()
	g.guarded = g.middleware.Handler(http.HandlerFunc(g.forward))
	return "", nil
}

// maxBodies is the bound over all bodies: by default 256 MiB, or the largest body that may come if that is more.
func (o *Options) maxBodies() int64 {
	most := max(256<<20, o.Guard.MaxBody)
	for _, r := range o.Routes {
		most = max(most, r.Guard.MaxBody)
	}
	return cmp.Or(o.Guard.MaxBodies, min(most, 1<<40))
}

func checkUpstream(u *url.URL) error {
	if u == nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("the upstream must be an http:// or https:// URL with a host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the upstream URL must have no user, query or fragment")
	}
	return nil
}

// Loopback is the default of TrustProxy: peers on this machine.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func (o *Options) fill() error {
	for _, d := range []struct {
		p        *time.Duration
		fallback time.Duration
	}{{&o.UpstreamTimeout, time.Minute}, {&o.DialTimeout, 5 * time.Second}, {&o.UpstreamIdle, 2 * time.Second}, {&o.WriteTimeout, 30 * time.Second}} {
		if *d.p < 0 {
			return errors.New("timeouts must not be negative")
		}
		if *d.p == 0 {
			*d.p = d.fallback
		}
	}
	if o.UpstreamHTTP2 && !o.KeepAlive {
		return errors.New("UpstreamHTTP2 needs KeepAlive: HTTP/2 shares connections")
	}
	if o.UpstreamTLS == nil {
		o.UpstreamTLS = modernTLS()
	}
	if o.TrustProxy == nil {
		o.TrustProxy = Loopback()
	}
	o.Logger = orSilent(o.Logger)
	if o.Guard.Logger == nil {
		o.Guard.Logger = o.Logger
	}
	if o.Guard.DocsBase == "" {
		o.Guard.DocsBase = idemhttp.DefaultDocsBase
	}
	o.Guard.DocsBase = strings.TrimSuffix(o.Guard.DocsBase, "/")
	o.Guard.MaxResponse = min(cmp.Or(o.Guard.MaxResponse, 1<<20), 1<<40)
	o.Guard.BodyTimeout = cmp.Or(o.Guard.BodyTimeout, 30*time.Second)
	return nil
}

// ServeHTTP guards and forwards one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.cameBack(r) {
		g.refuseLoop(w, r)
		return
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace || r.Method == "PRI" {
		// They are about connections, and ours are shared (RFC 9110, 9.3.6 and 9.3.8; RFC 9113, 3.4).
		w.Header().Set("Connection", "close")
		writeBlank(w, http.StatusNotImplemented)
		return
	}
	caller := g.paced(w, r)
	defer caller.begin() // for what the server has still to send when this returned
	if g.publishes(r) {
		g.published.ServeHTTP(caller, r)
		return
	}
	by, why := g.choose(r)
	if why != "" {
		g.refuseAmbiguous(caller, r, why)
		return
	}
	by.guarded.ServeHTTP(caller, r)
}
