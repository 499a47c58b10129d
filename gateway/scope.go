package gateway

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/answer"
)

// HeaderScope returns a ScopeFunc that reads a header which a proxy in front of the gateway sets. It is
// believed only from peers in trusted, if it stands there once, and never if the Connection header names it:
// a caller could have it removed on the way (RFC 9110, 7.6.1).
func HeaderScope(name string, trusted []netip.Prefix) idemhttp.ScopeFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[name]
		switch {
		case len(values) != 1 || values[0] == "":
			return "", errors.New("the scope header must stand there once")
		case answer.Named(r.Header["Connection"], name):
			return "", errors.New("the Connection header names the scope header")
		case !fromTrusted(r, trusted):
			return "", errors.New("the scope header came from a peer that is not trusted")
		}
		return values[0], nil
	}
}

// fromTrusted tells whether the peer of r is in one of the networks.
func fromTrusted(r *http.Request, trusted []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range trusted {
		if p.Contains(peer.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}
