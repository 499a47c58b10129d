package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/retrysafe/retrysafe"
)

// The codes of what the API refuses. A code never changes its meaning.
const (
	codeInvalid     = "request-invalid"
	codeToken       = "unauthorized"
	codeOrigin      = "cross-origin"
	codeNoKey       = "key-not-found"
	codeNoPath      = "path-unknown"
	codeMethod      = "method-not-allowed"
	codeRefused     = "decision-refused"
	codeUnreadable  = "entry-unreadable"
	codeTooLarge    = "body-too-large"
	codeMediaType   = "media-type-unsupported"
	codeHost        = "host-unknown"
	codeNoList      = "list-unsupported"
	codeNoBackup    = "backup-unsupported"
	codeBackup      = "backup-failed"
	codeUnavailable = "store-unavailable"
	codeNotReady    = "not-ready"
)

var kinds = map[string]struct {
	status int
	title  string
}{
	codeInvalid:     {http.StatusBadRequest, "The request is invalid"},
	codeToken:       {http.StatusUnauthorized, "The admin token is missing or wrong"},
	codeOrigin:      {http.StatusForbidden, "The request came from another site"},
	codeNoKey:       {http.StatusNotFound, "There is no such key"},
	codeNoPath:      {http.StatusNotFound, "There is nothing under this path"},
	codeMethod:      {http.StatusMethodNotAllowed, "The path does not answer this method"},
	codeRefused:     {http.StatusConflict, "The decision is not allowed on what stands"},
	codeUnreadable:  {http.StatusConflict, "What is stored for this key cannot be read"},
	codeTooLarge:    {http.StatusRequestEntityTooLarge, "The request body is too large"},
	codeMediaType:   {http.StatusUnsupportedMediaType, "The request body is not JSON"},
	codeHost:        {http.StatusMisdirectedRequest, "This listener is not known by that host name"}, // RFC 9110, 15.5.20
	codeNoList:      {http.StatusNotImplemented, "The store cannot list"},
	codeNoBackup:    {http.StatusNotImplemented, "The store cannot be backed up from here"},
	codeBackup:      {http.StatusInternalServerError, "The backup failed"},
	codeUnavailable: {http.StatusServiceUnavailable, "The store did not answer"},
	codeNotReady:    {http.StatusServiceUnavailable, "Not ready"},
}

// An Error is a problem (RFC 9457) as the API writes it and as a [Client] returns it.
type Error struct {
	Type    string   `json:"type,omitempty"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"` // what to do, too
	Code    string   `json:"code"`
	State   string   `json:"state,omitempty"`         // of the key on which a decision was refused
	Force   bool     `json:"force_allowed,omitempty"` // with force it would have been allowed
	Reasons []string `json:"reasons,omitempty"`       // of not being ready
}

func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s (%d)", e.Detail, e.Status)
	}
	return fmt.Sprintf("%s: %s (%d %s)", e.Title, e.Detail, e.Status, e.Code)
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: codeInvalid, Detail: fmt.Sprintf(format, args...)}
}

// problemOf is how err is told to an operator. Whatever the store said stays in the log.
func problemOf(err error) *Error {
	var p *Error
	var refused *retrysafe.RefusedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, retrysafe.ErrNotFound):
		return &Error{Code: codeNoKey, Detail: "Nothing stands under this id: it was never claimed, was released, or is no longer remembered. List the keys to find another."}
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.Is(err, retrysafe.ErrUnreadable):
		return &Error{Code: codeUnreadable, Detail: `Its entry is damaged, or was written by a newer version. Nothing was changed. Restore it, or forget the key with "force": true; the next request under it then runs.`}
	case errors.Is(err, errors.ErrUnsupported):
		return &Error{Code: codeNoList, Detail: "Look keys up by their id, or run on a store that lists."}
	}
	return &Error{Code: codeUnavailable, Detail: "The log says why. Look at the key before you send a decision again: it may have been written."}
}

func refusal(r *retrysafe.RefusedError) *Error {
	p := &Error{Code: codeRefused, State: r.State.String(), Force: r.Force}
	switch {
	case r.Live:
		p.Detail = `The key is in flight under a live lease: somebody is on it. Wait for the end, or send "force": true; its owner can then record nothing more.`
	case r.Force:
		p.Detail = fmt.Sprintf(`The key is %s, and its answer is replayed. Send "force": true to decide against what is recorded.`, r.State)
	default:
		p.Detail = fmt.Sprintf("The key is %s: there is nothing to %s.", r.State, r.Act)
	}
	return p
}

// refuse answers with the problem that err is.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := *problemOf(err)
	kind := kinds[p.Code]
	p.Type, p.Title, p.Status = a.o.DocsBase+"/operate.md#"+p.Code, kind.title, kind.status
	if p.Code == codeUnavailable {
		a.o.Logger.Error("admin call failed", "call", r.Method+" "+r.Pattern, "err", err)
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Language", "en")
	writeJSON(w, p.Status, "application/problem+json", &p)
}

// writeJSON writes v, which consists of strings, numbers and lists of them: it cannot fail to encode.
func writeJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	body, _ := json.Marshal(v)
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
