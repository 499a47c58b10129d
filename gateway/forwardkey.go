package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// A ForwardKey says what of a caller's key goes upstream.
type ForwardKey uint8

// What goes upstream.
const (
	// ForwardSame is the key as it came, so that each stage recognises the retry.
	ForwardSame ForwardKey = iota
	// ForwardDerived is a key of the gateway's own, made of scope, key and Options.ForwardSecret: the same for every
	// retry, for an upstream in another domain of trust, or one that does not tell tenants apart. Nobody can guess from
	// it what the caller sent.
	ForwardDerived
	// ForwardNone is no key.
	ForwardNone
)

// MinForwardSecret is how many bytes a ForwardSecret has at least.
const MinForwardSecret = 32

// checkForwardKey refuses what cannot be kept from the upstream, or would be missing there.
func (g *Gateway) checkForwardKey() error {
	source := g.o.Guard.Key
	switch {
	case g.o.ForwardKey == ForwardSame:
		return nil
	case g.o.ForwardKey > ForwardNone:
		return errors.New("ForwardKey is not one of ForwardSame, ForwardDerived and ForwardNone")
	case source.Query != "" || source.Pointer != "" || len(source.Fields) > 0:
		return errors.New("the key stands in the query or the body, which go upstream as they are: only a header can be kept from it")
	case g.o.ForwardKey == ForwardDerived && len(g.o.ForwardSecret) < MinForwardSecret:
		return fmt.Errorf("keys are derived by a secret: want a ForwardSecret of at least %d random bytes", MinForwardSecret)
	case g.o.ForwardKey == ForwardNone && g.o.Guard.Resend:
		return errors.New("an upstream without the key cannot be sent the request again: Resend needs it")
	case g.o.ForwardKey == ForwardNone && g.o.Probe != nil:
		return errors.New("an upstream without the key cannot be asked about it: a Probe needs it")
	}
	return nil
}

// upstreamKey is the name under which the upstream knows a key.
func (g *Gateway) upstreamKey(key retrysafe.Key) string {
	if g.o.ForwardKey != ForwardDerived {
		return key.Name
	}
	mac := hmac.New(sha256.New, g.o.ForwardSecret)
	for _, part := range [...]string{key.Scope, key.Name} { // each behind its length: no two lists have the same bytes
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// replaceKey puts in h what goes upstream in place of the key of r. A request that nothing guards has none that could
// be derived.
func (g *Gateway) replaceKey(h http.Header, r *http.Request) {
	if g.o.ForwardKey == ForwardSame {
		return
	}
	key, guarded := idemhttp.KeyOf(r.Context())
	for _, name := range g.keyHeaders {
		came, ok := h[name]
		delete(h, name)
		if ok && guarded && g.o.ForwardKey == ForwardDerived {
			h[name] = []string{g.spelled(g.upstreamKey(key), came[0])}
		}
	}
}

// spelled is a key written as the caller wrote its own: quoted, where the dialect has quotes (draft-07, 2.1).
func (g *Gateway) spelled(key, came string) string {
	if g.o.Guard.Preset != idemhttp.Stripe && strings.HasPrefix(strings.Trim(came, " \t"), `"`) {
		return `"` + key + `"`
	}
	return key
}
