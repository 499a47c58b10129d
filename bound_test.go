package retrysafe

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// A context that is made a real one only when somebody asks must be told from a real one by nobody, whenever he asks.

type boundKey struct{}

var errParent = errors.New("the parent's cause")

// endings are the ways in which a bounded context ends, or does not.
var endings = []struct {
	name  string
	make  func(parent context.Context) *bounded
	ends  func(b *bounded, endParent context.CancelCauseFunc)
	err   error
	cause error
}{
	{"it has not ended", operating, func(*bounded, context.CancelCauseFunc) {}, nil, nil},
	{"it has ended", operating, func(b *bounded, _ context.CancelCauseFunc) { b.end(nil) }, context.Canceled, context.Canceled},
	{"the claim is lost", operating, func(b *bounded, _ context.CancelCauseFunc) { b.end(ErrClaimLost) }, context.Canceled, ErrClaimLost},
	{"its parent has ended", operating, func(_ *bounded, end context.CancelCauseFunc) { end(errParent) }, context.Canceled, errParent},
	{"the claim is lost, then it has ended", operating, func(b *bounded, _ context.CancelCauseFunc) { b.end(ErrClaimLost); b.end(nil) }, context.Canceled, ErrClaimLost},
	{"it has ended, then its parent", operating, func(b *bounded, end context.CancelCauseFunc) { b.end(nil); end(errParent) }, context.Canceled, context.Canceled},
	{"its parent has ended, then it", operating, func(b *bounded, end context.CancelCauseFunc) { end(errParent); b.end(ErrClaimLost) }, context.Canceled, errParent},
	{"it hears nothing, and its parent has ended", detached, func(_ *bounded, end context.CancelCauseFunc) { end(errParent) }, nil, nil},
	{"it hears nothing, and the claim is lost after its parent has ended", detached, func(b *bounded, end context.CancelCauseFunc) { end(errParent); b.end(ErrClaimLost) }, context.Canceled, ErrClaimLost},
	{"its time is not over", minute, func(*bounded, context.CancelCauseFunc) { pass(time.Minute - 1) }, nil, nil},
	{"its time is over", minute, func(*bounded, context.CancelCauseFunc) { pass(time.Minute) }, context.DeadlineExceeded, context.DeadlineExceeded},
	{"its time is seen to be over, then its parent has ended", minute, func(b *bounded, end context.CancelCauseFunc) { pass(time.Minute); b.Err(); end(errParent) }, context.DeadlineExceeded, context.DeadlineExceeded},
	{"its parent has ended within its time", minute, func(_ *bounded, end context.CancelCauseFunc) { end(errParent) }, context.Canceled, errParent},
	{"its parent is seen to have ended, then its time is over", minute, func(b *bounded, end context.CancelCauseFunc) { end(errParent); b.Err(); pass(time.Minute) }, context.Canceled, errParent},
	{"it hears nothing for a minute, and its parent has ended", deafMinute, func(_ *bounded, end context.CancelCauseFunc) { end(errParent) }, nil, nil},
	{"it has heard nothing for a minute", deafMinute, func(_ *bounded, end context.CancelCauseFunc) { end(errParent); pass(time.Minute) }, context.DeadlineExceeded, context.DeadlineExceeded},
}

// pass lets time pass in a bubble, and what is due at its end happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func operating(ctx context.Context) *bounded { return &bounded{parent: ctx} }
func detached(ctx context.Context) *bounded  { return &bounded{parent: ctx, deaf: true} }
func minute(ctx context.Context) *bounded    { return within(ctx, time.Minute) }

func deafMinute(ctx context.Context) *bounded {
	return &bounded{parent: ctx, deaf: true, deadline: time.Now().Add(time.Minute)}
}

// wantEnded checks everything that a context says of its end, and its value.
func wantEnded(t *testing.T, what string, ctx context.Context, err, cause error) {
	t.Helper()
	if got := ctx.Err(); got != err {
		t.Errorf("%s: Err is %v, want %v", what, got, err)
	}
	if got := context.Cause(ctx); got != cause {
		t.Errorf("%s: Cause is %v, want %v", what, got, cause)
	}
	if got := ctx.Value(boundKey{}); got != "kept" {
		t.Errorf("%s: Value is %v, want the parent's", what, got)
	}
	synctest.Wait()
	select {
	case <-ctx.Done():
		if err == nil {
			t.Errorf("%s: Done is closed", what)
		}
	default:
		if err != nil {
			t.Errorf("%s: Done is open, though Err is %v", what, err)
		}
	}
	if got := ctx.Err(); got != err {
		t.Errorf("%s: Err is %v behind Done, want %v", what, got, err)
	}
	if got := context.Cause(ctx); got != cause {
		t.Errorf("%s: Cause is %v behind Done, want %v", what, got, cause)
	}
}

