package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// A route of the file as the gateway takes it. What a route does not say is as the flags say it.

// rehearse builds the gateway over a store that is thrown away, to hear what is wrong with its routes.
func (c *gatewayCmd) rehearse(g given) error {
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		return err
	}
	_, err = c.gateway(executor, g, c.shared(g), nil)
	if err != nil && len(routeErrors(err)) == 0 {
		return usage("%v", err)
	}
	return err
}

// shared is what all routes have together, and a reload leaves as it is.
type shared struct {
	bodies *idemhttp.Bodies
	quotas *idemhttp.Quotas
	secret []byte // of derived keys: with another, a retry would go upstream under another key
}

func (c *gatewayCmd) shared(g given) shared {
	quota := idemhttp.Quota{Rate: c.QuotaRate, Burst: c.QuotaBurst, InFlight: c.QuotaInFlight}
	return shared{idemhttp.NewBodies(int64(c.MaxBodies)), idemhttp.NewQuotas(quota), g.keys.forwarded}
}

// gateway is what the flags and the file describe, over an executor that may have served another before. The policy
// of claims is not left to the executor, which cannot change it.
func (c *gatewayCmd) gateway(e *retrysafe.Executor, g given, s shared, log *slog.Logger) (*gateway.Gateway, error) {
	o := c.gatewayOptions(log, g)
	o.Guard.Policy, o.Guard.Bodies, o.Guard.Quotas = c.policy(), s.bodies, s.quotas
	o.ForwardSecret = s.secret
	o.Routes, o.AllowAmbiguousPaths = g.routes, c.AllowAmbiguousPaths
	return gateway.New(e, g.upstream, g.scope.read, o)
}

// policy is that of claims where no route says otherwise.
func (c *gatewayCmd) policy() *retrysafe.Policy {
	return &retrysafe.Policy{OnLeaseEnd: leaseEnds[c.OnLeaseEnd], Lease: time.Duration(c.Lease), Retention: time.Duration(c.Retention), Remember: c.remember()}
}

// gatewayRoutes returns the routes of the file.
func (c *gatewayCmd) gatewayRoutes(trusted []netip.Prefix) ([]gateway.Route, error) {
	if c.file == nil {
		return nil, nil
	}
	var routes []gateway.Route
	r := &reader{}
	for i := range c.file.routes {
		from := &c.file.routes[i]
		if from.forwardKey.value == forwardDerived && c.ForwardKeySecret == "" {
			r.wrong(from.forwardKey.at, "keys are derived by a secret: give --forward-key-secret a file made with `retrysafe keys new --out FILE`")
		}
		r.tenants(from, from.scope.or(c.scopeText()))
		if most := int64(from.maxBody.value); most > int64(c.MaxBodies) {
			r.wrong(from.maxBody.at, "max-body: want at most --max-bodies: one body may be that large")
		}
		routes = append(routes, c.route(from, trusted))
	}
	return routes, r.err(c.file.name)
}

// route is one route for the gateway.
func (c *gatewayCmd) route(from *routeConfig, trusted []netip.Prefix) gateway.Route {
	to := gateway.Route{
		Name: from.name.value, Methods: from.matched.value, Path: from.path.value,
		Unguarded: from.unguarded.value, UpstreamTimeout: time.Duration(from.upstreamTimeout.value),
	}
	if to.Unguarded {
		return to
	}
	to.Guard = idemhttp.Options{
		Required: from.required.or(c.RequireKey), Wait: time.Duration(from.wait.or(c.Wait)), Methods: from.methods.value, MaxKey: from.maxKey.value,
		MaxBody: int64(from.maxBody.or(c.MaxBody)), MaxResponse: int64(from.maxResponse.or(c.MaxResponse)), Policy: c.policyOf(from),
	}
	to.Guard.Preset, _ = idemhttp.ParsePreset(from.preset.or(c.Preset)) // one that was read
	to.Guard.Key = idemhttp.KeySource{Headers: from.key.headers.value, Query: from.key.query.value, Pointer: from.key.pointer.value, Fields: from.key.fields.value}
	to.Guard.Fingerprint, _ = idemhttp.ParseFingerprint(from.fingerprint.mode.value, from.fingerprint.exclude.value, from.fingerprint.selected.value) // it was read
	to.Guard.Words = c.words(from.scope.value, from.fingerprint.mode.value)
	to.Guard.DropAnswers, to.Guard.Resend = from.dropAnswers.value, from.honoursKeys.value
	to.Guard.CORSOrigins, to.Guard.CORSCredentials = c.CORSOrigin, c.CORSCredentials
	for status, word := range from.outcomes.value {
		if to.Guard.Outcomes == nil {
			to.Guard.Outcomes = map[int]retrysafe.State{}
		}
		to.Guard.Outcomes[status] = outcomes[word]
	}
	to.Probe, to.ForwardKey = from.recover.probe(), forwards[from.forwardKey.value]
	if from.scope.given {
		to.Scope = scopeOf(from.scope.value, trusted)
	}
	return to
}

