package main

import (
	"maps"
	"slices"
	"strings"
)

// contradictions tells what in a route does not go together.
func (r *reader) contradictions(c *routeConfig) {
	if c.unguarded.value {
		for _, name := range slices.Sorted(maps.Keys(c.first)) {
			r.wrong(c.first[name], "the route is unguarded: leave out %s, which says how it is guarded", name)
		}
		return
	}
	r.ends(c)
	r.forwards(c)
	if c.dropAnswers.value && c.recover.answer.value == "body" {
		r.wrong(c.recover.answer.at, "drop-answers keeps no answer: leave it out, or say answer: none")
	}
}

// ends checks what becomes of a request whose outcome is unknown: one thing.
func (r *reader) ends(c *routeConfig) {
	end := c.onLeaseEnd.value
	switch {
	case c.recover.given && end != endRecover:
		r.wrong(c.recover.at, "recover says how to ask what happened, and on-lease-end does not say to: add on-lease-end: %s", endRecover)
	case !c.recover.given && end == endRecover:
		r.wrong(c.onLeaseEnd.at, "on-lease-end: %s wants to ask what happened: add recover: {path: ...}", endRecover)
	}
	if c.honoursKeys.value && (end == endRerun || end == endRecover) {
		r.wrong(c.honoursKeys.at, "honours-keys has an unknown outcome sent again under its key; on-lease-end: %s does something else with it: keep one", end)
	}
}

// forwards checks that what goes upstream serves what the upstream is said to do.
func (r *reader) forwards(c *routeConfig) {
	if c.honoursKeys.value && c.forwardKey.value == forwardNot {
		r.wrong(c.forwardKey.at, "honours-keys needs the key upstream: leave out forward-key: %s, or say %s", forwardNot, forwardDerived)
	}
}

// tenants checks that what is asked about a key is asked about that of one tenant: another's may be the same.
func (r *reader) tenants(c *routeConfig, scope string) {
	if c.recover.given && scope != "shared" && c.forwardKey.value != forwardDerived && !strings.Contains(c.recover.path.value, "{scope}") {
		r.wrong(c.recover.path.at, "the keys of two tenants may be the same, and one would get the other's answer: put {scope} into the path, or say forward-key: %s", forwardDerived)
	}
}
