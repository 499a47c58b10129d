// Package load measures an HTTP/1.1 server on the same machine: a closed loop of
// connections that each send a request, read the answer and send the next.
//
// It is built to be cheap, because what it burns is missing from the server it
// measures: requests are written from bytes prepared once, answers are read by a
// parser that knows keep-alive, Content-Length and chunked coding and nothing
// else, and no request allocates. What the parser does not know is an error,
// counted and told, never guessed at.
//
// A closed loop slows down with its server: a stall shows as few slow answers, not
// as the many that would have arrived meanwhile. Read the rate and the maximum
// together.
package load

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Mode says what a request carries as its Idempotency-Key.
type Mode string

// The modes.
const (
	Unique Mode = "unique" // a fresh random UUID for every request
	Replay Mode = "replay" // one of a fixed set of keys, each of which was sent once before the clock starts
	Plain  Mode = "plain"  // no key at all
)

// Limits of a Plan.
const (
	MaxConnections = 10_000
	MaxKeys        = 1_000_000
	MinBodySize    = 10 // the empty document, {"pad":""}
	MaxBodySize    = 16 << 20
)

// A Plan says what is sent where, and for how long. Every field must be set, but
// for those that say otherwise.
type Plan struct {
	URL         string        // http only: TLS would measure TLS
	Method      string        // POST, PUT, PATCH, DELETE, or GET, which sends no body
	Mode        Mode          // what the key is
	KeyHeader   string        // which carries the key as it is; "": Idempotency-Key, with the key in quotes
	Keys        int           // how many keys Replay draws from; other modes ignore it
	BodySize    int           // bytes of JSON in every request
	Connections int           // how many requests are under way at once
	Warmup      time.Duration // not measured; may be 0, then the first answers hold the time to connect
	Duration    time.Duration // the window: requests begun in it are measured
	Timeout     time.Duration // limit of one connect and of one exchange
}

// A target is a URL as the wire needs it.
type target struct{ address, host, path string }

// check returns the target of a plan that can be run, or says which field is wrong.
func (p Plan) check() (target, error) {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"connections", p.Connections, 1, MaxConnections},
		{"body size", p.BodySize, MinBodySize, MaxBodySize},
	} {
		if f.value < f.low || f.value > f.high {
			return target{}, fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.low, f.high)
		}
	}
	switch p.Mode {
	case Unique, Plain:
	case Replay:
		if p.Keys < 1 || p.Keys > MaxKeys {
			return target{}, fmt.Errorf("keys is %d, want 1 to %d", p.Keys, MaxKeys)
		}
	default:
		return target{}, fmt.Errorf("mode is %q, want unique, replay or plain", p.Mode)
	}
	if strings.Trim(strings.ToLower(p.KeyHeader), "abcdefghijklmnopqrstuvwxyz-") != "" {
		return target{}, fmt.Errorf("key header is %q, want letters and hyphens", p.KeyHeader)
	}
	switch p.Method {
	case "POST", "PUT", "PATCH", "DELETE", "GET":
	default:
		return target{}, fmt.Errorf("method is %q, want POST, PUT, PATCH, DELETE or GET", p.Method)
	}
	if p.Warmup < 0 || p.Duration <= 0 || p.Timeout <= 0 {
		return target{}, fmt.Errorf("warmup %v, duration %v, timeout %v: want positive times", p.Warmup, p.Duration, p.Timeout)
	}
	return parseTarget(p.URL)
}

func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, fmt.Errorf("parse url: %w", err)
	}
	if u.Scheme != "http" || u.Hostname() == "" {
		return target{}, fmt.Errorf("url is %q, want http://host:port/path", u.Redacted())
	}
	if u.User != nil {
		return target{}, fmt.Errorf("url %q holds a user, want none", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return target{
		address: net.JoinHostPort(u.Hostname(), port),
		host:    u.Host,
		path:    u.RequestURI(),
	}, nil
}
