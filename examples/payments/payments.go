// Package payments is a small real payment API whose data live in one SQLite
// file. It is the service that the retrysafe gateway is shown in front of: it
// knows nothing of idempotency keys, so a bare POST /charges sent twice makes
// two charges. Beside that it shows the operations that are safe to repeat
// without any key: a business unique key (order_no), a state transition that
// is one conditional update (capture, refund), and a PUT that sets a value.
package payments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Options are the parts of an API that a caller may set. The zero value works.
type Options struct {
	// Logger gets one line for each request that failed on our side; never
	// a body. Defaults to silence.
	Logger *slog.Logger

	// Now is the clock that dates the charges. Defaults to time.Now.
	Now func() time.Time

	// Wait bounds how long a request may wait for the database before it is
	// answered 503. Defaults to 5 s.
	Wait time.Duration

	// AfterEffect is called once a new charge is durable and before its answer
	// is written: the instant at which a lost connection leaves the caller not
	// knowing. It is for tests that act just then. Defaults to nothing.
	AfterEffect func(*http.Request)
}

// API is the payment API over one database file. Open is the only way to make
// one. It is safe for concurrent use.
type API struct {
	writer *sql.DB // one connection: writes stand in line here, not in SQLite
	reader *sql.DB // query_only connections: a GET cannot write

	log         *slog.Logger
	now         func() time.Time
	wait        time.Duration
	afterEffect func(*http.Request)
}

// Open opens the database file at path, and makes it when there is none.
// It refuses a file that another program or a newer version of this one wrote.
func Open(ctx context.Context, path string, opts *Options) (*API, error) {
	if opts == nil {
		opts = &Options{}
	}
	a := &API{
		log:         opts.Logger,
		now:         opts.Now,
		wait:        opts.Wait,
		afterEffect: opts.AfterEffect,
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.wait == 0 {
		a.wait = 5 * time.Second
	}
	if a.wait < time.Millisecond {
		return nil, fmt.Errorf("open database %q: a wait of %v is below 1ms", path, a.wait)
	}
	if a.afterEffect == nil {
		a.afterEffect = func(*http.Request) {}
	}
	if err := a.openDatabase(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %q: %w", path, err), a.Close())
	}
	return a, nil
}

// Close closes the database. The caller first stops the server that uses
// Handler: a request that is still running fails.
func (a *API) Close() error {
	var errs []error
	for _, db := range []*sql.DB{a.reader, a.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Handler answers the routes of the API.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handlerFunc{
		"POST /charges":              a.postCharge,
		"GET /charges":               a.listCharges,
		"GET /charges/{id}":          a.getCharge,
		"POST /charges/{id}/capture": a.postCapture,
		"POST /charges/{id}/refund":  a.postRefund,
		"GET /totals":                a.getTotals,
		"PUT /customers/{id}":        a.putCustomer,
		"GET /customers/{id}":        a.getCustomer,
		"DELETE /customers/{id}":     a.deleteCustomer,
		"GET /healthz":               a.getHealth,
	} {
		mux.HandleFunc(pattern, a.answering(h))
	}
	return refusing(mux)
}

// getHealth is 200 as long as the database answers.
func (a *API) getHealth(w http.ResponseWriter, r *http.Request) error {
	if _, err := pragma(r.Context(), a.reader, "user_version"); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}
