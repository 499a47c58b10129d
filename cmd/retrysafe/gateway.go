package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/observer/promobserver"
)

type gatewayCmd struct {
	Config      string `placeholder:"FILE" help:"A YAML file that says what flags and environment do not, and has routes (see docs/operate.md). SIGHUP reads it again."`
	CheckConfig bool   `help:"Check flags, environment and file, print the routes, and end. Nothing is opened or written."`
	JSON        bool   `name:"json" help:"With --check-config: print JSON."`

	AllowAmbiguousPaths bool `help:"With routes: let guarded requests through whose path an upstream might take for another, like /a/../b. They may get round a route's rules."`

	Upstream string `required:"" placeholder:"URL" help:"The API to guard, like http://127.0.0.1:9090."`
	Listen   string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Where callers connect. Default ${default}."`
	Admin    string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Where operators connect: keys, metrics, health. Default ${default}."`
	Store    string `default:"pebble:./retrysafe-data" placeholder:"STORE" help:"Where keys are kept: pebble:DIR in a folder of this machine, which one gateway uses at a time; memory: forgets them when the gateway ends. Default ${default}."`

	Preset     string   `default:"ietf" enum:"ietf,ietf-strict,stripe" help:"How keys are written and refusals look: ietf (quoted or bare), ietf-strict (quoted), or stripe. Default ${default}."`
	RequireKey bool     `help:"Refuse POST and PATCH without a key, with 400. Without it they pass unguarded."`
	Wait       duration `default:"0s" help:"How long a retry waits for the first attempt before it gets 409. Default ${default}."`
	Lease      duration `default:"30s" help:"How long a claim stands without a sign of life of its gateway. Default ${default}."`
	Retention  duration `default:"24h" help:"How long answers are kept and replayed. Default ${default}."`
	Remember   optional `placeholder:"720h" help:"How long keys are remembered after that: a retry then gets 410 and does not run again. 0s is off. Default 720h; 0s with --preset stripe."`
	OnLeaseEnd string   `default:"hold" enum:"hold,rerun" help:"What becomes of a request whose gateway died: hold it as unknown, or rerun it (it may then take effect twice). Default ${default}."`
	RecordWait duration `default:"10s" help:"How long an answer is held back until it is recorded. Default ${default}."`

	scopeFlags  `embed:""`
	TrustProxy  []string `placeholder:"CIDR" help:"Networks whose scope and X-Forwarded-* headers are believed. Default: this machine."`
	MaxBody     size     `default:"10MiB" help:"Largest body of a guarded request. Default ${default}."`
	MaxBodies   size     `default:"256MiB" help:"Largest sum of the bodies of guarded requests under way. Beyond it requests get 503, and nothing of them runs. Default ${default}."`
	MaxResponse size     `default:"1MiB" help:"Largest answer that is kept. A larger one is passed on; retries are told that it was not kept. Default ${default}."`

	QuotaRate     float64 `default:"0" placeholder:"N" help:"How many requests with a key one tenant may send a second, over time; more get 429, and nothing of them runs. 0 is no bound. Default ${default}."`
	QuotaBurst    int     `default:"0" placeholder:"N" help:"How many of them at once, after a rest. 0 is one second's worth. Default ${default}."`
	QuotaInFlight int     `default:"0" placeholder:"N" help:"How many of one tenant may be under way at once. 0 is no bound. Default ${default}."`

	CORSOrigin      []string `name:"cors-origin" placeholder:"ORIGIN" help:"Origin whose pages may read replays and refusals, like https://shop.example.com, or *. On first answers the upstream says so."`
	CORSCredentials bool     `name:"cors-credentials" help:"Let those pages send cookies."`

	NoSpecification bool `help:"Do not publish at /.well-known/idempotency how keys are treated."`

	listenFlags    `embed:""`
	MaxConnections int      `default:"10000" placeholder:"N" help:"How many connections callers may hold open; further ones wait. Default ${default}."`
	BodyTimeout    duration `default:"30s" help:"How long to wait for the next byte of a request's body. Default ${default}."`
	WriteTimeout   duration `default:"30s" help:"How long a caller may take to read the next 32 KiB of its answer. Default ${default}."`

	upstreamFlags   `embed:""`
	UpstreamTimeout duration `default:"60s" help:"How long to wait for the upstream's next byte. Default ${default}."`
	UpstreamIdle    duration `default:"2s" help:"When an unused connection to the upstream is dropped; keep it below the upstream's own. Default ${default}."`
	KeepAlive       bool     `name:"upstream-keep-alive" help:"Let guarded requests share connections to the upstream: faster. Only for an upstream that never sends more than its answer."`
	DrainTimeout    duration `default:"30s" help:"How long SIGTERM waits for requests under way. Default ${default}."`

	AdminHost        []string `placeholder:"NAME" help:"Further host names by which operators reach the admin listener; others are refused, against DNS rebinding. Addresses of this machine are known."`
	tokenFlags       `embed:""`
	FingerprintKeys  string `placeholder:"FILE" help:"Keys that seal request fingerprints, one a line, the first in use. Without it the store keeps a random one of its own."`
	AnswerKeys       string `placeholder:"FILE" help:"Keys that seal the answers that are kept, one a line, the first in use (see: retrysafe keys new --help). Without it answers are kept in clear."`
	ForwardKeySecret string `placeholder:"FILE" help:"One key, by which routes that say forward-key: derived make the keys that go upstream (see: retrysafe keys new --help)."`
	DocsBase         string `placeholder:"URL" help:"Where the links in error answers lead. Default: the project's pages."`
	LogFormat        string `default:"text" enum:"text,json" help:"text or json, on stderr. Default ${default}."`

	file  *configFile           // nil without --config
	flags map[string]*kong.Flag // of the command line that this was read from
}

