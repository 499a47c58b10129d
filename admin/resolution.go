package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"github.com/retrysafe/retrysafe/internal/answer"
)

// The actions of a Resolution.
const (
	Complete = "complete" // the operation took effect
	Release  = "release"  // it certainly did not and never will: the next request under the key runs
)

// A Resolution is an operator's decision on what happened. By and Reason are required and stay in the key's
// history.
//
// With Complete, retries are answered with Status, Headers and Body; with none of the three they are told that
// the operation was done and that its answer was not kept. Headers that belong to one exchange, like
// Set-Cookie, are refused. The answer is one of an HTTP handler: for an operation that idemhttp or the gateway
// guards.
type Resolution struct {
	Action  string      `json:"action"` // Complete or Release
	By      string      `json:"by"`     // who decides; at most 256 bytes
	Reason  string      `json:"reason"` // why, for those who ask later; at most 256 bytes, no secrets
	Status  int         `json:"status,omitempty"`
	Headers http.Header `json:"headers,omitzero"`
	Body    []byte      `json:"body,omitzero"`   // base64 in JSON
	Force   bool        `json:"force,omitempty"` // also on a live lease, and on what is completed
}

// A Forgetting is an operator's decision to make a key claimable again, whatever happened. By and Reason are
// required and stay in the key's history.
type Forgetting struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	Force  bool   `json:"force,omitempty"` // also on a live lease, on what is completed, and on what cannot be read
}

const (
	maxAnswerBody    = 10 << 20 // bytes of an answer's body
	maxAnswerHeaders = 32 << 10 // bytes of its header lines: more than that, many clients refuse to read
	maxText          = 256      // bytes of by and of reason that the core keeps
	maxForgetting    = 16 << 10
)

// maxResolution is the largest answer in base64 with all the rest.
var maxResolution = int64(base64.StdEncoding.EncodedLen(maxAnswerBody)) + 256<<10

const answerTooLarge = "The body of an answer may have 10 MiB, its headers 32 KiB. Complete the key without them: retries are then told that the answer was not kept."

// parseResolution reads the body of a resolve. Its errors are for the operator.
func parseResolution(body []byte) (*Resolution, error) {
	var r Resolution
	var status *int
	var headers json.RawMessage
	err := readFields(body, []field{
		{"action", &r.Action, `"complete" or "release"`}, {"by", &r.By, "text"}, {"reason", &r.Reason, "text"},
		{"status", &status, "a number"}, {"headers", &headers, "an object"}, {"body", &r.Body, "base64"}, {"force", &r.Force, "true or false"},
	})
	if err != nil {
		return nil, err
	}
	if r.Headers, err = parseHeaders(headers); err != nil {
		return nil, err
	}
	if status != nil && (*status < 200 || *status > 599) {
		return nil, invalid("Field status is %d: want 200 to 599.", *status)
	}
	if status != nil {
		r.Status = *status
	}
	if err := checkSigned(r.By, r.Reason); err != nil {
		return nil, err
	}
	return &r, r.check()
}

func parseForgetting(body []byte) (*Forgetting, error) {
	var f Forgetting
	err := readFields(body, []field{{"by", &f.By, "text"}, {"reason", &f.Reason, "text"}, {"force", &f.Force, "true or false"}})
	if err != nil {
		return nil, err
	}
	return &f, checkSigned(f.By, f.Reason)
}

// checkSigned refuses a decision that nobody signed, or of which the history could not keep every word.
func checkSigned(by, reason string) error {
	for _, f := range [...]struct{ name, text string }{{"by", by}, {"reason", reason}} {
		text := strings.TrimSpace(f.text)
		if text == "" {
			return invalid("Field %s is required: it stays in the key's history.", f.name)
		}
		if len(text) > maxText {
			return invalid("Field %s has %d bytes: at most %d are kept.", f.name, len(text), maxText)
		}
		if strings.ContainsFunc(text, unicode.IsControl) {
			return invalid("Field %s has a control character, perhaps a line break: write one line of text.", f.name)
		}
	}
	return nil
}

// check refuses what contradicts itself.
func (r *Resolution) check() error {
	answered := r.Status != 0 || r.Headers != nil || r.Body != nil
	switch {
	case r.Action != Complete && r.Action != Release:
		return invalid("Field action: want %q (it happened) or %q (it certainly did not and never will).", Complete, Release)
	case r.Action == Release && answered:
		return invalid("Fields status, headers and body belong to %q: a released key has no answer.", Complete)
	case answered && r.Status == 0:
		return invalid("Field status is required with headers or body: want 200 to 599.")
	case len(r.Body) > maxAnswerBody:
		return &Error{Code: codeTooLarge, Detail: answerTooLarge}
	case len(r.Body) > 0 && !contentAllowed(r.Status):
		return invalid("An answer of status %d has no body: leave it out.", r.Status)
	}
	return nil
}

// contentAllowed tells whether an answer of status may have content (RFC 9110, 15.3.5, 15.3.6 and 15.4.5).
func contentAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// answer is what retries get, as the doors keep it; nil for none.
func (r *Resolution) answer() []byte {
	if r.Status == 0 {
		return nil
	}
	return answer.Answer{Status: r.Status, Header: r.Headers, Body: r.Body}.Encode()
}

// parseHeaders reads {"Name": ["value"]}; nil for none. What no server could send, and what belongs to one
// exchange, is refused by name.
func parseHeaders(object json.RawMessage) (http.Header, error) {
	if object == nil || string(object) == "null" {
		return nil, nil
	}
	headers, size := http.Header{}, 0
	d := json.NewDecoder(bytes.NewReader(object))
	err := walk(d, func(given string) error {
		var values []string
		if err := decode(d, field{"headers", &values, `{"Name": ["value"]}`}); err != nil {
			return err
		}
		name := http.CanonicalHeaderKey(given)
		if (answer.Answer{Status: http.StatusOK, Header: http.Header{given: values}}).Check() != nil {
			return invalid("Header %q cannot be sent: a name is letters, digits and hyphens, a value has no control characters.", given)
		}
		if answer.OfOneExchange(name) {
			return invalid("Header %s belongs to one exchange and is never replayed: leave it out.", name)
		}
		if _, twice := headers[name]; twice {
			return invalid("Header %s is given twice: give it once, with all its values.", name)
		}
		headers[name] = values
		for _, v := range values {
			size += len(name) + len(v)
		}
		return nil
	})
	if err == nil && size > maxAnswerHeaders {
		err = &Error{Code: codeTooLarge, Detail: answerTooLarge}
	}
	return headers, err
}
