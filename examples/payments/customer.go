package payments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
)

// Customer is one customer as the API answers it and, in a PUT, takes it: the
// whole of it, so that the request sent twice leaves what it left before.
type Customer struct {
	ID    string `json:"id"` // in a PUT the path says it; here it may be left out
	Name  string `json:"name"`
	Email string `json:"email"`
}

// check refuses a customer that is not the one of the path, or not whole.
func (c *Customer) check(id string) error {
	if err := checkName("the customer's id", id); err != nil {
		return err
	}
	if c.ID != "" && c.ID != id {
		return invalid("the id in the body is not the one in the path")
	}
	if c.Name == "" {
		return invalid("name must not be empty")
	}
	if err := checkText("name", c.Name, 200); err != nil {
		return err
	}
	return checkText("email", c.Email, 254) // RFC 5321, 4.5.3.1.3, without <>
}

// putCustomer sets a customer: 201 when there was none, 200 when it replaced
// one (RFC 9110, 9.3.4).
func (a *API) putCustomer(w http.ResponseWriter, r *http.Request) error {
	var c Customer
	if err := readJSON(w, r, &c); err != nil {
		return err
	}
	id := r.PathValue("id")
	if err := c.check(id); err != nil {
		return err
	}
	c.ID = id
	created, err := a.setCustomer(r.Context(), c)
	if err != nil {
		return err
	}
	if !created {
		return writeJSON(w, http.StatusOK, c)
	}
	w.Header().Set("Location", "/customers/"+id)
	return writeJSON(w, http.StatusCreated, c)
}

// setCustomer reports whether the customer is new.
func (a *API) setCustomer(ctx context.Context, c Customer) (created bool, err error) {
	err = a.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		created, err = changed(tx.ExecContext(ctx, `
			insert into customers (id, name, email) values (?, ?, ?)
			on conflict (id) do nothing`, c.ID, c.Name, c.Email))
		if err != nil {
			return fmt.Errorf("insert customer: %w", err)
		}
		if created {
			return nil
		}
		_, err = tx.ExecContext(ctx, `update customers set name = ?, email = ? where id = ?`, c.Name, c.Email, c.ID)
		if err != nil {
			return fmt.Errorf("update customer: %w", err)
		}
		return nil
	})
	return created, err
}

// getCustomer is where the Location of a customer leads.
func (a *API) getCustomer(w http.ResponseWriter, r *http.Request) error {
	var c Customer
	err := a.reader.QueryRowContext(r.Context(),
		`select id, name, email from customers where id = ?`, r.PathValue("id")).Scan(&c.ID, &c.Name, &c.Email)
	if errors.Is(err, sql.ErrNoRows) {
		return noCustomer()
	}
	if err != nil {
		return fmt.Errorf("find customer: %w", err)
	}
	return writeJSON(w, http.StatusOK, c)
}

// deleteCustomer answers 204 once and 404 from then on: the second changes
// nothing, which is all that idempotent says (RFC 9110, 9.2.2), and the 404
// tells a caller who lost the first answer that the customer is gone.
func (a *API) deleteCustomer(w http.ResponseWriter, r *http.Request) error {
	if err := readNothing(w, r); err != nil {
		return err
	}
	var deleted bool
	err := a.write(r.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
		deleted, err = changed(tx.ExecContext(ctx, `delete from customers where id = ?`, r.PathValue("id")))
		if err != nil {
			return fmt.Errorf("delete customer: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !deleted {
		return noCustomer()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noCustomer() error {
	return plain(http.StatusNotFound, "there is no such customer")
}

// changed reports whether a statement changed a row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