// inBubble runs f with a parent of each kind: of the standard library, and one that is bounded itself.
func inBubble(t *testing.T, f func(t *testing.T, parent context.Context, endParent context.CancelCauseFunc)) {
	t.Run("parent real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			parent, end := context.WithCancelCause(context.WithValue(t.Context(), boundKey{}, "kept"))
			defer end(nil)
			f(t, parent, end)
		})
	})
	t.Run("parent bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			parent := operating(context.WithValue(t.Context(), boundKey{}, "kept"))
			defer parent.end(nil)
			f(t, parent, parent.end)
		})
	})
}

func TestBoundedContextEnds(t *testing.T) {
	asked := []struct {
		name string
		ask  func(context.Context) // before the end
	}{
		{"nothing asked before", func(context.Context) {}},
		{"Done asked before", func(ctx context.Context) { ctx.Done() }},
		{"Err and Value asked before", func(ctx context.Context) { ctx.Err(); ctx.Value(boundKey{}) }},
	}
	for _, tt := range endings {
		for _, before := range asked {
			t.Run(tt.name+"/"+before.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, parent context.Context, endParent context.CancelCauseFunc) {
					b := tt.make(parent)
					defer b.release()
					before.ask(b)
					tt.ends(b, endParent)
					wantEnded(t, "context", b, tt.err, tt.cause)
				})
			})
		}
	}
}

// TestContextsUnderABoundedOne: they end with it, whether they were made before its end or after, for its cause, and
// no goroutine watches over them.
func TestContextsUnderABoundedOne(t *testing.T) {
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, parent context.Context, endParent context.CancelCauseFunc) {
				b := tt.make(parent)
				defer b.release()
				running := runtime.NumGoroutine()
				before, cancel := context.WithCancel(b)
				defer cancel()
				deadline, cancelDeadline := context.WithTimeout(b, time.Hour)
				defer cancelDeadline()
				if n := runtime.NumGoroutine(); n > running {
					t.Errorf("%d goroutines follow the context", n-running)
				}
				tt.ends(b, endParent)
				after, cancelAfter := context.WithCancel(b)
				defer cancelAfter()
				wantEnded(t, "child made before", before, tt.err, tt.cause)
				wantEnded(t, "child with a time limit", deadline, tt.err, tt.cause)
				wantEnded(t, "child made after", after, tt.err, tt.cause)
				free := context.WithoutCancel(b)
				wantEnded(t, "child that hears nothing", free, nil, nil)
			})
		})
	}
}

func TestDeadlineOfABoundedContext(t *testing.T) {
	now := time.Now()
	early, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	defer cancel()
	tests := []struct {
		name string
		b    *bounded
		want time.Time // zero: none
	}{
		{"its parent's", operating(early), now.Add(time.Minute)},
		{"none", operating(t.Context()), time.Time{}},
		{"its parent's is not heard", detached(early), time.Time{}},
		{"its parent's is sooner", within(early, time.Hour), now.Add(time.Minute)},
		{"its own, however late, if the parent's is not heard", &bounded{parent: early, deaf: true, deadline: now.Add(time.Hour)}, now.Add(time.Hour)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, asked := range []string{"before Done", "behind Done"} {
				if got, ok := tt.b.Deadline(); ok == tt.want.IsZero() || !got.Equal(tt.want) {
					t.Errorf("%s: Deadline is %v, %v, want %v", asked, got, ok, tt.want)
				}
				tt.b.Done()
			}
			tt.b.release()
		})
	}
}

// TestBoundedContextCostsNothing of what nobody asks for.
func TestBoundedContextCostsNothing(t *testing.T) {
	parent := context.WithValue(t.Context(), boundKey{}, "kept")
	n := testing.AllocsPerRun(100, func() {
		b := within(parent, time.Minute)
		b.Err()
		b.Deadline()
		b.Value(boundKey{})
		b.release()
	})
	if n > 1 {
		t.Errorf("a context nobody waits for costs %v allocations, want its own", n)
	}
}
