// Package problem is every answer that the idempotency layer makes by itself, as data: status, code and
// words. The doors answer from it, docs/protocol.md is written from it, and tests walk it. The bodies are
// problem details (RFC 9457); such an answer is never stored.
package problem

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Code names a situation for machines. It never changes its meaning.
type Code string

// The codes.
const (
	KeyMissing          Code = "key-missing"
	KeyInvalid          Code = "key-invalid"
	KeyReused           Code = "key-reused"
	InFlight            Code = "in-flight"
	UpstreamUnreachable Code = "upstream-unreachable"
	OutcomeUnknown      Code = "outcome-unknown"
	AnswerExpired       Code = "answer-expired"
	AnswerNotKept       Code = "answer-not-kept" // in the Idempotency-Status header only
	Unrecorded          Code = "unrecorded"      // in the Idempotency-Status header only
	ScopeMissing        Code = "scope-missing"
	ScopeUnavailable    Code = "scope-unavailable"
	QuotaExceeded       Code = "quota-exceeded"
	EntryUnreadable     Code = "entry-unreadable"
	Draining            Code = "draining"
	StoreUnavailable    Code = "store-unavailable"
	BodyTooLarge        Code = "body-too-large"
	BodyUnreadable      Code = "body-unreadable"
	Overloaded          Code = "overloaded"
	TooEarly            Code = "too-early"
	LoopDetected        Code = "loop-detected"
	PathAmbiguous       Code = "path-ambiguous"
)

// The titles of the three cases that the draft names are its own (draft-07, 2.7): clients match on them.
var kinds = map[Code]struct {
	status        int
	title, detail string
}{
	KeyMissing:          {http.StatusBadRequest, "Idempotency-Key is missing", "This operation needs an Idempotency-Key header: choose one unique value per intended operation and send the same one with every retry."},
	KeyInvalid:          {http.StatusBadRequest, "Idempotency-Key is invalid", "Send the Idempotency-Key header once, with a value of the documented syntax."},
	KeyReused:           {http.StatusUnprocessableEntity, "Idempotency-Key is already used", "This key was used for another request. Nothing was done. Use a new key for a new operation; never change a request under its key."},
	InFlight:            {http.StatusConflict, "A request is outstanding for this Idempotency-Key", "The operation is in progress, not failed: send the same request with the same key again later."},
	UpstreamUnreachable: {http.StatusBadGateway, "The service behind this gateway could not be reached", "Nothing was sent to it, so nothing happened: send the same request with the same key again."},
	OutcomeUnknown:      {http.StatusConflict, "The outcome of this operation is unknown", "It may or may not have happened. It will not be run again under this key; it is held until it has been decided."},
	AnswerExpired:       {http.StatusGone, "The answer for this Idempotency-Key is no longer kept", "The operation was done before, and it is not run again. Its answer has expired."},
	ScopeMissing:        {http.StatusUnauthorized, "The caller is not known", "Keys belong to a caller, and this request does not say whose it is."},
	ScopeUnavailable:    {http.StatusServiceUnavailable, "Callers cannot be told apart at the moment", "Nothing was done: send the same request with the same key again."},
	QuotaExceeded:       {http.StatusTooManyRequests, "Too many requests", "Nothing was done: send the same request with the same key again later."},
	EntryUnreadable:     {http.StatusServiceUnavailable, "What is stored for this Idempotency-Key cannot be read", "Nothing was done. A person has to look at it: retrying does not help."},
	Draining:            {http.StatusServiceUnavailable, "Shutting down", "Nothing was done: send the same request with the same key again."},
	StoreUnavailable:    {http.StatusServiceUnavailable, "Idempotency keys cannot be stored at the moment", "Nothing was done: send the same request with the same key again."},
	BodyTooLarge:        {http.StatusRequestEntityTooLarge, "The request body is too large", "Nothing was done."},
	Overloaded:          {http.StatusServiceUnavailable, "Too many request bodies at once", "Nothing was done: send the same request with the same key again."},
	TooEarly:            {http.StatusTooEarly, "The request came in early data", "Somebody on the way could send it again. Nothing was done: send the same request with the same key again, when the TLS handshake is complete."},
	LoopDetected:        {http.StatusLoopDetected, "The service behind this gateway leads back to it", "The request came back to the gateway that forwarded it. It was not forwarded again."},
	PathAmbiguous:       {http.StatusBadRequest, "The path can be read in more than one way", "The service behind this gateway might take it for another path, with other rules. Nothing was done: write the path in its plain form."},
	BodyUnreadable:      {http.StatusBadRequest, "The request body could not be read whole", "Nothing was done: send the whole request with the same key again."},
}

