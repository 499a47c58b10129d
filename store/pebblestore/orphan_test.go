package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What was in flight when the process ended has no owner any more, and everybody is told so at once.

// orphanOf is what stands under id after a crash, everywhere where it is read: it must be the same, and an orphan.
func orphanOf(t *testing.T, s *Store, was retrysafe.Entry) {
	t.Helper()
	was.Orphan = true
	got := wantStands(t, s, was)
	if !got.Stamp.Equal(was.Stamp) {
		t.Errorf("the stamp is %v, want %v as before", got.Stamp, was.Stamp)
	}
	for name, q := range map[string]retrysafe.Query{
		"all":        {},
		"in flight":  {States: []retrysafe.State{retrysafe.InFlight}},
		"due":        {Due: true},
		"due, state": {Due: true, States: []retrysafe.State{retrysafe.InFlight}},
	} {
		all, err := listAll(t.Context(), s, q)
		n := 0
		for _, e := range all {
			if e.ID == was.ID {
				n++
				if diff := differs(e, was); diff != "" || !e.Stamp.Equal(was.Stamp) {
					t.Errorf("List of %s: stamp %v (-want +got):\n%s", name, e.Stamp, diff)
				}
			}
		}
		if err != nil || n != 1 {
			t.Errorf("List of %s: the orphan is listed %d times, %v", name, n, err)
		}
	}
	if rep, err := s.Create(t.Context(), numbered(was.ID, 99, retrysafe.InFlight)); err != nil || rep.OK || !rep.Entry.Orphan {
		t.Errorf("another's Create: OK %v, orphan %v, %v", rep.OK, rep.Entry.Orphan, err)
	}
	if rep, err := s.Create(t.Context(), was); err != nil || !rep.OK || !rep.Entry.Orphan {
		t.Errorf("the same Create sent again: OK %v, orphan %v, %v", rep.OK, rep.Entry.Orphan, err)
	}
}

// TestOrphans is the life of one: made by a crash, kept by the next, ended by a swap.
func TestOrphans(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	flying := mustCreate(t, s, numbered(idOf(1), 1, retrysafe.InFlight))
	done := mustSwap(t, s, mustCreate(t, s, numbered(idOf(2), 1, retrysafe.InFlight)).Rev, numbered(idOf(2), 2, retrysafe.Completed))
	if got, _ := stands(t, s, flying.ID); got.Orphan {
		t.Errorf("an orphan while its owner lives")
	}
	for crash := range 3 {
		d = d.cut(0, 0)
		wantSound(t, d)
		s = openOn(t, d, nil)
		t.Logf("after crash %d", crash+1)
		orphanOf(t, s, flying)
		wantStands(t, s, done)
		if due, err := listAll(t.Context(), s, retrysafe.Query{Due: true}); err != nil || len(due) != 1 {
			t.Errorf("%d entries are due, %v; want the orphan alone", len(due), err)
		}
	}
	taken := mustSwap(t, s, flying.Rev, numbered(flying.ID, 3, retrysafe.InFlight))
	if got, _ := stands(t, s, taken.ID); got.Orphan || taken.Orphan {
		t.Errorf("an orphan that was taken over is one still")
	}
	if due, err := listAll(t.Context(), s, retrysafe.Query{Due: true}); err != nil || len(due) != 0 {
		t.Errorf("%d entries are due, %v; want none", len(due), err)
	}
	if rep, err := s.Delete(t.Context(), taken.ID, taken.Rev); err != nil || !rep.OK {
		t.Errorf("Delete: OK %v, %v", rep.OK, err)
	}
	s.Close()
	if r := wantSound(t, d); r.Entries != 1 {
		t.Errorf("%d entries, want 1", r.Entries)
	}
}

// TestOrphanOfAClosedStore is one as well: whoever closed it did not end what was under way.
func TestOrphanOfAClosedStore(t *testing.T) {
	d := newDisk()
	s := openOn(t, d, nil)
	flying := mustCreate(t, s, numbered(idOf(1), 1, retrysafe.InFlight))
	s.Close()
	orphanOf(t, openOn(t, d, nil), flying)
}

// TestRetryAfterACrash is what orphans are for: a retry is not told "in flight" for the ten minutes of a lease.
func TestRetryAfterACrash(t *testing.T) {
	key, fp := retrysafe.Key{Scope: "tenant", Name: "order-1"}, retrysafe.FingerprintOf([]byte("42 EUR"))
	for _, tt := range []struct {
		policy retrysafe.LeaseEnd
		err    error
		runs   int
	}{{retrysafe.Hold, retrysafe.ErrUnknownOutcome, 0}, {retrysafe.Rerun, nil, 1}} {
		t.Run(tt.policy.String(), func(t *testing.T) {
			d := newDisk()
			o := &retrysafe.Options{Lease: 10 * time.Minute, OnLeaseEnd: tt.policy}
			before, err := retrysafe.New(openOn(t, d, nil), o)
			if err != nil {
				t.Fatal(err)
			}
			var left *disk
			if _, err := before.Do(t.Context(), key, fp, func(context.Context) ([]byte, error) {
				left = d.cut(0, 0)
				return nil, nil
			}); err != nil {
				t.Fatalf("Do: %v", err)
			}
			after, err := retrysafe.New(openOn(t, left, nil), o)
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			for range 2 {
				r, err := after.Do(t.Context(), key, fp, func(context.Context) ([]byte, error) { runs++; return []byte("done"), nil })
				if !errors.Is(err, tt.err) || runs != tt.runs {
					t.Errorf("Do after a crash: %v, %v, and it ran %d times; want %v and %d", r.Verdict, err, runs, tt.err, tt.runs)
				}
			}
		})
	}
}

// TestManyOrphans opens a folder that 100,000 operations were in flight in.
func TestManyOrphans(t *testing.T) {
	many := 100_000
	if underRace() {
		many = 10_000 // each memory access costs ten times as much
	}
	d := newDisk()
	s := openOn(t, d, nil)
	fly(t, s, many)
	d = d.cut(0, 0)
	began := time.Now()
	s = openOn(t, d, nil)
	took := time.Since(began)
	n := 0
	for q := (retrysafe.Query{Due: true, Limit: 10_000}); ; {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, e := range page.Entries {
			if !e.Orphan {
				t.Fatalf("an entry of before is no orphan")
			}
			n++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	t.Logf("%d orphans found, opened in %v", n, took)
	if n != many {
		t.Errorf("%d orphans are due, want %d", n, many)
	}
	s.Close()
	wantSound(t, d)
}

// underRace tells whether the race detector looks on.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// fly puts n entries in flight into the folder, as Create does but with one sync for all.
func fly(t *testing.T, s *Store, n int) {
	t.Helper()
	b := s.db.NewBatch()
	defer b.Close()
	for i := range n {
		e := retrysafe.Entry{State: retrysafe.InFlight, Rev: retrysafe.NewRev(), Due: time.Hour, Display: fmt.Sprint(i), Stamp: s.clock.stamp()}
		binary.BigEndian.PutUint32(e.ID[:], uint32(i)*2654435761)
		binary.BigEndian.PutUint32(e.ID[4:], uint32(i))
		r := row{Entry: sealed(e, nil), boot: s.boot}
		(&write{key: entryKey(e.ID), value: r.encode(), add: r.indexKey(s.boot)}).into(b)
	}
	if err := s.commitBatch(b); err != nil {
		t.Fatalf("put %d entries in flight: %v", n, err)
	}
}
