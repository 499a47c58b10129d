package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// Headers by which a proxy says who asked, and for what (RFC 7239, and the custom before it), and those that frame a
// message or lead it.
var (
	forwardedNames = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip"}
	framingNames   = [...]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Via", "Idempotency-Key", "X-Idempotency-Key"}
)

// dropLookAlikes removes from h what a server that makes variables of headers (RFC 3875, 4.1.18) could take for
// another one: X_Tenant and X-Tenant are one variable there. One goes that imitates a header that came, or that the
// gateway sets or decides by.
func (g *Gateway) dropLookAlikes(h, came http.Header) {
	for name := range h {
		if !strings.Contains(name, "_") {
			continue
		}
		meant := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if came[meant] != nil || slices.Contains(g.keyHeaders, meant) || slices.Contains(forwardedNames[:], meant) || slices.Contains(framingNames[:], meant) {
			delete(h, name)
		}
	}
}
