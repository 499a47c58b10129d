package retrysafe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Do[T]: what comes back is what was returned, or the type is refused, or the answer is marked as not kept. Never
// something else (rule 9).

// roundTrip runs an operation that returns v twice and expects first and replay to be equal, and equal to v.
func roundTrip[T any](t *testing.T, v T, equal func(a, b T) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		ran := 0
		for _, attempt := range []string{"first", "replay"} {
			got, _, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (T, error) {
				ran++
				return v, nil
			})
			if err != nil || !equal(got, v) {
				t.Errorf("%s: %#v, %v, want %#v", attempt, got, err, v)
			}
		}
		if ran != 1 {
			t.Errorf("ran %d times, want once", ran)
		}
	})
}

func same[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

type money struct {
	Amount   int64
	Currency string
	Rate     *big.Rat
}

type tree struct {
	Value    float64
	Children []tree
	Tags     map[string][]byte
}

type times struct {
	At  time.Time
	For time.Duration
}

// TestValuesComeBack is SV-1, SV-2, SV-4 and SV-5.
func TestValuesComeBack(t *testing.T) {
	zone := time.FixedZone("", -(3*3600 + 30*60))
	equalTimes := func(a, b time.Time) bool {
		_, za := a.Zone()
		_, zb := b.Zone()
		return a.Equal(b) && za == zb
	}
	utc := time.Date(2026, 2, 28, 23, 59, 59, 999_999_999, time.UTC)
	t.Run("time of UTC", func(t *testing.T) { roundTrip(t, utc, same) })
	t.Run("time of a zone", func(t *testing.T) { roundTrip(t, utc.In(zone), equalTimes) })
	t.Run("time with a monotonic reading", func(t *testing.T) { roundTrip(t, time.Now(), equalTimes) })
	t.Run("zero time", func(t *testing.T) { roundTrip(t, time.Time{}, same) })
	t.Run("times in a struct", func(t *testing.T) { roundTrip(t, times{utc, math.MinInt64}, same) })
	t.Run("nil bytes", func(t *testing.T) { roundTrip(t, []byte(nil), same) })
	t.Run("no bytes", func(t *testing.T) { roundTrip(t, []byte{}, same) })
	t.Run("all bytes", func(t *testing.T) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		roundTrip(t, all, same)
	})
	t.Run("big fraction", func(t *testing.T) {
		rate, _ := new(big.Rat).SetString("123456789012345678901234567890/7")
		roundTrip(t, money{math.MaxInt64, "EUR", rate}, func(a, b money) bool { return a.Amount == b.Amount && a.Rate.Cmp(b.Rate) == 0 })
	})
	t.Run("nil fraction", func(t *testing.T) { roundTrip(t, money{math.MinInt64, "", nil}, same) })
	t.Run("big number", func(t *testing.T) {
		roundTrip(t, new(big.Int).Lsh(big.NewInt(3), 300), func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
	})
	t.Run("numbers that a float rounds", func(t *testing.T) {
		roundTrip(t, []int64{math.MaxInt64, math.MinInt64, 9007199254740993}, same)
		roundTrip(t, []uint64{math.MaxUint64, 18446744073709551614}, same)
	})
	t.Run("floats at their ends", func(t *testing.T) {
		roundTrip(t, []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, -1.0 / 3}, same)
		roundTrip(t, math.Copysign(0, -1), func(a, b float64) bool { return math.Signbit(a) == math.Signbit(b) })
	})
	t.Run("nil map", func(t *testing.T) { roundTrip(t, map[string]int(nil), same) })
	t.Run("empty map", func(t *testing.T) { roundTrip(t, map[string]int{}, same) })
	t.Run("map of numbers", func(t *testing.T) { roundTrip(t, map[int64]bool{math.MinInt64: true, 0: false}, same) })
	t.Run("nil slice", func(t *testing.T) { roundTrip(t, []string(nil), same) })
	t.Run("empty slice", func(t *testing.T) { roundTrip(t, []string{}, same) })
	t.Run("nil pointer", func(t *testing.T) { roundTrip(t, (*money)(nil), same) })
	t.Run("pointer to zero", func(t *testing.T) { roundTrip(t, &money{}, same) })
	t.Run("the text null", func(t *testing.T) { roundTrip(t, "null", same) })
	t.Run("no text", func(t *testing.T) { roundTrip(t, "", same) })
	t.Run("text with everything", func(t *testing.T) { roundTrip(t, "<&>\u2028\u2029\x00\x7f\ufffd\"\\ufffd😀é", same) })
	t.Run("nothing at all", func(t *testing.T) { roundTrip(t, struct{}{}, same) })
	t.Run("a tree", func(t *testing.T) {
		roundTrip(t, tree{1.5, []tree{{Children: []tree{}, Tags: map[string][]byte{"a": nil, "b": {}, "": {0}}}}, nil}, same)
	})
}

type (
	nested struct {
		List []struct{ Any any }
	}
	dashed struct {
		Kept int
		Lost int `json:"-"`
	}
	omitted struct {
		Tags []string `json:"tags,omitempty"`
	}
	Left   struct{ ID string }
	Right  struct{ ID string }
	nobody struct { // of two fields equally deep encoding/json takes neither
		Left
		Right
	}
	shadowed struct { // the upper field hides the lower
		Left
		ID string
	}
)

