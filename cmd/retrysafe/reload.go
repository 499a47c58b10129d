package main

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/gateway"
)

// A front is the gateway that serves now. A request under way ends with the one that it began with.
type front struct {
	atomic.Pointer[gateway.Gateway]
}

// ServeHTTP has the gateway of the moment answer.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.Load().ServeHTTP(w, r) }

// reload reads the configuration again, and puts it in force whole, or not at all. Claims are kept by the executor,
// which stays: those under way are recorded as ever, and each ends by the policy that is stored with it.
func (s *server) reload(again parsedAgain) {
	next, err := again.gateway()
	var g *gateway.Gateway
	if err == nil {
		g, err = s.prepare(next)
		err = next.file.locate(err)
	}
	if err != nil {
		lines := []string{oneLine(err.Error())}
		if e, ok := errors.AsType[*configError](err); ok {
			lines = e.lines()
		}
		for _, line := range lines {
			s.log.Error("configuration not reloaded, the old one stays in force", "err", line)
		}
		return
	}
	s.front.Store(g)
	s.cmd = next
	s.log.Info("configuration reloaded", "routes", len(next.file.routes))
}

// prepare builds the gateway of a configuration, if this process can become it.
func (s *server) prepare(next *gatewayCmd) (*gateway.Gateway, error) {
	given, err := next.check(s.log)
	if err != nil {
		return nil, err
	}
	if err := next.fixed(s.cmd); err != nil {
		return nil, err
	}
	return next.gateway(s.executor, given, s.shares, s.log)
}

// reloadable are the flags that a reload may change: those about requests. Every other is read at start only.
var reloadable = []string{
	"allow-ambiguous-paths", "body-timeout", "cors-credentials", "cors-origin", "lease", "max-body", "max-response", "no-specification", "on-lease-end", "preset", "remember", "require-key", "retention", "audience", "issuer", "jwks", "scope", "scope-header", "scope-jwt", "scope-mtls",
	"trust-proxy", "upstream", "upstream-idle", "upstream-keep-alive", "upstream-timeout", "wait", "write-timeout",
}

// fixed refuses what differs from the configuration in force and is only read at start.
func (c *gatewayCmd) fixed(before *gatewayCmd) error {
	r := &reader{}
	for _, name := range slices.Sorted(maps.Keys(c.flags)) {
		now, then := c.flags[name].Target.Interface(), before.flags[name].Target.Interface()
		if slices.Contains(reloadable, name) || reflect.DeepEqual(now, then) {
			continue
		}
		at := position{1, 1} // where it was taken out
		if text := c.file.flags[name]; text.used {
			at = text.at
		}
		r.wrong(at, "%s: it changed, and is read at start only: put it back, or restart the gateway", name)
	}
	return r.err(c.file.name)
}
