package admin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// maxLimit is the most keys that one page may hold.
const maxLimit = 1000

// maxCursor bounds a cursor, in bytes; those of stores are far shorter.
const maxCursor = 1024

// A Page is a part of a list. It may hold fewer keys than asked for, even none: only an empty Next says that
// nothing follows.
type Page struct {
	Keys []Summary `json:"keys"`
	Next string    `json:"next"`
}

func (a *API) list(r *http.Request) (any, error) {
	f, err := filterOf(r.URL)
	if err != nil {
		return nil, err
	}
	records, next, err := a.executor.List(r.Context(), f)
	if errors.Is(err, retrysafe.ErrInvalid) { // all else that could be is checked above
		return nil, invalid("Parameter cursor: give the next of the page before, unchanged.")
	}
	if err != nil {
		return nil, err
	}
	page := Page{Keys: make([]Summary, 0, len(records)), Next: next}
	for _, rec := range records {
		page.Keys = append(page.Keys, summaryOf(rec))
	}
	return page, nil
}

func filterOf(u *url.URL) (f retrysafe.Filter, err error) {
	q, err := parametersOf(u, "state", "scope", "prefix", "limit", "cursor")
	if err != nil {
		return f, err
	}
	f.Scope, f.Prefix, f.Cursor = q.Get("scope"), q.Get("prefix"), q.Get("cursor")
	if len(f.Cursor) > maxCursor {
		return f, invalid("Parameter cursor has %d bytes: give the next of the page before, unchanged.", len(f.Cursor))
	}
	if name := q.Get("state"); name != "" {
		if f.State, err = retrysafe.ParseState(name); err != nil {
			return f, invalid("Parameter state: want one of in_flight, completed, unknown, unknown_answered, free, expired.")
		}
	}
	if text := q.Get("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 || f.Limit > maxLimit {
			return f, invalid("Parameter limit: want a number from 1 to %d.", maxLimit)
		}
	}
	return f, nil
}

// parametersOf returns the query's parameters. One that is not known is refused, since a filter with a slip of
// the pen would select everything. An empty one is as good as none.
func parametersOf(u *url.URL, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("The query is malformed: escape %% and ; in it.")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, invalid("Parameter %q is not known here. Known are: %s.", name, cmp.Or(strings.Join(known, ", "), "none"))
		}
		if len(values) > 1 {
			return nil, invalid("Parameter %s is given %d times: give it once.", name, len(values))
		}
	}
	return q, nil
}

func (a *API) show(r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	q, err := parametersOf(r.URL, "answer")
	if err != nil {
		return nil, err
	}
	values := q.Get("answer")
	if values != "" && values != "0" && values != "1" {
		return nil, invalid("Parameter answer: want 1 to see the answer, or 0.")
	}
	rec, err := a.executor.Inspect(r.Context(), id)
	if err != nil && !errors.Is(err, retrysafe.ErrUnreadable) {
		return nil, err
	}
	return detailOf(rec, values == "1"), nil
}

func idOf(r *http.Request) (retrysafe.ID, error) {
	id, err := retrysafe.ParseID(r.PathValue("id"))
	if err != nil {
		return id, invalid("The id in the path: want %d hexadecimal digits, as the list shows them.", 2*len(id))
	}
	return id, nil
}