// TestRefusedTypes: what JSON would bring back as something else is refused before anything runs, by its path.
func TestRefusedTypes(t *testing.T) {
	refuse[any](t, "interface {}")
	refuse[error](t, "error")
	refuse[func()](t, "func()")
	refuse[chan int](t, "chan int")
	refuse[complex128](t, "complex128")
	refuse[uintptr](t, "uintptr")
	refuse[map[string]any](t, "map[string]interface {}[]")
	refuse[[]func()](t, "[]func()[]")
	refuse[nested](t, "nested.List[].Any")
	refuse[*nested](t, "nested[].List[].Any")
	refuse[bytes.Buffer](t, "bytes.Buffer.")
	refuse[dashed](t, "dashed.Lost")
	refuse[omitted](t, "omitted.Tags")
	// Keys that encoding/json cannot write: every answer would be marked as not kept.
	refuse[map[float64]int](t, "map[float64]int key")
	refuse[map[bool]int](t, "map[bool]int key")
	refuse[map[[2]int]int](t, "map[[2]int]int key")
	refuse[map[dashed]int](t, "map[retrysafe_test.dashed]int key")
	// Fields that encoding/json drops without a word.
	refuse[nobody](t, "nobody")
	refuse[shadowed](t, "shadowed")
	// A pointer to nil comes back as a nil pointer.
	refuse[**int](t, "**int")
	refuse[*[]int](t, "*[]int")
	refuse[*map[string]int](t, "*map[string]int")
}

func refuse[T any](t *testing.T, path string) {
	t.Helper()
	name := reflect.TypeFor[T]().String()
	if _, err := retrysafe.JSON[T](0); err == nil || !errors.Is(err, retrysafe.ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("JSON[%s]: %v, want it refused at %q", name, err, path)
		return
	}
	if _, err := retrysafe.JSON[T](7); err == nil {
		t.Errorf("JSON[%s] with a version: accepted, want it refused too", name)
	}
	l := newLab(t, nil)
	_, _, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (v T, err error) {
		t.Errorf("Do[%s] ran", name)
		return v, nil
	})
	wantErr(t, fmt.Sprintf("Do[%s]", name), err, retrysafe.ErrInvalid)
	if n := l.store.count(); n != 0 {
		t.Errorf("Do[%s]: %d store calls, want none", name, n)
	}
}

// TestValuesThatCannotBeKept is RC-13: the first caller gets them, retries are told, nothing runs again.
func TestValuesThatCannotBeKept(t *testing.T) {
	t.Run("not a number", func(t *testing.T) { notKept(t, math.NaN()) })
	t.Run("infinity", func(t *testing.T) { notKept(t, []float64{math.Inf(-1)}) })
	t.Run("text that is not UTF-8", func(t *testing.T) { notKept(t, "caf\xe9") })
	t.Run("key that is not UTF-8", func(t *testing.T) { notKept(t, map[string]int{"\xff": 1}) })
	t.Run("text that is not UTF-8 behind a backslash", func(t *testing.T) { notKept(t, `\\`+"\xff") })
	t.Run("a surrogate half", func(t *testing.T) { notKept(t, "\xed\xa0\x80") })
	t.Run("year that JSON cannot say", func(t *testing.T) { notKept(t, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) })
}

func notKept[T any](t *testing.T, v T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		got, r, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (T, error) { return v, nil })
		if err != nil || fmt.Sprint(got) != fmt.Sprint(v) || !r.NotKept {
			t.Errorf("first: %v, not kept %v, %v; want the value itself, not kept", got, r.NotKept, err)
		}
		got, r, err = retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (T, error) {
			t.Error("it ran again")
			return v, nil
		})
		wantErr(t, "retry", err, retrysafe.ErrAnswerNotKept)
		if !reflect.ValueOf(&got).Elem().IsZero() || r.Verdict != retrysafe.Replay {
			t.Errorf("retry: %v, %v; want no value, replay", got, r.Verdict)
		}
	})
}

// TestFailuresOfTypedOperations: an error, with and without a value, is what it is in Executor.Do.
func TestFailuresOfTypedOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		for _, tt := range []struct {
			name       string
			fail, next error
		}{{"unknown", errBlip, retrysafe.ErrUnknownOutcome}, {"nothing", retrysafe.ErrDidNothing, nil}} {
			key := retrysafe.Key{Name: tt.name}
			v, _, err := retrysafe.Do(t.Context(), l.Executor, key, payload, nil, func(context.Context) (int, error) { return 7, tt.fail })
			wantErr(t, tt.name, err, tt.fail)
			if v != 7 {
				t.Errorf("%s: value %d beside the error, want the operation's own, 7", tt.name, v)
			}
			v, _, err = retrysafe.Do(t.Context(), l.Executor, key, payload, nil, func(context.Context) (int, error) { return 8, nil })
			wantErr(t, tt.name+", again", err, tt.next)
			if want := map[bool]int{true: 8}[tt.next == nil]; v != want {
				t.Errorf("%s, again: value %d, want %d", tt.name, v, want)
			}
		}
	})
}
