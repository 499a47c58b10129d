package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What operators see: everything by the clock, swept or not.

// TestViewByTheClock: what is over is shown as over though no sweeper passed, and the sweeper changes nothing in it.
func TestViewByTheClock(t *testing.T) {
	tests := []struct {
		name   string
		before func(*testing.T, *lab)
		want   retrysafe.State // Absent: not found
		answer bool
		ends   time.Duration // from now; 0: never
	}{
		{"live", setLive, retrysafe.InFlight, false, hold.Lease},
		{"lapsed, hold", lapse(hold), retrysafe.Unknown, false, 0},
		{"lapsed, recover", lapse(recovered), retrysafe.Unknown, false, 0},
		{"lapsed, rerun", lapse(rerun), retrysafe.InFlight, false, -1},
		{"unknown", setUnknown, retrysafe.Unknown, false, 0},
		{"failed", setFailed, retrysafe.UnknownAnswered, true, hold.Retention},
		{"done", setDone, retrysafe.Completed, true, hold.Retention},
		{"retention over", setPast, retrysafe.Tombstone, false, hold.Remember - time.Hour},
		{"free", setFree, retrysafe.Free, false, hold.Retention + hold.Remember},
		{"memory over", func(t *testing.T, l *lab) { setDone(t, l); advance(hold.Retention + hold.Remember + time.Second) }, retrysafe.Absent, false, 0},
		{"free and forgotten", func(t *testing.T, l *lab) { setFree(t, l); advance(hold.Retention + hold.Remember + time.Second) }, retrysafe.Absent, false, 0},
		{"nothing", setNothing, retrysafe.Absent, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				tt.before(t, l)
				for _, swept := range []string{"before", "after"} {
					rec, err := l.Inspect(t.Context(), order.ID())
					if (tt.want == retrysafe.Absent) != errors.Is(err, retrysafe.ErrNotFound) || rec.State != tt.want || (rec.Answer != nil) != tt.answer {
						t.Errorf("%s a sweep: %v, answer %q, %v; want %v", swept, rec.State, rec.Answer, err, tt.want)
					}
					if left := time.Until(rec.Expires); tt.ends > 0 && !near(rec.Expires, time.Now().Add(tt.ends)) || tt.ends == 0 && !rec.Expires.IsZero() {
						t.Errorf("%s a sweep: ends in %v, want %v", swept, left, tt.ends)
					}
					l.wantListed(t, tt.want)
					if _, err := l.Sweep(t.Context()); err != nil {
						t.Fatalf("Sweep: %v", err)
					}
				}
			})
		})
	}
}

// wantListed expects order to be listed under its state alone.
func (l *lab) wantListed(t *testing.T, want retrysafe.State) {
	t.Helper()
	for s := retrysafe.Absent; s <= retrysafe.Tombstone; s++ {
		records, next, err := l.List(t.Context(), retrysafe.Filter{State: s})
		if err != nil || next != "" {
			t.Fatalf("List(%v): next %q, %v", s, next, err)
		}
		listed := want != retrysafe.Absent && (s == retrysafe.Absent || s == want)
		if listed != (len(records) == 1) || listed && records[0].State != want {
			t.Errorf("List(%v): %d records, want it listed: %v as %v", s, len(records), listed, want)
		}
	}
}

// TestRecord is all fields of one record.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		claimed := time.Now()
		r := l.mustDo(t, slowly(time.Minute))
		ended := time.Now()
		l.mustDo(t, never(t))
		rec, err := l.Inspect(t.Context(), order.ID())
		if err != nil {
			t.Fatalf("Inspect: %v", err)
		}
		if rec.ID != order.ID() || rec.Scope != "tenant-7" || rec.Key != "order-1001" || rec.Epoch != r.Epoch || rec.Policy != hold {
			t.Errorf("record is %+v", rec)
		}
		if !near(rec.Started, claimed) || !near(rec.Finished, ended) || rec.Attempts != 1 || rec.Replays != 1 {
			t.Errorf("from %v to %v, %d attempts, %d replays; want %v, %v, 1, 1", rec.Started, rec.Finished, rec.Attempts, rec.Replays, claimed, ended)
		}
	})
}

