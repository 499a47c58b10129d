package main

import (
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
	s := string(text)
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		v, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not a duration: want something like 30s, 15m, 24h or 30d", s)
		}
		if days, s = time.Duration(v)*24*time.Hour, rest; s == "" {
			*d = duration(days)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration: want something like 30s, 15m, 24h or 30d", string(text))
	}
	*d = duration(days + v)
	return nil
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usage("--upstream: want a URL like http://127.0.0.1:9090, without user, query or fragment")
	}
	return u, nil
}

// parsePrefixes reads networks, a single address standing for itself alone.
func parsePrefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); err != nil && aerr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, usage("%s: %q is not a network: want CIDR notation like 10.0.0.0/8", flag, s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