// Run serves until ctx ends, then drains.
func (c *gatewayCmd) Run(ctx context.Context, s streams, again parsedAgain) error {
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go away; the gateway goes on
	stdlog.SetOutput(io.Discard)   // net/http logs there what it did not expect, and quotes it
	lines := newLogWriter(s.err)
	defer lines.Close()
	log := slog.New(slog.NewTextHandler(lines, nil))
	if c.LogFormat == "json" {
		log = slog.New(slog.NewJSONHandler(lines, nil))
	}
	given, err := c.check(log)
	if err != nil {
		return c.file.locate(err)
	}
	if c.CheckConfig {
		return c.printChecked(s)
	}
	public, err := listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	public = gateway.LimitConnections(public, c.MaxConnections)
	defer public.Close()
	operators, err := listen("--admin", c.Admin)
	if err != nil {
		return err
	}
	defer operators.Close()
	store, err := openStore(c.Store, log)
	if err != nil {
		return err
	}
	g, err := c.assemble(ctx, given, store, log)
	if err != nil {
		return errors.Join(err, store.close())
	}
	if c.Config != "" {
		defer g.followHangups(again)()
	}
	g.announce(s, public, operators)
	return errors.Join(g.serve(ctx, public, operators, time.Duration(c.DrainTimeout)), store.close())
}

// A given is what flags say, read and checked.
type given struct {
	upstream *url.URL
	trusted  []netip.Prefix
	keys     secretKeys
	routes   []gateway.Route
	scope    scopeSource
	front    *tls.Config // of the listener; nil: plain HTTP
	back     *tls.Config // towards the upstream; nil: the default
}

