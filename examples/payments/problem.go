package payments

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

// docs is where the problem types are explained (RFC 9457, 3.1.1: a type
// should lead to its documentation).
const docs = "https://github.com/retrysafe/retrysafe/blob/main/examples/payments/README.md#"

// problem is an error answer in the form of RFC 9457, section 3. It is also the
// error that handlers return: its words are meant for the client, while any
// other error is for the operator's log alone.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Existing string `json:"existing,omitempty"` // order-exists: the charge that stands
	State    State  `json:"state,omitempty"`    // impossible-transition: the state it is in
}

func (p *problem) Error() string { return p.Detail }

// plain is a problem that its status says all about (RFC 9457, 4.2.1).
func plain(status int, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// invalid refuses a request for what it says. It is 400 throughout: 422 is left
// to the layer in front, where it means a key used again for something else.
func invalid(detail string) *problem {
	return &problem{
		Type:   docs + "invalid-request",
		Title:  "The request is not valid",
		Status: http.StatusBadRequest,
		Detail: detail,
	}
}

// handlerFunc is a handler that has written nothing when it returns an error.
type handlerFunc func(http.ResponseWriter, *http.Request) error

// answering turns the error of h into a problem. What only reads waits no
// longer than a.wait; for what writes, write sees to that.
func (a *API) answering(h handlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			ctx, cancel := context.WithTimeout(r.Context(), a.wait)
			defer cancel()
			r = r.WithContext(ctx)
		}
		err := h(w, r)
		if err == nil {
			return
		}
		p, ok := errors.AsType[*problem](err)
		if !ok {
			a.log.Log(r.Context(), level(err), "request failed", "route", r.Pattern, "err", err)
			p = concealed(err)
		}
		writeProblem(w, p)
	}
}

// level is Debug where the client hung up, which is no failure of ours.
func level(err error) slog.Level {
	if errors.Is(err, context.Canceled) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// concealed is what a client may know of a failure on our side. A 503 promises
// that nothing was changed (only reads have a deadline); a 500 does not.
func concealed(err error) *problem {
	if errors.Is(err, errNotStarted) || errors.Is(err, context.DeadlineExceeded) {
		return plain(http.StatusServiceUnavailable, "the database is busy; nothing was changed, send the request again")
	}
	return plain(http.StatusInternalServerError, "the request could not be finished; the cause is in the server's log")
}

// writeProblem sends p with the header fields that belong to its status.
func writeProblem(w http.ResponseWriter, p *problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only
		panic(err)
	}
	if p.Existing != "" {
		w.Header().Set("Location", "/charges/"+p.Existing)
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnsupportedMediaType {
		w.Header().Set("Accept", "application/json") // RFC 9110, 15.5.16
	}
	writeBody(w, p.Status, "application/problem+json", body)
}

// refusing answers what no route of mux takes with a problem, under the status
// and the Allow header that mux chose (404, 405).
func refusing(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := refusal{header: w.Header(), status: http.StatusNotFound}
		h.ServeHTTP(&refusal, r)
		writeProblem(w, plain(refusal.status, "no route for "+r.Method+" on this path"))
	})
}

// refusal takes the status and the headers of an answer, and drops its text.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) WriteHeader(status int)      { r.status = status }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }
