package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// This file is who gets in: under a known host name, with the token, and from no foreign web page.

// guard lets pass who may look and decide.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.servesHost(r) {
			a.refuse(w, r, &Error{Code: codeHost, Detail: "Connect to the listener's own address, or add the name you use to the hosts that it serves."})
			return
		}
		if !a.knowsToken(r) {
			challenge := `Bearer realm="retrysafe"`
			if r.Header.Get("Authorization") != "" {
				challenge += `, error="invalid_token"` // RFC 6750, 3.1; without credentials it says no error
			}
			w.Header().Set("WWW-Authenticate", challenge)
			a.refuse(w, r, &Error{Code: codeToken, Detail: "Send the admin token once, as: Authorization: Bearer TOKEN."})
			return
		}
		if err := a.origin.Check(r); err != nil {
			a.refuse(w, r, &Error{Code: codeOrigin, Detail: "A decision must not come from another site's page: send it from a program, or from a page of this listener."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowsToken compares digests, so that neither the length nor the beginning of the token shows in the time it takes.
func (a *API) knowsToken(r *http.Request) bool {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	sum := sha256.Sum256([]byte(strings.Trim(token, " ")))
	known := subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1
	return known && strings.EqualFold(scheme, "Bearer") // RFC 9110, 11.1
}

// servesHost tells whether the Host header holds a name or address of this listener. An attacker's page can
// have its own name resolve to this machine, but cannot make a browser send another one.
func (a *API) servesHost(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = canonicalHost(host)
	if host == "localhost" || a.hosts[host] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.IsLoopback() || addr == localAddr(r))
}

// localAddr is the address that the request's connection came in on, the zero Addr where that is none.
func localAddr(r *http.Request) netip.Addr {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}
	}
	ap, _ := netip.ParseAddrPort(local.String())
	return ap.Addr().Unmap().WithZone("")
}

// canonicalHost is a host without port in the one form that hosts are compared in.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return host
}

// CheckHosts refuses what New would refuse as Options.Hosts.
func CheckHosts(hosts []string) error {
	_, err := parseHosts(hosts)
	return err
}

func parseHosts(given []string) (map[string]bool, error) {
	hosts := map[string]bool{}
	for _, h := range given {
		host := canonicalHost(h)
		_, err := netip.ParseAddr(host)
		if host == "" || err != nil && strings.ContainsFunc(host, notInName) {
			return nil, fmt.Errorf("host %q: want a name or an address, without scheme, port or wildcard", h)
		}
		hosts[host] = true
	}
	return hosts, nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}
