package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// A routeConfig is a route as the file says it.
type routeConfig struct {
	at      position
	name    setting[string]
	path    setting[string]
	matched setting[[]string] // methods

	unguarded, required, dropAnswers, twoStep, honoursKeys setting[bool]
	preset, scope, onLeaseEnd, forwardKey                  setting[string]
	methods                                                setting[[]string] // to guard
	retention, remember, wait, lease, upstreamTimeout      setting[duration]
	maxKey                                                 setting[int]
	maxBody, maxResponse                                   setting[size]
	outcomes                                               setting[map[int]string]

	key         keyConfig
	fingerprint fingerprintConfig
	recover     recoverConfig
	first       map[string]position // of what says how it is guarded, by its key
}

// A keyConfig says where the key stands: in one of these.
type keyConfig struct {
	at              position
	headers, fields setting[[]string]
	query, pointer  setting[string]
}

// A fingerprintConfig says what makes two requests the same.
type fingerprintConfig struct {
	mode              setting[string]
	exclude, selected setting[[]string]
}

// A recoverConfig says how to ask the upstream what happened.
type recoverConfig struct {
	at               position
	given            bool
	method, path     setting[string]
	happened, absent setting[[]int]
	answer           setting[string]
}

// Words of the file.
const (
	endHold, endRerun, endRecover           = "hold", "rerun", "recover"
	presetIETF, presetStrict, presetStripe  = "ietf", "ietf-strict", "stripe"
	modeRaw, modeCanonical, modeSelected    = "raw", "json", "selected"
	modeMultipart, modeOff                  = "multipart", "off"
	forwardSame, forwardDerived, forwardNot = "same", "derived", "none"
)

// route reads one route. Its keys are all there are: docs/operate.md has a line for each.
func (r *reader) route(n node) (c routeConfig) {
	c.at, c.first = n.at, map[string]position{}
	known := keys{
		"name":             scalar(r, &c.name, parseText),
		"match":            func(n node) { r.match(n, &c) },
		"unguarded":        scalar(r, &c.unguarded, parseBool),
		"upstream-timeout": scalar(r, &c.upstreamTimeout, positive),
	}
	guard := keys{
		"required":     scalar(r, &c.required, parseBool),
		"preset":       scalar(r, &c.preset, oneOf(presetIETF, presetStrict, presetStripe)),
		"scope":        scalar(r, &c.scope, parseScope),
		"key":          func(n node) { r.key(n, &c.key) },
		"fingerprint":  func(n node) { r.fingerprint(n, &c.fingerprint) },
		"on-lease-end": scalar(r, &c.onLeaseEnd, oneOf(endHold, endRerun, endRecover)),
		"recover":      func(n node) { r.recovery(n, &c.recover) },
		"two-step":     scalar(r, &c.twoStep, parseBool),
		"outcomes":     func(n node) { r.outcomes(n, &c.outcomes) },
		"limits":       func(n node) { r.limits(n, &c) },
		"retention":    scalar(r, &c.retention, positive),
		"remember":     scalar(r, &c.remember, parseAs[duration]),
		"wait":         scalar(r, &c.wait, parseAs[duration]),
		"lease":        scalar(r, &c.lease, positive),
		"forward-key":  scalar(r, &c.forwardKey, oneOf(forwardSame, forwardDerived, forwardNot)),
		"honours-keys": scalar(r, &c.honoursKeys, parseBool),
		"methods":      several(r, &c.methods, oneOf("POST", "PATCH", "PUT", "DELETE")),
		"drop-answers": scalar(r, &c.dropAnswers, parseBool),
	}
	for name, read := range guard {
		known[name] = func(n node) {
			c.first[name] = n.at
			read(n)
		}
	}
	r.mapping(n, "a route", known)
	r.needs(n, "name", "a name, for logs and errors")
	r.needs(n, "match", "what it matches, like match: {path: \"/charges/{id}\"}")
	r.contradictions(&c)
	return c
}

func (r *reader) match(n node, c *routeConfig) {
	r.mapping(n, "match", keys{
		"path": scalar(r, &c.path, parseText),
		"methods": several(r, &c.matched, func(text string) (string, error) {
			if _, err := parseHeader(text); err != nil || text != strings.ToUpper(text) { // both are tokens (RFC 9110, 9.1)
				return "", fmt.Errorf("%q is no method: want a word in capitals, like POST", text)
			}
			return text, nil
		}),
	})
	r.needs(n, "path", "a path, like \"/charges/{id}\"")
}

