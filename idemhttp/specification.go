package idemhttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/problem"
)

// SpecificationPath is where a server publishes its Specification.
const SpecificationPath = "/.well-known/idempotency"

// A Specification is what callers may know of the keys of an API before they send one: an API has to publish it
// (draft-07, 2.5.2). Times are whole seconds.
type Specification struct {
	Route     string `json:"route,omitempty"` // of one among several
	Path      string `json:"path,omitempty"`  // its pattern
	Unguarded bool   `json:"unguarded,omitempty"`

	Header       string   `json:"header,omitempty"` // that carries the key
	Headers      []string `json:"headers,omitempty"`
	Query        string   `json:"query,omitempty"` // or a parameter, or JSON pointers into the body
	Body         []string `json:"body,omitempty"`
	Syntax       string   `json:"syntax,omitempty"` // ietf, ietf-strict or stripe
	MaxKeyLength int      `json:"max_key_length,omitempty"`
	Required     bool     `json:"required"`
	Scope        string   `json:"scope,omitempty"`
	Methods      []string `json:"methods,omitempty"`
	Retention    int64    `json:"retention_seconds,omitempty"`
	Remember     int64    `json:"remember_seconds"`
	Fingerprint  string   `json:"fingerprint,omitempty"`
	MaxBody      int64    `json:"max_body_bytes,omitempty"`

	InFlight *InFlight        `json:"in_flight,omitempty"`
	Errors   []SpecifiedError `json:"errors,omitempty"`
	Routes   []Specification  `json:"routes,omitempty"` // the first that matches holds in place of all above
}

// InFlight is what a retry meets while the first attempt runs.
type InFlight struct {
	Status     int   `json:"status"`
	Wait       int64 `json:"wait_seconds"` // before it gets that status
	RetryAfter bool  `json:"retry_after"`
}

// A SpecifiedError is an answer of the layer's own. Retry says whether the same request with the same key may succeed
// later.
type SpecifiedError struct {
	Code   string `json:"code"`
	Status int    `json:"status"`
	Retry  bool   `json:"retry"`
}

// Words are what a Specification calls what is a function here: who callers are told apart by (shared, header, jwt,
// mtls), and the mode of the fingerprint. Nothing is decided by them.
type Words struct{ Scope, Fingerprint string }

// Specification returns what the guard does, for callers.
func (m *Middleware) Specification() Specification {
	p := m.executor.Policy()
	if m.o.Policy != nil {
		p = *m.o.Policy
	}
	s := Specification{
		Query: m.o.Key.Query, Body: slices.Clone(m.o.Key.Fields), Syntax: m.o.Preset.String(), MaxKeyLength: m.o.MaxKey, Required: m.o.Required,
		Scope: m.o.Words.Scope, Fingerprint: m.o.Words.Fingerprint, Methods: slices.Clone(m.o.Methods), MaxBody: m.o.MaxBody,
		Retention: seconds(p.Retention), Remember: seconds(p.Remember),
		InFlight: &InFlight{Status: http.StatusConflict, Wait: seconds(m.o.Wait), RetryAfter: true},
	}
	if m.o.Key.Pointer != "" {
		s.Body = []string{m.o.Key.Pointer}
	}
	if n := len(m.o.Key.Headers); n > 0 {
		s.Header = m.o.Key.Headers[0]
	}
	if len(m.o.Key.Headers) > 1 {
		s.Headers = m.KeyHeaders()
	}
	for _, code := range problem.Codes() {
		a := m.o.Preset.shape(problem.Answer{Code: code})
		s.Errors = append(s.Errors, SpecifiedError{string(code), problem.StatusOfAnswer(a), problem.Retriable(code)})
	}
	return s
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// Handler returns a handler that publishes s: mount it at SpecificationPath. It may be kept by caches for five minutes.
func (s Specification) Handler() http.Handler {
	text, _ := json.MarshalIndent(s, "", "  ") // strings, numbers and lists of them: it cannot fail
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Access-Control-Allow-Origin", "*") // it is public
		h.Set("Etag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