var forwards = map[string]gateway.ForwardKey{forwardDerived: gateway.ForwardDerived, forwardNot: gateway.ForwardNone}

// probe is what asks the upstream, nil if nothing does.
func (c *recoverConfig) probe() *gateway.Probe {
	if !c.given {
		return nil
	}
	return &gateway.Probe{Method: c.method.value, Path: c.path.value, Happened: c.happened.value, Absent: c.absent.value, DropAnswer: c.answer.value == "none"}
}

// policyOf is what is stored with the claims of a route.
func (c *gatewayCmd) policyOf(from *routeConfig) *retrysafe.Policy {
	p := *c.policy()
	p.Lease = time.Duration(from.lease.or(duration(p.Lease)))
	p.Retention = time.Duration(from.retention.or(duration(p.Retention)))
	p.Remember = time.Duration(from.remember.or(duration(p.Remember)))
	p.OnLeaseEnd = leaseEnds[from.onLeaseEnd.or(c.OnLeaseEnd)]
	if from.preset.value == presetStripe && !from.remember.given {
		p.Remember = 0 // there a late retry is a first request
	}
	p.TwoStep = from.twoStep.value
	return &p
}

var outcomes = map[string]retrysafe.State{"release": retrysafe.Free, "keep": retrysafe.Completed, "hold": retrysafe.UnknownAnswered}

var leaseEnds = map[string]retrysafe.LeaseEnd{endHold: retrysafe.Hold, endRerun: retrysafe.Rerun, endRecover: retrysafe.Recover}

// scopeOf is the scope that the file writes as shared or header:NAME.
func scopeOf(text string, trusted []netip.Prefix) idemhttp.ScopeFunc {
	name, ok := strings.CutPrefix(text, "header:")
	if !ok {
		return idemhttp.SharedScope
	}
	if trusted == nil {
		trusted = gateway.Loopback()
	}
	return gateway.HeaderScope(name, trusted)
}

// A routeRow is a route as --check-config shows it.
type routeRow struct {
	Name            string   `json:"name"`
	Methods         []string `json:"methods"`
	Path            string   `json:"path"`
	Guard           string   `json:"guard"` // required, optional or none
	Scope           string   `json:"scope,omitempty"`
	OnLeaseEnd      string   `json:"on_lease_end,omitempty"`
	Lease           string   `json:"lease,omitempty"`
	Retention       string   `json:"retention,omitempty"`
	Remember        string   `json:"remember,omitempty"`
	Wait            string   `json:"wait,omitempty"`
	UpstreamTimeout string   `json:"upstream_timeout"`
}

// rows returns the routes in the order in which they are tried. The last is of what matches none.
func (c *gatewayCmd) rows() (rows []routeRow) {
	if c.file != nil {
		for i := range c.file.routes {
			rows = append(rows, c.row(&c.file.routes[i]))
		}
	}
	rest := c.row(&routeConfig{name: setting[string]{value: "(the rest)"}, path: setting[string]{value: "*"}})
	return append(rows, rest)
}

func (c *gatewayCmd) row(from *routeConfig) routeRow {
	to := c.route(from, nil)
	row := routeRow{Name: to.Name, Path: to.Path, Methods: to.Methods, Guard: "none", UpstreamTimeout: cmp.Or(to.UpstreamTimeout, time.Duration(c.UpstreamTimeout)).String()}
	if to.Unguarded {
		if row.Methods == nil {
			row.Methods = []string{"*"}
		}
		return row
	}
	row.Guard = "optional"
	if to.Guard.Required {
		row.Guard = "required"
	}
	if row.Methods == nil {
		row.Methods = slices.Clone(to.Guard.Methods)
	}
	if row.Methods == nil {
		row.Methods = []string{"POST", "PATCH"}
	}
	row.Scope = from.scope.or(c.scopeText())
	row.OnLeaseEnd = from.onLeaseEnd.or(c.OnLeaseEnd)
	p := to.Guard.Policy
	row.Lease, row.Retention, row.Remember, row.Wait = fmt.Sprint(p.Lease), fmt.Sprint(p.Retention), fmt.Sprint(p.Remember), fmt.Sprint(to.Guard.Wait)
	return row
}

// words are what the published specification calls the scope and the fingerprint of a route, or of the flags.
func (c *gatewayCmd) words(scope, fingerprint string) idemhttp.Words {
	kind, _, _ := strings.Cut(cmp.Or(scope, c.scopeText()), ":")
	return idemhttp.Words{Scope: kind, Fingerprint: cmp.Or(fingerprint, modeRaw)}
}

func (c *gatewayCmd) scopeText() string {
	switch {
	case c.ScopeHeader != "":
		return "header:" + c.ScopeHeader
	case c.ScopeJWT != "":
		return "jwt"
	case c.ScopeMTLS != "":
		return "mtls"
	}
	return "shared"
}