// check reads what the flags say before anything is opened.
func (c *gatewayCmd) check(log *slog.Logger) (g given, err error) {
	if g.upstream, err = parseUpstream(c.Upstream); err != nil {
		return g, err
	}
	if g.trusted, err = parsePrefixes("--trust-proxy", c.TrustProxy); err != nil {
		return g, err
	}
	if err := c.readPeers(&g, log); err != nil {
		return g, err
	}
	if err := errors.Join(checkDocsBase(c.DocsBase), checkStore(c.Store)); err != nil {
		return g, err
	}
	for _, f := range []struct {
		name  string
		value duration
	}{{"--lease", c.Lease}, {"--retention", c.Retention}, {"--record-wait", c.RecordWait}, {"--upstream-timeout", c.UpstreamTimeout}, {"--upstream-idle", c.UpstreamIdle},
		{"--body-timeout", c.BodyTimeout}, {"--write-timeout", c.WriteTimeout}} {
		if f.value == 0 {
			return g, usage("%s: 0s makes no sense here: want a positive duration", f.name)
		}
	}
	if c.MaxConnections < 1 || c.MaxConnections > 1<<20 {
		return g, usage("--max-connections: want 1 to %d", 1<<20)
	}
	if c.MaxBodies < c.MaxBody {
		return g, usage("--max-bodies: want at least --max-body: one body may be that large")
	}
	if c.QuotaRate < 0 || c.QuotaRate > 1e9 || c.QuotaBurst < 0 || c.QuotaInFlight < 0 {
		return g, usage("--quota-rate, --quota-burst, --quota-in-flight: want 0 or more, and a rate of at most 1e9")
	}
	if err := idemhttp.CheckOrigins(c.CORSOrigin, c.CORSCredentials); err != nil {
		return g, usage("--cors-origin: %v", err)
	}
	if _, err := c.token(); err != nil {
		return g, err
	}
	if err := admin.CheckHosts(c.AdminHost); err != nil {
		return g, usage("--admin-host: %v", err)
	}
	if g.keys, err = c.readKeys(); err != nil {
		return g, err
	}
	if g.routes, err = c.gatewayRoutes(g.trusted); err != nil {
		return g, err
	}
	return g, c.rehearse(g)
}

// secretKeys are those that seal fingerprints and answers, and the one that derives what goes upstream.
type secretKeys struct {
	fingerprints, answers [][]byte
	forwarded             []byte
}

func (c *gatewayCmd) readKeys() (k secretKeys, err error) {
	if k.fingerprints, err = readFingerprintKeys(c.FingerprintKeys); err != nil {
		return k, err
	}
	if k.answers, err = readAnswerKeys(c.AnswerKeys); err != nil {
		return k, err
	}
	if k.forwarded, err = readForwardKeySecret(c.ForwardKeySecret); err != nil {
		return k, err
	}
	return k, checkApart(k)
}

func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", strings.TrimPrefix(addr, "http://"))
	if e, ok := errors.AsType[*net.AddrError](err); ok {
		return nil, usage("%s: %v: want HOST:PORT like 127.0.0.1:8080", flag, e)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, usage("%s: %v: want HOST:PORT like 127.0.0.1:8080", flag, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: choose another address, or stop what listens there", flag, err)
	}
	return l, nil
}

// A server is the assembled gateway.
type server struct {
	executor  *retrysafe.Executor
	cmd       *gatewayCmd // in force
	shares    shared      // bounds that count across a reload too
	front     front
	admin     http.Handler
	tokenFile string // of a token that was not given
	required  bool
	scope     scopeSource
	tls       *tls.Config // of the listener for callers; nil: plain HTTP
	stuck     time.Duration
	log       *slog.Logger
}

// assemble puts the parts together, by hand: store, executor, gateway, admin.
func (c *gatewayCmd) assemble(ctx context.Context, given given, store *keeper, log *slog.Logger) (*server, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	executor, err := c.executor(store.Store, given.keys, log, registry)
	if err != nil {
		return nil, err
	}
	if err := executor.Open(ctx); errors.Is(err, retrysafe.ErrInvalid) {
		return nil, usage("--fingerprint-keys: %v", err)
	} else if err != nil {
		return nil, fmt.Errorf("--store %s: %w", c.Store, err)
	}
	s := &server{executor: executor, log: log, scope: given.scope, tls: given.front, stuck: time.Duration(c.WriteTimeout), required: c.RequireKey, cmd: c, shares: c.shared(given)}
	g, err := c.gateway(executor, given, s.shares, log)
	if err != nil {
		return nil, err
	}
	s.front.Store(g)
	token, file, err := c.tokenOrNew()
	if err != nil {
		return nil, err
	}
	s.tokenFile = file
	s.admin, err = admin.New(executor, &admin.Options{Token: token, Hosts: c.AdminHost, Backup: store.backup, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), DocsBase: c.DocsBase, Logger: log})
	return s, err
}