// TestReasonsAreForPeople and never hold what an error of the operation says: that may be anything.
func TestReasonsAreForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		reasons := map[string]func(){
			"lease over":                      func() { lapse(hold)(t, l) },
			"the operation returned an error": func() { l.Do(t.Context(), order, payload, failing("card 4111 1111 1111 1111")) },
			"the operation did not return":    func() { panicOf(func() { l.Do(t.Context(), order, payload, panicking) }) },
		}
		for want, do := range reasons {
			do()
			rec, err := l.Inspect(t.Context(), order.ID())
			if err != nil || rec.State != retrysafe.Unknown || rec.Reason != want {
				t.Errorf("record is %v for %q, %v; want unknown for %q", rec.State, rec.Reason, err, want)
			}
			if _, err := l.Forget(t.Context(), order.ID(), "ann", "next", false); err != nil {
				t.Fatalf("Forget: %v", err)
			}
			if rec, _ := l.Inspect(t.Context(), order.ID()); rec.Reason != "" {
				t.Errorf("a free key still has the reason %q", rec.Reason)
			}
		}
	})
}

func failing(text string) op {
	return func(context.Context) ([]byte, error) { return nil, errors.New(text) }
}

func panicking(context.Context) ([]byte, error) { panic("out of paper") }

// TestListPages: each record once, whatever the limit, by scope and by prefix.
func TestListPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		for i := range 250 {
			key := retrysafe.Key{Scope: fmt.Sprint("tenant-", i%2), Name: fmt.Sprintf("order-%03d", i)}
			if _, err := l.Do(t.Context(), key, payload, paid); err != nil {
				t.Fatalf("Do(%v): %v", key, err)
			}
		}
		tests := []struct {
			name   string
			filter retrysafe.Filter
			want   int
		}{
			{"all", retrysafe.Filter{}, 250},
			{"in sevens", retrysafe.Filter{Limit: 7}, 250},
			{"all at once", retrysafe.Filter{Limit: 1 << 30}, 250},
			{"one scope", retrysafe.Filter{Scope: "tenant-1", Limit: 10}, 125},
			{"one prefix", retrysafe.Filter{Prefix: "order-1"}, 100},
			{"scope and prefix", retrysafe.Filter{Scope: "tenant-0", Prefix: "order-00"}, 5},
			{"state", retrysafe.Filter{State: retrysafe.Completed, Limit: 99}, 250},
			{"state that none has", retrysafe.Filter{State: retrysafe.Unknown}, 0},
			{"scope that is none", retrysafe.Filter{Scope: "tenant-"}, 0},
		}
		for _, tt := range tests {
			var keys []string
			for pages := 0; ; pages++ {
				records, next, err := l.List(t.Context(), tt.filter)
				if err != nil || pages > 500 || tt.filter.Limit > 0 && len(records) > tt.filter.Limit {
					t.Fatalf("%s: page %d has %d records, %v", tt.name, pages, len(records), err)
				}
				for _, r := range records {
					keys = append(keys, r.Key)
				}
				if tt.filter.Cursor = next; next == "" {
					break
				}
			}
			slices.Sort(keys)
			if all := len(keys); all != tt.want || len(slices.Compact(keys)) != all {
				t.Errorf("%s: %d records, %d different, want %d", tt.name, all, len(slices.Compact(keys)), tt.want)
			}
		}
	})
}

func TestStoreThatCannotList(t *testing.T) {
	s := &hooked{Store: memstore.New(nil)}
	l := labBehind(t, s, silent{s}, nil)
	_, _, err := l.List(t.Context(), retrysafe.Filter{})
	wantErr(t, "List", err, errors.ErrUnsupported)
	if n, err := l.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep: %d, %v, want nothing", n, err)
	}
	l.mustDo(t, paid)
	if _, err := l.Inspect(t.Context(), order.ID()); err != nil {
		t.Errorf("Inspect: %v", err)
	}
}

func TestReadsWhileTheStoreIsDown(t *testing.T) {
	l := newLab(t, nil)
	l.store.reads = func(call) error { return errBlip }
	_, err := l.Inspect(t.Context(), order.ID())
	wantErr(t, "Inspect", err, retrysafe.ErrStore)
	_, _, err = l.List(t.Context(), retrysafe.Filter{})
	wantErr(t, "List", err, retrysafe.ErrStore)
	_, err = l.Sweep(t.Context())
	wantErr(t, "Sweep", err, retrysafe.ErrStore)
	_, err = l.Forget(t.Context(), order.ID(), "ann", "stuck", true)
	wantErr(t, "Forget", err, retrysafe.ErrStore)
}
