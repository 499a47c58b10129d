package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Pages of what is due are read class by class.

// TestPagesThatEndWithAClass: a page that is full where a class ends is followed by one that begins with the next.
func TestPagesThatEndWithAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openOn(t, newDisk(), nil)
		states := []retrysafe.State{retrysafe.InFlight, retrysafe.Unknown, retrysafe.Completed, retrysafe.Reserved}
		want := map[retrysafe.ID]bool{}
		for i := range 12 {
			e := numbered(idOf(i), 1, states[i/3])
			e.Due = time.Minute
			want[mustCreate(t, s, e).ID] = true
		}
		<-time.After(time.Hour)
		for limit := 1; limit <= 13; limit++ {
			got, err := listAll(t.Context(), s, retrysafe.Query{Due: true, Limit: limit})
			if err != nil || len(got) != len(want) {
				t.Errorf("List of what is due, %d a page: %d entries, %v; want %d", limit, len(got), err, len(want))
			}
			for _, e := range got {
				if !want[e.ID] {
					t.Errorf("List of what is due, %d a page: a stranger", limit)
				}
			}
		}
	})
}

// TestCursorsOfOthers are refused.
func TestCursorsOfOthers(t *testing.T) {
	s := openOn(t, newDisk(), nil)
	for i := range 5 {
		mustCreate(t, s, numbered(idOf(i), 1, retrysafe.Completed))
	}
	page, err := s.List(t.Context(), retrysafe.Query{Limit: 2})
	if err != nil || page.Next == "" {
		t.Fatalf("List: next %q, %v", page.Next, err)
	}
	for _, cursor := range []string{"x", "00", page.Next[2:], page.Next + "00", "64" + page.Next[2:], "E" + page.Next[1:]} {
		for _, due := range []bool{false, true} {
			if _, err := s.List(t.Context(), retrysafe.Query{Cursor: cursor, Due: due}); !errors.Is(err, retrysafe.ErrInvalid) {
				t.Errorf("List with cursor %q, due %v: %v; want ErrInvalid", cursor, due, err)
			}
		}
	}
	if _, err := s.List(t.Context(), retrysafe.Query{Cursor: page.Next, Due: true}); !errors.Is(err, retrysafe.ErrInvalid) {
		t.Errorf("List of what is due with a cursor of another list: %v; want ErrInvalid", err)
	}
}

// TestManyInFewStates: more entries in flight than a page may read are listed once each, in bounded memory.
func TestManyInFewStates(t *testing.T) {
	const many = 4*pageRows + 5000
	s := openOn(t, newDisk(), nil)
	fly(t, s, many)
	q := retrysafe.Query{States: []retrysafe.State{retrysafe.InFlight, retrysafe.Unknown}, Limit: pageRows}
	seen := map[retrysafe.ID]bool{}
	for {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, e := range page.Entries {
			if seen[e.ID] {
				t.Fatalf("%.12s is listed twice", e.ID)
			}
			seen[e.ID] = true
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(seen) != many {
		t.Errorf("%d entries listed, want %d", len(seen), many)
	}
}

// TestListEndsWithItsContext also while it reads on and on for what few entries have.
func TestListEndsWithItsContext(t *testing.T) {
	d := newDisk()
	fly(t, openOn(t, d, nil), 2000)
	s := openOn(t, d.killed(), nil) // all of them are due
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, q := range []retrysafe.Query{{Prefix: "none"}, {Due: true}, {States: []retrysafe.State{retrysafe.InFlight}}} {
		q.Limit = 2000
		if _, err := s.List(ctx, q); !errors.Is(err, context.Canceled) {
			t.Errorf("List of %s: %v, want Canceled", fmt.Sprintf("%+v", q), err)
		}
	}
}
