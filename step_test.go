package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Operations made of steps, and operations inside operations.

// TestResumeBehindAFinishedStep: the process dies after the first step; the re-run takes only the second.
func TestResumeBehindAFinishedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
		charged, mailed := 0, 0
		run := func(crash bool) op {
			return func(ctx context.Context) ([]byte, error) {
				charge, err := retrysafe.Step(ctx, "charge", func(context.Context) (string, error) { charged++; return "ch_1", nil })
				if err != nil {
					return nil, err
				}
				if crash {
					l.store.hook(down) // from here on nothing of this process reaches the store
					return nil, errBlip
				}
				_, err = retrysafe.Step(ctx, "mail", func(context.Context) (bool, error) { mailed++; return true, nil })
				return []byte(charge), err
			}
		}
		_, err := l.Do(t.Context(), order, payload, run(true))
		wantErr(t, "first run", err, errBlip)
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		l.Drain(stop)
		l.store.hook(nil)
		advance(rerun.Lease)

		next := labOver(t, l.store, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
		r := next.mustDo(t, run(false))
		if r.Verdict != retrysafe.TookOver || string(r.Answer) != "ch_1" {
			t.Errorf("second run: %v %q, want took_over with %q", r.Verdict, r.Answer, "ch_1")
		}
		if charged != 1 || mailed != 1 {
			t.Errorf("charged %d times, mailed %d, want 1 and 1", charged, mailed)
		}
	})
}

func TestHowStepsEnd(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		again error
		calls int
	}{
		{"done", nil, nil, 1},
		{"an error leaves it unknown", errBlip, retrysafe.ErrUnknownOutcome, 1},
		{"nothing happened", retrysafe.ErrDidNothing, nil, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				calls := 0
				l.mustDo(t, func(ctx context.Context) ([]byte, error) {
					_, err := retrysafe.Step(ctx, "charge", func(context.Context) (int, error) { calls++; return 7, tt.err })
					wantErr(t, "first Step", err, tt.err)
					v, err := retrysafe.Step(ctx, "charge", func(context.Context) (int, error) { calls++; return 7, nil })
					wantErr(t, "second Step", err, tt.again)
					if err == nil && v != 7 {
						t.Errorf("second Step: %d, want 7", v)
					}
					return nil, nil
				})
				if calls != tt.calls {
					t.Errorf("the step ran %d times, want %d", calls, tt.calls)
				}
			})
		})
	}
}

func TestStepOutsideOfAnOperation(t *testing.T) {
	_, err := retrysafe.Step(t.Context(), "charge", func(context.Context) (int, error) {
		t.Error("the step ran")
		return 0, nil
	})
	wantErr(t, "Step", err, retrysafe.ErrNoOperation)
	_, err = retrysafe.Derive(t.Context(), "charge")
	wantErr(t, "Derive", err, retrysafe.ErrNoOperation)
	if epoch := retrysafe.EpochOf(t.Context()); epoch != 0 {
		t.Errorf("EpochOf outside of an operation is %d, want 0", epoch)
	}
}

// TestDerivedKeys: the same on every run, different for every path of names, and none that a caller can send.
func TestDerivedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		seen := map[retrysafe.ID]string{order.ID(): "the operation's own"}
		derive := func(ctx context.Context, name, path string) retrysafe.Key {
			key, err := retrysafe.Derive(ctx, name)
			if err != nil {
				t.Fatalf("Derive(%q): %v", name, err)
			}
			if again, _ := retrysafe.Derive(ctx, name); again != key {
				t.Errorf("Derive(%q) gave two keys", name)
			}
			if before, known := seen[key.ID()]; known {
				t.Errorf("the key of %s is that of %s", path, before)
			}
			seen[key.ID()] = path
			return key
		}
		l.mustDo(t, func(ctx context.Context) ([]byte, error) {
			for _, name := range []string{"", "a", "b", "ab", "a/b", "/", "\x00", "\x00\x00\x00\x00\x00\x00\x00\x01a"} {
				key := derive(ctx, name, "step "+name)
				l.Do(ctx, key, payload, func(ctx context.Context) ([]byte, error) {
					derive(ctx, "", "empty step in "+name)
					derive(ctx, "b", "step b in "+name)
					return nil, nil
				})
			}
			return nil, nil
		})
		imitations := []retrysafe.Key{
			{Scope: order.Scope, Name: order.Name + "/a"},
			{Scope: order.Scope, Name: order.Name + "a"},
			{Scope: order.Scope, Name: order.Name + "\x00\x00\x00\x00\x00\x00\x00\x01a"},
			{Scope: order.Scope + order.Name, Name: "a"},
			{Scope: order.Scope, Name: "\x00\x00\x00\x00\x00\x00\x00\x0aorder-1001\x00\x00\x00\x00\x00\x00\x00\x01a"},
		}
		for _, key := range imitations {
			if path, known := seen[key.ID()]; known {
				t.Errorf("%#v imitates %s", key.Name, path)
			}
		}
	})
}

// TestOperationsInsideOperations is CC-13: each keeps its own result, under its own epoch.
func TestOperationsInsideOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		inner := retrysafe.Key{Scope: order.Scope, Name: "inner"}
		nested := func(outerOp, innerOp op) {
			r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
				outer := retrysafe.EpochOf(ctx)
				advance(time.Millisecond)
				in, err := l.Do(ctx, inner, payload, func(ctx context.Context) ([]byte, error) {
					if epoch := retrysafe.EpochOf(ctx); epoch == outer || epoch == 0 {
						t.Errorf("inner epoch %d beside outer %d, want one of its own", epoch, outer)
					}
					return innerOp(ctx)
				})
				if err != nil || string(in.Answer) != "inner" {
					t.Errorf("inner Do: %q, %v", in.Answer, err)
				}
				if retrysafe.EpochOf(ctx) != outer {
					t.Error("the outer epoch changed")
				}
				return outerOp(ctx)
			})
			if err != nil || string(r.Answer) != "outer" {
				t.Errorf("outer Do: %q, %v", r.Answer, err)
			}
		}
		says := func(s string) op { return func(context.Context) ([]byte, error) { return []byte(s), nil } }
		nested(says("outer"), says("inner"))
		nested(never(t), never(t))
		if r, err := l.Do(t.Context(), inner, payload, never(t)); err != nil || string(r.Answer) != "inner" {
			t.Errorf("inner retried alone: %q, %v", r.Answer, err)
		}
		// An operation that calls itself is told so, and does not wait for itself.
		self := retrysafe.Key{Name: "self"}
		_, err := l.Do(t.Context(), self, payload, func(ctx context.Context) ([]byte, error) {
			_, err := l.Do(ctx, self, payload, never(t))
			return nil, errors.Join(retrysafe.ErrDidNothing, err)
		})
		wantErr(t, "Do inside itself", err, retrysafe.ErrInFlight)
	})
}
