package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A duration is a time.Duration that also reads days: 30d, 1d12h.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, ok := parseDuration(string(text))
	switch {
	case !ok:
		return fmt.Errorf("%q is not a duration: want something like 30s, 15m, 24h or 30d", text)
	case v > 0 && v < time.Microsecond: // the core's resolution
		return fmt.Errorf("%q is too short: want at least 1us", text)
	}
	*d = duration(v)
	return nil
}

// An optional is a duration that may be left out, where zero says something else.
type optional struct {
	given bool
	value duration
}

func (o *optional) UnmarshalText(text []byte) error {
	o.given = true
	return o.value.UnmarshalText(text)
}

func parseDuration(s string) (time.Duration, bool) {
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		v, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, false
		}
		if days, s = time.Duration(v)*24*time.Hour, rest; s == "" {
			return days, true
		}
	}
	v, err := time.ParseDuration(s)
	return days + v, err == nil && v >= 0 && days+v >= 0 // the sum may overflow
}

// A size is a number of bytes: 1048576, 512KiB, 10MiB, 1GiB, or with decimal units kB, MB, GB.
type size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func (z *size) UnmarshalText(text []byte) error {
	for _, u := range units {
		n, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		if err != nil || v <= 0 || v > (1<<40)/u.bytes {
			break
		}
		*z = size(v * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size: want something like 512KiB, 10MiB or 1048576, at most 1024GiB", string(text))
}

// parseUpstream reads the URL of the guarded API.
func parseUpstream(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !isHost(u) {
		return nil, usage("--upstream: want a URL like http://127.0.0.1:9090, without user, query or fragment")
	}
	return u, nil
}

// isHost tells whether u names a host, and a port that there can be, if any: package url takes every number.
func isHost(u *url.URL) bool {
	_, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return u.Hostname() != "" && err == nil
}

// checkHeaderName refuses what no request could carry (RFC 9110, 5.6.2): every request would be refused.
func checkHeaderName(flag, name string) error {
	isTokenChar := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !isTokenChar(r) }) {
		return usage("%s: %q is no name of a header: want one like X-Tenant", flag, name)
	}
	return nil
}

// parsePrefixes reads networks, a single address standing for itself alone.
func parsePrefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); err != nil && aerr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, usage("%s: %q is not a network: want CIDR notation like 10.0.0.0/8", flag, s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