func (c *gatewayCmd) executor(store retrysafe.Store, keys secretKeys, log *slog.Logger, registry *prometheus.Registry) (*retrysafe.Executor, error) {
	observer, err := promobserver.New(registry)
	if err != nil {
		return nil, err
	}
	o := &retrysafe.Options{
		Lease: time.Duration(c.Lease), Retention: time.Duration(c.Retention), Remember: cmp.Or(c.remember(), retrysafe.Off),
		RecordWait: time.Duration(c.RecordWait), FingerprintKeys: keys.fingerprints, AnswerKeys: keys.answers, Observer: observer, Logger: log,
	}
	if c.OnLeaseEnd == "rerun" {
		o.OnLeaseEnd = retrysafe.Rerun
	}
	return retrysafe.New(store, o)
}

// remember is how long keys are remembered after their answers: what --remember says, or else the preset.
func (c *gatewayCmd) remember() time.Duration {
	switch {
	case c.Remember.given:
		return time.Duration(c.Remember.value)
	case c.Preset == idemhttp.Stripe.String():
		return 0
	}
	return 30 * 24 * time.Hour
}

func (c *gatewayCmd) gatewayOptions(log *slog.Logger, given given) *gateway.Options {
	preset, _ := idemhttp.ParsePreset(c.Preset) // an enum
	return &gateway.Options{
		Guard: idemhttp.Options{Preset: preset, Required: c.RequireKey, Wait: time.Duration(c.Wait), MaxBody: int64(c.MaxBody),
			MaxBodies: int64(c.MaxBodies), BodyTimeout: time.Duration(c.BodyTimeout), MaxResponse: int64(c.MaxResponse), CORSOrigins: c.CORSOrigin, CORSCredentials: c.CORSCredentials, Words: c.words("", ""), DocsBase: c.DocsBase, Logger: log},
		NoSpecification: c.NoSpecification,
		UpstreamTimeout: time.Duration(c.UpstreamTimeout), WriteTimeout: time.Duration(c.WriteTimeout), UpstreamIdle: time.Duration(c.UpstreamIdle), KeepAlive: c.KeepAlive, TrustProxy: given.trusted, Logger: log,
		UpstreamTLS: given.back, UpstreamHTTP2: c.UpstreamHTTP2,
	}
}

func checkDocsBase(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage("--docs-base: want a URL like https://docs.example.com/retrysafe")
	}
	return nil
}

// announce says, on stderr, that the gateway is ready, and what an operator should know.
func (s *server) announce(to streams, public, operators net.Listener) {
	if !s.scope.said {
		fmt.Fprintln(to.err, "retrysafe: all callers share one scope: set --scope-header (or --scope-jwt, --scope-mtls) if they must not see each other's keys, --scope shared if they may")
	}
	if !s.required {
		fmt.Fprintln(to.err, "retrysafe: requests without a key pass unguarded: set --require-key to refuse them")
	}
	if s.tokenFile != "" {
		fmt.Fprintf(to.err, "retrysafe: the admin token is in ./%s\n", s.tokenFile)
	}
	fmt.Fprintf(to.err, "retrysafe: admin listening on http://%s\n", operators.Addr())
	fmt.Fprintf(to.err, "listening on %s://%s\n", s.scheme(), public.Addr())
}

// serve serves both listeners until ctx ends. Then new keyed requests are told to come again, those under way
// end and are recorded, and the admin listener goes last, so that it can be watched.
func (s *server) serve(ctx context.Context, public, operators net.Listener, drain time.Duration) error {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	front, back := newServer(&s.front, s.log), newServer(s.admin, s.log)
	failed := make(chan error, 3)
	go func() { failed <- s.serveCallers(front, public) }()
	go func() { failed <- back.Serve(operators) }()
	go func() { failed <- s.executor.Run(running) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.log.Info("draining", "at_most", drain)
	bounded, cancel := context.WithTimeoutCause(context.Background(), drain, fmt.Errorf("--drain-timeout %v is over", drain))
	defer cancel()
	err := s.executor.Drain(bounded) // until then the listener stands and tells newcomers to come again
	cut := front.Shutdown(bounded)
	stop()
	front.Close()
	back.Close()
	switch {
	case err != nil:
		return fmt.Errorf("%w: their callers were cut off", err)
	case cut != nil: // by requests without a key
		return fmt.Errorf("drain: callers were cut off: %w", context.Cause(bounded))
	}
	s.log.Info("drained")
	return nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
