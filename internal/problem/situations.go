package problem

import (
	"fmt"
	"strings"
)

// A Situation is a row of the protocol: what a caller is told, and what it should do.
type Situation struct {
	Name    string
	Status  string
	Code    Code
	Headers string
	Client  string
	Ledger  string // state of the client's durable record
	Source  string // the norm that asks for it, or "ours"
}

// Situations is the protocol in lease mode, in the order in which a request can meet them.
var Situations = []Situation{
	{"first, done", "the handler's", "", "", "done", "done", "draft 2.6"},
	{"again, answer kept", "the handler's, same body bytes, allow-listed headers", "", "`Idempotent-Replayed: true`", "done; a replayed 5xx ends the retries", "done / rejected", "draft 2.6; marker: Stripe's"},
	{"again, answer not kept (too large, or streamed)", "the handler's, no body", AnswerNotKept, "marker; the code in `Idempotency-Status`", "done, says so", "done", "ours"},
	{"key missing where required", "400", KeyMissing, "`Link` describedby", "stop: a bug of the caller", "rejected", "draft 2.7"},
	{"key malformed, empty, doubled or too long", "400", KeyInvalid, "`Link`", "stop", "rejected", "RFC 9651 4.2; ours"},
	{"other fingerprint under the same key and scope (also in flight, also after expiry while remembered)", "422", KeyReused, "`Link`; the member `original` says what became of the other request: `in-flight`, `completed` or `unknown`", "never retry, never resume by itself", "key_conflict", "draft 2.7"},
	{"in flight", "409", InFlight, "`Retry-After`", "wait under a budget of its own, same key", "sending", "draft 2.7; Retry-After: ours"},
	{"nothing was sent upstream (dial, DNS, TLS)", "502", UpstreamUnreachable, "`Retry-After`", "retry, same key: it was released", "never_sent", "ours"},
	{"upstream may have acted, no whole answer: the first caller", "504 (time-out) or 502 (reset, truncated)", OutcomeUnknown, "`Idempotency-Status: unknown`", "retry the same key once in a while", "outcome_unknown", "ours"},
	{"the same key again while held", "409", OutcomeUnknown, "no `Retry-After`; `instance` to look it up", "stop", "outcome_unknown", "ours"},
	{"handler or upstream answered 5xx (a whole answer; not 503 with Retry-After, which releases)", "that 5xx; again: the same bytes", "", "again: marker and `Idempotency-Status: unknown`", "stop at the replay", "outcome_unknown", "draft 2.6; ours"},
	{"answer gone, key remembered", "410", AnswerExpired, "`Link`", "stop: it happened, the answer is gone", "done_answer_gone", "ours"},
	{"ran, could not be recorded yet", "the handler's", Unrecorded, "the code in `Idempotency-Status`", "done, says so", "done", "ours"},
	{"scope source missing", "401", ScopeMissing, "", "stop", "rejected", "draft 5; ours"},
	{"scope cannot be verified at the moment (the issuer's keys cannot be had)", "503", ScopeUnavailable, "`Retry-After`", "retry, same key; nothing ran", "sending", "ours"},
	{"too many requests of one tenant", "429", QuotaExceeded, "`Retry-After`", "retry, same key: nothing ran", "sending", "RFC 6585; ours"},
	{"recovery of this key is running", "409", InFlight, "`Retry-After`", "wait", "sending", "ours"},
	{"handler panicked", "500; again: 409", OutcomeUnknown, "`Idempotency-Status: unknown`", "stop", "outcome_unknown", "ours"},
	{"stored entry unreadable (version, checksum)", "503", EntryUnreadable, "", "stop, tell a person; nothing ran", "outcome_unknown", "ours"},
	{"shutting down", "503", Draining, "`Retry-After`", "retry, same key; nothing ran", "sending", "ours"},
	{"store down", "503", StoreUnavailable, "`Retry-After`", "retry, same key; nothing ran", "sending", "ours"},
	{"body over the limit", "413", BodyTooLarge, "", "stop", "rejected", "RFC 9110 15.5.14"},
	{"sent in TLS early data (`Early-Data`)", "425", TooEarly, "", "retry, same key, after the handshake; nothing ran", "sending", "RFC 8470 5.2"},
	{"no room for more request bodies at once", "503", Overloaded, "`Retry-After`", "retry, same key; nothing ran", "sending", "ours"},
	{"the gateway's upstream leads back to it", "508", LoopDetected, "", "stop, tell a person", "outcome_unknown", "RFC 9110 7.6.3; RFC 5842 7.2"},
	{"path that can be read in more than one way (a gateway with routes)", "400", PathAmbiguous, "", "stop", "rejected", "RFC 3986 6.2; ours"},
	{"body broke off, or stopped coming", "400", BodyUnreadable, "", "retry, same key; nothing ran", "sending", "RFC 9112 8"},
}

// Markdown is the protocol as docs/protocol.md shows it, followed by a section for each code, which the `type`
// of its problem points to.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| situation | status | `code` | headers | what a client should do | its ledger | source |\n|---|---|---|---|---|---|---|\n")
	for _, s := range Situations {
		code := "-"
		if s.Code != "" {
			code = fmt.Sprintf("[`%s`](#%s)", s.Code, s.Code)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", s.Name, s.Status, code, orDash(s.Headers), s.Client, s.Ledger, s.Source)
	}
	told := map[Code]bool{"": true}
	for _, s := range Situations {
		if told[s.Code] {
			continue
		}
		told[s.Code] = true
		fmt.Fprintf(&b, "\n### %s\n\n", s.Code)
		if kind, ok := kinds[s.Code]; ok {
			fmt.Fprintf(&b, "**%d, %s.** %s\n", kind.status, kind.title, kind.detail)
			continue
		}
		fmt.Fprintf(&b, "A value of the `Idempotency-Status` header: %s.\n", s.Name)
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
