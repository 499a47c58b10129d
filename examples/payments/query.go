package payments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// Page is one page of charges in the order of their slips.
type Page struct {
	Charges []Charge `json:"charges"`
	Next    int64    `json:"next,omitempty"` // the after of the next page; absent on the last
}

// Totals count the charges that were not refunded.
type Totals struct {
	Count int64 `json:"count"`
	// Sums are the amounts by currency: minor units of two currencies do not
	// add up.
	Sums map[string]int64 `json:"sums"`
}

// Limits of a page.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// getCharge is where the Location of a charge leads.
func (a *API) getCharge(w http.ResponseWriter, r *http.Request) error {
	c, err := findCharge(r.Context(), a.reader, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, c)
}

func findCharge(ctx context.Context, db queryer, id string) (Charge, error) {
	c, err := scanCharge(db.QueryRowContext(ctx, `select `+chargeColumns+` from charges where id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Charge{}, plain(http.StatusNotFound, "there is no such charge")
	}
	if err != nil {
		return Charge{}, fmt.Errorf("find charge: %w", err)
	}
	return c, nil
}

// listCharges pages by slip. As slips are taken in the order of commit, a reader
// who goes on after the last one it saw misses none.
func (a *API) listCharges(w http.ResponseWriter, r *http.Request) error {
	filter, err := parseFilter(r.URL.RawQuery, "customer", "memo", "limit", "after")
	if err != nil {
		return err
	}
	page, err := a.findCharges(r.Context(), filter)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, page)
}

func (a *API) getTotals(w http.ResponseWriter, r *http.Request) error {
	filter, err := parseFilter(r.URL.RawQuery, "customer")
	if err != nil {
		return err
	}
	totals, err := a.sumCharges(r.Context(), filter)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, totals)
}

// filter says which charges are asked for. A nil field filters nothing.
type filter struct {
	customer *string
	memo     *string
	after    int64
	limit    int
}

// parseFilter reads a query that may hold each of the known parameters once.
// Another one is refused: a misspelled filter passed over would answer with
// everybody's charges.
func parseFilter(query string, known ...string) (f filter, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return filter{}, invalid("the query is malformed")
	}
	f.limit = defaultLimit
	for name, v := range values {
		if !slices.Contains(known, name) || len(v) != 1 {
			return filter{}, invalid(fmt.Sprintf("parameter %q is unknown or there twice", name))
		}
		if err := f.set(name, v[0]); err != nil {
			return filter{}, err
		}
	}
	return f, nil
}

// set takes a parameter that is known. A filter given with an empty value
// filters too: an unset variable in a script must not widen the answer.
func (f *filter) set(name, value string) (err error) {
	switch name {
	case "customer":
		f.customer = &value
	case "memo":
		f.memo = &value
	case "limit":
		f.limit, err = strconv.Atoi(value)
		if err != nil || f.limit < 1 || f.limit > maxLimit {
			return invalid(fmt.Sprintf("limit must be a number of 1 to %d", maxLimit))
		}
	case "after":
		f.after, err = strconv.ParseInt(value, 10, 64)
		if err != nil || f.after < 0 {
			return invalid("after must be a slip number, or 0 to begin")
		}
	}
	return nil
}

// where adds the conditions of f to a statement that has one already. Only what
// is asked for stands there, so that the index of that column serves it.
func (f *filter) where(statement string, args ...any) (string, []any) {
	if f.customer != nil {
		statement, args = statement+` and customer = ?`, append(args, *f.customer)
	}
	if f.memo != nil {
		statement, args = statement+` and memo = ?`, append(args, *f.memo)
	}
	return statement, args
}

func (a *API) findCharges(ctx context.Context, f filter) (Page, error) {
	statement, args := f.where(`select `+chargeColumns+` from charges where slip > ?`, f.after)
	// One more than asked for tells whether there is a next page.
	rows, err := a.reader.QueryContext(ctx, statement+` order by slip limit ?`, append(args, f.limit+1)...)
	if err != nil {
		return Page{}, fmt.Errorf("list charges: %w", err)
	}
	defer rows.Close()
	page := Page{Charges: []Charge{}} // an empty list is [], not null
	for rows.Next() {
		c, err := scanCharge(rows)
		if err != nil {
			return Page{}, fmt.Errorf("list charges: %w", err)
		}
		page.Charges = append(page.Charges, c)
	}
	if err := rows.Err(); err != nil {
		return Page{}, fmt.Errorf("list charges: %w", err)
	}
	if len(page.Charges) > f.limit {
		page.Charges = page.Charges[:f.limit]
		page.Next = page.Charges[f.limit-1].Slip
	}
	return page, nil
}

// sumCharges fails rather than wrap when a sum leaves 64 bits: SQLite does.
func (a *API) sumCharges(ctx context.Context, f filter) (Totals, error) {
	statement, args := f.where(`select currency, count(slip), sum(amount) from charges where state <> 'refunded'`)
	rows, err := a.reader.QueryContext(ctx, statement+` group by currency`, args...)
	if err != nil {
		return Totals{}, fmt.Errorf("sum charges: %w", err)
	}
	defer rows.Close()
	totals := Totals{Sums: map[string]int64{}}
	for rows.Next() {
		var currency string
		var count, sum int64
		if err := rows.Scan(&currency, &count, &sum); err != nil {
			return Totals{}, fmt.Errorf("sum charges: %w", err)
		}
		totals.Count += count
		totals.Sums[currency] = sum
	}
	if err := rows.Err(); err != nil {
		return Totals{}, fmt.Errorf("sum charges: %w", err)
	}
	return totals, nil
}