// An Answer is one problem about to be written. Zero fields are left out, or are the code's own.
type Answer struct {
	Code       Code
	Status     int           // instead of the code's
	Detail     string        // instead of the code's; never anything the caller sent
	RetryAfter time.Duration // at least 1 s goes out; 0: no header
	Instance   string        // what an operator looks the case up by
	Original   string        // of KeyReused: what became of the request that the key was used for first
	Shape      Shape
}

// A Shape is the form of a body.
type Shape uint8

// The shapes.
const (
	Details     Shape = iota // problem details (RFC 9457)
	StripeShape              // an error object of Stripe's API, for KeyReused and InFlight
)

// StatusOf returns the status of a code, 0 for one that is only a header.
func StatusOf(c Code) int { return kinds[c].status }

// StatusOfAnswer returns the status that Write gives a.
func StatusOfAnswer(a Answer) int {
	if e, ok := stripeErrors[a.Code]; ok && a.Shape == StripeShape {
		return e.status
	}
	return cmp.Or(a.Status, kinds[a.Code].status)
}

// Codes returns the codes of answers, in the order in which the protocol tells of them.
func Codes() (codes []Code) {
	for _, s := range Situations {
		if _, answers := kinds[s.Code]; answers && !slices.Contains(codes, s.Code) {
			codes = append(codes, s.Code)
		}
	}
	return codes
}

// Retriable tells whether the same request with the same key may succeed later, where nothing ran or it is being
// worked on.
func Retriable(c Code) bool {
	switch c {
	case InFlight, UpstreamUnreachable, ScopeUnavailable, QuotaExceeded, Draining, StoreUnavailable, TooEarly, Overloaded, BodyUnreadable:
		return true
	}
	return false
}

// Write answers with a. docs is the base of the documentation, without a slash at its end.
func Write(w http.ResponseWriter, docs string, a Answer) {
	kind := kinds[a.Code]
	stripe, asStripe := stripeErrors[a.Code]
	asStripe = asStripe && a.Shape == StripeShape
	a.Status = StatusOfAnswer(a)
	if a.Detail == "" {
		a.Detail = kind.detail
	}
	page := docs + "/protocol.md#" + string(a.Code)
	h := w.Header()
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Content-Disposition", "Content-Location", "Location", "Etag", "Last-Modified", "Set-Cookie"} {
		h.Del(name) // of a handler that broke off
	}
	h.Set("Content-Type", "application/problem+json")
	if asStripe {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Language", "en")
	h.Set("Cache-Control", "no-store")
	h.Add("Link", fmt.Sprintf(`<%s>; rel="describedby"; type="text/html"`, page)) // draft-07, 2.7
	if a.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(Seconds(a.RetryAfter), 10))
	}
	if asStripe {
		writeStripe(w, a, stripe, page)
		return
	}
	body, _ := json.Marshal(struct { // strings and numbers only: it cannot fail
		Type     string `json:"type"`
		Title    string `json:"title"`
		Status   int    `json:"status"`
		Detail   string `json:"detail"`
		Instance string `json:"instance,omitempty"`
		Code     Code   `json:"code"`
		Original string `json:"original,omitempty"`
	}{page, kind.title, a.Status, a.Detail, a.Instance, a.Code, a.Original})
	w.WriteHeader(a.Status)
	w.Write(body)
}

// Seconds is d as Retry-After carries it (RFC 9110, 10.2.3): whole seconds, rounded up, at least 1.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
