package idemhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/retrysafe/retrysafe/internal/jsonptr"
)

// A KeySource says where a request carries its key: in one of these places. The zero value is the Idempotency-Key
// header. The layer never makes a key up: a request without one is refused or, where none is required, unguarded.
type KeySource struct {
	// Headers by one of which callers send the key. Two of them in one request are refused.
	Headers []string
	// Query is the name of a query parameter.
	Query string
	// Pointer leads to a string in a JSON body (RFC 6901), like /request_id.
	Pointer string
	// Fields lead to the strings and numbers of a JSON body that together name the operation, like /order_no, for
	// callers who cannot send a key. Such a key belongs to its method and path: the same order may be charged, and
	// refunded. A body that lacks one of them has no key. MaxKey bounds their values together.
	Fields []string

	pointers []jsonptr.Pointer // of Pointer or Fields
}

func (s *KeySource) fill() error {
	ways := 0
	for _, given := range []bool{len(s.Headers) > 0, s.Query != "", s.Pointer != "", len(s.Fields) > 0} {
		if given {
			ways++
		}
	}
	switch ways {
	case 0:
		s.Headers = []string{"Idempotency-Key"}
	case 1:
	default:
		return errors.New("option Key: it stands in more than one place: give Headers, Query, Pointer or Fields")
	}
	headers := make([]string, len(s.Headers))
	for i, name := range s.Headers {
		if headers[i] = http.CanonicalHeaderKey(name); !httpguts.ValidHeaderFieldName(name) || slices.Contains(headers[:i], headers[i]) {
			return fmt.Errorf("option Key.Headers: %q is no name of a header, or stands there twice", name)
		}
	}
	s.Headers = headers
	return s.parsePointers()
}

func (s *KeySource) parsePointers() error {
	texts := s.Fields
	if s.Pointer != "" {
		texts = []string{s.Pointer}
	}
	s.pointers = nil
	for _, text := range texts {
		p, err := jsonptr.Parse(text)
		if err != nil {
			return err
		}
		if len(p) == 0 {
			return errors.New("option Key: the empty JSON pointer is the whole body: want one like /order_no")
		}
		s.pointers = append(s.pointers, p)
	}
	return nil
}

// name is how the source is called in messages to callers.
func (s *KeySource) name() string {
	switch {
	case s.Query != "":
		return "The query parameter " + s.Query
	case s.Pointer != "":
		return "The member " + s.Pointer + " of the body"
	case len(s.Fields) > 0:
		return "The members " + strings.Join(s.Fields, ", ") + " of the body"
	}
	return "The " + s.Headers[0] + " header"
}

// KeyHeaders returns the names of the headers in which requests may carry a key.
func (m *Middleware) KeyHeaders() []string { return slices.Clone(m.o.Key.Headers) }

// inBody tells whether the body has to be read to know the key.
func (s *KeySource) inBody() bool { return len(s.pointers) > 0 }

// lines returns what stands in the place where a request carries its key: nothing, or a line for each time.
func (s *KeySource) lines(r *http.Request) []string {
	switch {
	case s.Query != "":
		return parameters(r.URL.RawQuery, s.Query)
	case len(s.Headers) == 1:
		return r.Header[s.Headers[0]]
	}
	var all []string
	for _, name := range s.Headers {
		all = append(all, r.Header[name]...)
	}
	return all
}

// parameters returns the values of a query parameter. What does not decode stays as it is: a percent sign, which no
// server would take out of it.
func parameters(query, name string) (values []string) {
	for pair := range strings.SplitSeq(query, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(k); err != nil || k != name {
			continue
		}
		if decoded, err := url.QueryUnescape(v); err == nil {
			v = decoded
		}
		values = append(values, v)
	}
	return values
}

// keyInBody returns the key that a body carries. missing: it carries none. why is a sentence for the caller, which
// never repeats what was sent.
func (m *Middleware) keyInBody(r *http.Request, body []byte) (key string, missing bool, why string) {
	s := &m.o.Key
	found, err := jsonptr.Find(body, s.pointers...)
	if err != nil {
		if isJSON(r.Header["Content-Type"]) || looksLikeJSON(body) {
			return "", false, s.name() + " cannot be read: the body is not valid JSON whose objects name each member once."
		}
		return "", true, ""
	}
	parts := make([]string, len(found))
	for i, v := range found {
		if v == nil {
			return "", true, ""
		}
		if parts[i], why = s.text(v); why != "" {
			return "", false, why
		}
	}
	if s.Pointer != "" {
		key, why = printable(parts[0], "")
		return key, false, cmp.Or(why, m.checkKey(key))
	}
	key = fieldKey(parts)
	if slices.Contains(parts, "") {
		return "", false, s.name() + " must not be empty."
	}
	// However the path is spelled, it is one key: another spelling is another fingerprint, and refused.
	path := (&url.URL{Path: r.URL.Path}).EscapedPath()
	return r.Method + " " + path + " " + key, false, m.checkKey(key)
}

// text is the text of a JSON string, or of a whole number that is part of a key of Fields: other numbers can be
// written in several ways, and each would be another key.
func (s *KeySource) text(v []byte) (text, why string) {
	switch {
	case v[0] == '"':
		err := json.Unmarshal(v, &text)
		if err != nil {
			return "", s.name() + " is no string that can be read."
		}
		return text, ""
	case s.Pointer != "":
		return "", s.name() + " must be a string."
	case wholeNumber.Match(v):
		return string(v), ""
	}
	return "", s.name() + " must be strings or whole numbers."
}

var wholeNumber = regexp.MustCompile(`^(?:0|-?[1-9][0-9]*)$`)

// fieldKey joins the values of Fields. A number and its text are one: who sends 7 and "7" means one order.
func fieldKey(parts []string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		b, _ := json.Marshal(p) // a string of valid UTF-8: it cannot fail
		quoted[i] = string(b)
	}
	return strings.Join(quoted, ",")
}

// looksLikeJSON tells whether a lenient reader might take a body for the JSON that carries a key, whatever it is said to
// be: one that is not clear must not pass for one without a key.
func looksLikeJSON(body []byte) bool {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// isJSON tells whether a body says of itself that it is JSON (RFC 8259, 11; RFC 6839, 3.1).
func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	t, _, _ := strings.Cut(lines[0], ";")
	t = strings.ToLower(strings.TrimSpace(t))
	return t == "application/json" || strings.HasSuffix(t, "+json")
}
