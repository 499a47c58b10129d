package gateway

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// This file keeps a gateway whose upstream leads back to itself from asking itself for ever.

// newPseudonym returns the name of one instance in the Via header: two gateways in a row are no loop.
func newPseudonym() string { return "retrysafe-" + strings.ToLower(rand.Text()) }

// via adds the gateway to those that a request came by (RFC 9110, 7.6.3).
func (g *Gateway) via(h http.Header, r *http.Request) {
	own := strings.TrimPrefix(r.Proto, "HTTP/") + " " + g.pseudonym
	if came := h["Via"]; len(came) > 0 {
		own = strings.Join(came, ", ") + ", " + own
	}
	h["Via"] = []string{own}
}

// cameBack tells whether this gateway forwarded r before.
func (g *Gateway) cameBack(r *http.Request) bool {
	for _, line := range r.Header["Via"] {
		for member := range strings.SplitSeq(line, ",") {
			if by := strings.Fields(member); len(by) > 1 && strings.EqualFold(by[1], g.pseudonym) {
				return true
			}
		}
	}
	return false
}

// refuseLoop ends a loop at its second round: nothing is claimed and nothing forwarded.
func (g *Gateway) refuseLoop(w http.ResponseWriter, r *http.Request) {
	g.o.Logger.Error("the upstream leads back to this gateway")
	g.executor.Tell(r.Context(), retrysafe.Event{Kind: retrysafe.EventRefused, Code: string(problem.LoopDetected)})
	problem.Write(w, g.o.Guard.DocsBase, problem.Answer{Code: problem.LoopDetected})
}
