package payments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
)

// postCapture takes the money that was authorized.
func (a *API) postCapture(w http.ResponseWriter, r *http.Request) error {
	return a.postTransition(w, r, Authorized, Captured)
}

// postRefund gives captured money back, all of it.
func (a *API) postRefund(w http.ResponseWriter, r *http.Request) error {
	return a.postTransition(w, r, Captured, Refunded)
}

func (a *API) postTransition(w http.ResponseWriter, r *http.Request, from, to State) error {
	if err := readNothing(w, r); err != nil {
		return err
	}
	var c Charge
	err := a.write(r.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
		c, err = transition(ctx, tx, r.PathValue("id"), from, to)
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, c)
}

// transition moves a charge from one state to the next. The condition is part
// of the update, so of many that ask at once one moves it; those that come
// later find it where they wanted it, which is the same answer.
func transition(ctx context.Context, tx *sql.Tx, id string, from, to State) (Charge, error) {
	c, err := scanCharge(tx.QueryRowContext(ctx,
		`update charges set state = ? where id = ? and state = ? returning `+chargeColumns, to, id, from))
	if err == nil {
		return c, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return Charge{}, fmt.Errorf("update charge: %w", err)
	}
	c, err = findCharge(ctx, tx, id)
	if err != nil {
		return Charge{}, err
	}
	if c.State == to {
		return c, nil
	}
	return Charge{}, &problem{
		Type:   docs + "impossible-transition",
		Title:  "The charge is in another state",
		Status: http.StatusConflict,
		Detail: fmt.Sprintf("the charge is %s; only one that is %s can become %s", c.State, from, to),
		State:  c.State,
	}
}
