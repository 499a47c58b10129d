package idemhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// This file is what a browser has to be told to let a page of another origin see a guarded answer (Fetch, 3.3).

// exposed are the headers that a page may read only if the answer says so.
var exposed = [...]string{replayedHeader, statusHeader, "Retry-After"}

// ResponseHeaders returns the names of headers that the layer adds to answers: what a CORS layer exposes.
func ResponseHeaders() []string { return exposed[:] }

// CheckOrigins refuses what no Origin header could be, as New does for Options.CORSOrigins.
func CheckOrigins(origins []string, credentials bool) error {
	for _, origin := range origins {
		if origin == "*" {
			if credentials {
				return errors.New("* cannot be combined with credentials: name the origins")
			}
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
			return fmt.Errorf("%q is no origin: want one like https://shop.example.com, without a slash at its end", origin)
		}
	}
	return nil
}

// share lets the page that asked see an answer of the layer's own: what said so of the first answer is not replayed,
// since it may have been for another page. What a layer outside has said stands.
func (m *Middleware) share(h http.Header, r *http.Request) {
	if len(m.o.CORSOrigins) > 0 && h.Get("Access-Control-Allow-Origin") == "" {
		m.allow(h, r.Header.Get("Origin"))
	}
	expose(h)
}

func (m *Middleware) allow(h http.Header, origin string) {
	all := slices.Contains(m.o.CORSOrigins, "*")
	if !all && !varies(h, "Origin") {
		h.Add("Vary", "Origin")
	}
	switch {
	case origin == "":
	case slices.Contains(m.o.CORSOrigins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
		if m.o.CORSCredentials {
			h.Set("Access-Control-Allow-Credentials", "true")
		}
	case all:
		h.Set("Access-Control-Allow-Origin", "*")
	}
}

// expose lets a page that may see an answer read the layer's headers too.
func expose(h http.Header) {
	if h.Get("Access-Control-Allow-Origin") == "" {
		return
	}
	lines := h["Access-Control-Expose-Headers"]
	if slices.Contains(tokens(lines), "*") && h.Get("Access-Control-Allow-Credentials") != "true" {
		return
	}
	var missing []string
	for _, name := range exposed {
		if !containsFold(tokens(lines), name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		h["Access-Control-Expose-Headers"] = append(slices.Clip(lines), strings.Join(missing, ", "))
	}
}

func varies(h http.Header, name string) bool { return containsFold(tokens(h["Vary"]), name) }

func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

// tokens are the members of a list that stands in header lines.
func tokens(lines []string) (all []string) {
	for _, line := range lines {
		for token := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(token))
		}
	}
	return all
}
