package payments

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// State is where a charge stands: authorized, then captured, then refunded.
type State string

// The states of a charge.
const (
	Authorized State = "authorized"
	Captured   State = "captured"
	Refunded   State = "refunded"
)

// Charge is one charge as the API answers it.
type Charge struct {
	ID       string `json:"id"`
	Slip     int64  `json:"slip"` // 1, 2, 3 without a gap, in order of commit
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"` // in minor units of Currency
	Currency string `json:"currency"`
	State    State  `json:"state"`
	Memo     string `json:"memo"`
	OrderNo  string `json:"order_no"` // empty when none was given
	Created  string `json:"created"`  // RFC 3339, UTC, to the microsecond
}

// chargeColumns are what scanCharge reads, in its order.
const chargeColumns = `slip, id, customer, amount, currency, state, memo, coalesce(order_no, ''), created`

// scanCharge reads a row of chargeColumns.
func scanCharge(row interface{ Scan(...any) error }) (c Charge, err error) {
	err = row.Scan(&c.Slip, &c.ID, &c.Customer, &c.Amount, &c.Currency, &c.State, &c.Memo, &c.OrderNo, &c.Created)
	return c, err
}

// Limits of what a charge may hold.
const (
	// maxAmount is exact in every JSON reader (RFC 8259, 6), and nine million
	// such charges can be summed up in 64 bits.
	maxAmount = 999_999_999_999
	maxMemo   = 500
)

// chargeRequest is the body of POST /charges.
type chargeRequest struct {
	Customer string  `json:"customer"`
	Amount   int64   `json:"amount"`
	Currency string  `json:"currency"`
	Memo     string  `json:"memo"`
	OrderNo  *string `json:"order_no"` // nil is none; an empty one is a mistake
	Capture  *bool   `json:"capture"`  // nil is true
}

// check refuses what may not be charged, before the database is asked.
func (req *chargeRequest) check() error {
	if err := checkName("customer", req.Customer); err != nil {
		return err
	}
	if req.Amount < 1 || req.Amount > maxAmount {
		return invalid(fmt.Sprintf("amount must be 1 to %d minor units", maxAmount))
	}
	// The form of an ISO 4217 code; which of them exist changes by the year.
	if len(req.Currency) != 3 || !consistsOf(req.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return invalid("currency must be three upper-case letters, as EUR")
	}
	if err := checkText("memo", req.Memo, maxMemo); err != nil {
		return err
	}
	if req.OrderNo == nil {
		return nil
	}
	return checkName("order_no", *req.OrderNo)
}

func (req *chargeRequest) firstState() State {
	if req.Capture != nil && !*req.Capture {
		return Authorized
	}
	return Captured
}

// postCharge makes a charge. Without an order_no each request makes another
// one; with it the order is charged once, however often it is asked for.
func (a *API) postCharge(w http.ResponseWriter, r *http.Request) error {
	var req chargeRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	c, err := a.createCharge(r.Context(), &req)
	if err != nil {
		return err
	}
	a.afterEffect(r)
	w.Header().Set("Location", "/charges/"+c.ID)
	return writeJSON(w, http.StatusCreated, c)
}

// createCharge makes the charge or, where the order has one, gives the problem
// that names it. It inserts first and asks afterwards: the unique index decides,
// which holds whoever else writes; a look beforehand decides nothing.
func (a *API) createCharge(ctx context.Context, req *chargeRequest) (c Charge, err error) {
	err = a.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err = a.insertCharge(ctx, tx, req)
		if errors.Is(err, sql.ErrNoRows) {
			return orderExists(ctx, tx, *req.OrderNo)
		}
		return err
	})
	return c, err
}

// insertCharge takes the next slip number in the transaction that makes the
// charge, so a number is never given out and then lost. It gives sql.ErrNoRows
// when the order number is taken.
func (a *API) insertCharge(ctx context.Context, tx *sql.Tx, req *chargeRequest) (Charge, error) {
	row := tx.QueryRowContext(ctx, `
		insert into charges (slip, id, customer, amount, currency, state, memo, order_no, created)
		select coalesce(max(slip), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ? from charges where true
		on conflict (order_no) do nothing
		returning `+chargeColumns,
		"ch_"+strings.ToLower(rand.Text()), req.Customer, req.Amount, req.Currency, req.firstState(),
		req.Memo, req.OrderNo, a.now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	c, err := scanCharge(row)
	if err != nil {
		return Charge{}, fmt.Errorf("insert charge: %w", err)
	}
	return c, nil
}

// orderExists is the problem that names the charge which has the order number.
func orderExists(ctx context.Context, tx *sql.Tx, orderNo string) error {
	var id string
	err := tx.QueryRowContext(ctx, `select id from charges where order_no = ?`, orderNo).Scan(&id)
	if err != nil {
		return fmt.Errorf("find charge by order number: %w", err)
	}
	return &problem{
		Type:     docs + "order-exists",
		Title:    "The order was charged before",
		Status:   http.StatusConflict,
		Detail:   "order_no " + orderNo + " has charge " + id + "; no other was made",
		Existing: id,
	}
}
