package problem

import (
	"encoding/json"
	"net/http"
)

// stripeErrors are the two refusals that Stripe's clients tell by the shape of the body: a key that was used with other
// parameters is an idempotency_error with status 400 (stripe-ruby's tests), a request in flight has the code
// idempotency_key_in_use (the enumerations of its client libraries) and status 409, which they send again. Its type is
// the one that woocommerce-gateway-stripe looks for (its pull request 503).
var stripeErrors = map[Code]stripeError{
	KeyReused: {status: http.StatusBadRequest, kind: "idempotency_error"},
	InFlight:  {status: http.StatusConflict, kind: "invalid_request_error", code: "idempotency_key_in_use"},
}

type stripeError struct {
	status     int
	kind, code string
}

func writeStripe(w http.ResponseWriter, a Answer, e stripeError, page string) {
	type object struct {
		Code    string `json:"code,omitempty"`
		Docs    string `json:"doc_url"`
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	body, _ := json.Marshal(map[string]object{"error": {e.code, page, a.Detail, e.kind}}) // strings only: it cannot fail
	w.WriteHeader(a.Status)
	w.Write(body)
}