func (r *reader) key(n node, c *keyConfig) {
	c.at = n.at
	r.mapping(n, "key", keys{
		"headers": several(r, &c.headers, parseHeader),
		"query":   scalar(r, &c.query, parseText),
		"pointer": scalar(r, &c.pointer, parsePointer),
		"fields":  several(r, &c.fields, parsePointer),
	})
	given := 0
	for _, is := range []bool{c.headers.given, c.query.given, c.pointer.given, c.fields.given} {
		if is {
			given++
		}
	}
	if n.kind == isMapping && (given > 1 || len(n.fields) == 0) {
		r.wrong(n.at, "key: want one place where the key stands: headers, query, pointer or fields")
	}
}

func (r *reader) fingerprint(n node, c *fingerprintConfig) {
	before := len(r.mistakes)
	r.mapping(n, "fingerprint", keys{
		"mode":     scalar(r, &c.mode, oneOf(modeRaw, modeCanonical, modeSelected, modeMultipart, modeOff)),
		"exclude":  several(r, &c.exclude, parsePointer),
		"selected": several(r, &c.selected, parsePointer),
	})
	r.needs(n, "mode", "a mode, like mode: "+modeRaw)
	if len(r.mistakes) > before {
		return
	}
	switch {
	case c.exclude.given && c.mode.value != modeCanonical:
		r.wrong(c.exclude.at, "exclude goes with mode %s only: change the mode, or leave it out", modeCanonical)
	case c.selected.given != (c.mode.value == modeSelected):
		r.wrong(c.mode.at, "mode %s and the key selected go together: give both, or neither", modeSelected)
	default:
		if _, err := idemhttp.ParseFingerprint(c.mode.value, c.exclude.value, c.selected.value); err != nil {
			r.wrong(n.at, "%s", strings.TrimPrefix(err.Error(), "idemhttp: "))
		}
	}
}

func (r *reader) recovery(n node, c *recoverConfig) {
	c.at, c.given = n.at, true
	before := len(r.mistakes)
	r.mapping(n, "recover", keys{
		"method":   scalar(r, &c.method, oneOf("GET", "HEAD")),
		"path":     scalar(r, &c.path, parseText),
		"happened": several(r, &c.happened, between(200, 599)),
		"absent":   several(r, &c.absent, between(200, 599)),
		"answer":   scalar(r, &c.answer, oneOf("body", "none")),
	})
	r.needs(n, "path", "a path to ask at, like \"/charges?key={key}\"")
	switch {
	case len(r.mistakes) > before:
	case !strings.HasPrefix(c.path.value, "/") || !strings.Contains(c.path.value, "{key}"):
		r.wrong(c.path.at, "want a path like /charges?key={key}: it must ask about the key")
	case !c.happened.given && !c.absent.given:
		r.wrong(n.at, "recover: want a status that says what became of it: happened: 200, absent: 404, or both")
	}
	for _, status := range c.absent.value {
		if slices.Contains(c.happened.value, status) {
			r.wrong(c.absent.at, "status %d cannot mean both happened and absent", status)
		}
	}
}

func (r *reader) outcomes(n node, s *setting[map[int]string]) {
	if n.kind != isMapping || len(n.fields) == 0 {
		r.wrong(n.at, "outcomes: want a mapping of statuses to what they mean, like {503: hold, 404: release, 402: keep}")
		return
	}
	*s = setting[map[int]string]{map[int]string{}, n.at, true}
	for _, f := range n.fields {
		status, err := between(200, 599)(f.key)
		if _, twice := s.value[status]; err != nil || twice {
			r.wrong(f.at, "%q is no status, or stands there twice: want each from 200 to 599 once", f.key)
			continue
		}
		var word setting[string]
		scalar(r, &word, oneOf("hold", "release", "keep"))(f.value)
		s.value[status] = word.value
	}
}

func (r *reader) limits(n node, c *routeConfig) {
	r.mapping(n, "limits", keys{
		"max-key":      scalar(r, &c.maxKey, between(1, 64<<10)),
		"max-body":     scalar(r, &c.maxBody, parseAs[size]),
		"max-response": scalar(r, &c.maxResponse, parseAs[size]),
	})
}

// parseScope reads whose keys are whose.
func parseScope(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "header:")
	if _, err := parseHeader(name); ok && err == nil || text == "shared" {
		return text, nil
	}
	return "", fmt.Errorf("%q is no scope: want shared, or header:NAME like header:X-Tenant", text)
}
