package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
)

// TestInnerDidNothing: an operation took effect; then a part of it, an operation of its own, did nothing, and its
// error is passed on. That says nothing of the operation around it: released, it would take effect again.
func TestInnerDidNothing(t *testing.T) {
	inner := func(l *lab) map[string]op {
		nothing := func(context.Context) ([]byte, error) {
			return nil, fmt.Errorf("smtp: dial: %w", retrysafe.ErrDidNothing)
		}
		return map[string]op{
			"Do": func(ctx context.Context) ([]byte, error) {
				_, err := l.Do(ctx, retrysafe.Key{Name: "mail"}, payload, nothing)
				return nil, fmt.Errorf("mail: %w", err)
			},
			"Step": func(ctx context.Context) ([]byte, error) {
				_, err := retrysafe.Step(ctx, "mail", nothing)
				return nil, errors.Join(errors.New("mail"), err)
			},
		}
	}
	for _, name := range []string{"Do", "Step"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			_, err := l.Do(t.Context(), order, payload, inner(l)[name])
			wantErr(t, "Do", err, retrysafe.ErrDidNothing) // its caller may still know
			l.wantState(t, retrysafe.Unknown)
		})
	}
	t.Run("its own", func(t *testing.T) {
		l := newLab(t, nil)
		l.Do(t.Context(), order, payload, func(context.Context) ([]byte, error) {
			return nil, errors.Join(errors.New("no"), fmt.Errorf("card: %w", retrysafe.ErrDidNothing))
		})
		l.wantState(t, retrysafe.Absent)
	})
}

// TestContextOutlivesItsOperation: what is left of an operation is no operation under way, and gets past no drain.
func TestContextOutlivesItsOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var left context.Context
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			left = context.WithoutCancel(ctx)
			return nil, nil
		})
		wantErr(t, "Drain", l.Drain(t.Context()), nil)
		_, err := retrysafe.Step(left, "mail", func(context.Context) (string, error) {
			t.Error("it ran behind the drain")
			return "", nil
		})
		wantErr(t, "Step", err, retrysafe.ErrDraining)
	})
}
