package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrysafe/retrysafe"
)

// sealed is e with a Body as the core writes it, which Entry.Check believes, around an answer.
func sealed(e retrysafe.Entry, answer []byte) retrysafe.Entry {
	payload := []byte{1, 0}                                        // there is an answer; hold
	payload = append(payload, 0, 0, 0)                             // lease, retention, memory
	payload = append(payload, make([]byte, 8+16)...)               // key, nonce
	payload = append(append(payload, 0, 0, 1, 0, 0, 0), answer...) // times, attempts, replays, reason, history

	fields := append(slices.Clone(e.ID[:]), byte(e.State))
	fields = binary.AppendVarint(fields, e.Epoch)
	fields = append(fields, e.Fingerprint[:]...)
	fields = binary.AppendVarint(fields, e.Due.Microseconds())
	fields = binary.AppendVarint(fields, e.TTL.Microseconds())
	sum := crc32.Update(crc32.Checksum(fields, castagnoli), castagnoli, payload)
	e.Body = append(binary.BigEndian.AppendUint32([]byte{1}, sum), payload...)
	return e
}

// numbered is the nth write of an ID: nobody else writes the same under any ID.
func numbered(id retrysafe.ID, n int64, state retrysafe.State) retrysafe.Entry {
	r := rand.New(rand.NewPCG(binary.BigEndian.Uint64(id[:]), uint64(n)))
	answer := make([]byte, r.IntN(600))
	for i := range answer {
		answer[i] = byte(r.Uint32())
	}
	e := retrysafe.Entry{ID: id, State: state, Epoch: n, Scope: "tenant", Display: fmt.Sprint("order-", n),
		Due: time.Duration(1+n%7) * time.Hour, TTL: 48 * time.Hour}
	binary.BigEndian.PutUint64(e.Rev[:], binary.BigEndian.Uint64(id[:]))
	binary.BigEndian.PutUint64(e.Rev[8:], uint64(n))
	binary.BigEndian.PutUint64(e.Fingerprint[:], r.Uint64())
	return sealed(e, answer)
}

// idOf is an ID of its own for every n, spread over the stripes.
func idOf(n int) (id retrysafe.ID) {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], r.Uint64())
	}
	return id
}

// differs says in which fields got is not what was written as want. The stamp is the store's.
func differs(got, want retrysafe.Entry) string {
	got.Stamp, want.Stamp = time.Time{}, time.Time{}
	if len(got.Body) == 0 && len(want.Body) == 0 {
		got.Body, want.Body = nil, nil
	}
	if reflect.DeepEqual(got, want) { // cmp is slow, and needed for its words only
		return ""
	}
	return cmp.Diff(want, got)
}

func mustCreate(t *testing.T, s *Store, e retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	rep, err := s.Create(t.Context(), e)
	if err != nil || !rep.OK {
		t.Fatalf("Create: OK %v, %v", rep.OK, err)
	}
	return rep.Entry
}

func mustSwap(t *testing.T, s *Store, old retrysafe.Rev, e retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	rep, err := s.Swap(t.Context(), old, e)
	if err != nil || !rep.OK {
		t.Fatalf("Swap: OK %v, %v", rep.OK, err)
	}
	return rep.Entry
}

// stands is what stands under id.
func stands(t *testing.T, s *Store, id retrysafe.ID) (e retrysafe.Entry, found bool) {
	t.Helper()
	entries, _, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if len(entries) == 0 {
		return e, false
	}
	return entries[0], true
}

// wantStands checks that e stands, but for its stamp.
func wantStands(t *testing.T, s *Store, e retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	got, found := stands(t, s, e.ID)
	if !found {
		t.Fatalf("nothing stands under %.12s", e.ID)
	}
	if diff := differs(got, e); diff != "" {
		t.Fatalf("what stands under %.12s is not what was written (-want +got):\n%s", e.ID, diff)
	}
	return got
}

// listAll is every entry that q selects, page by page.
func listAll(ctx context.Context, s *Store, q retrysafe.Query) (all []retrysafe.Entry, err error) {
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// wantSound checks that Verify finds nothing wrong with a folder that is not in use, and returns its report.
func wantSound(t *testing.T, d *disk) Report {
	t.Helper()
	r, err := verify(t.Context(), "keys", d)
	if err != nil || r.Wrong != 0 {
		t.Fatalf("Verify: %v, problems %q", err, r.Problems)
	}
	return r
}

// within calls f, which must return before patience is over.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: it has not returned after %v", what, patience)
	}
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// until waits until ok says so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !ok(); <-tick.C {
		if time.Since(began) > patience {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// TestSealedEntriesAreTheCores holds the helper above to the core's word, which tells them from any other.
func TestSealedEntriesAreTheCores(t *testing.T) {
	e := numbered(idOf(1), 3, retrysafe.Completed)
	if err := e.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
	e.Body = bytes.Clone(e.Body)
	e.Body[len(e.Body)-1] ^= 1
	if err := e.Check(); err == nil {
		t.Errorf("Check of a damaged body %s: want an error", hex.EncodeToString(e.Body[:8]))
	}
}
