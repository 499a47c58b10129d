package retrysafe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What a store of one process leaves behind when that process ends: claims whose owner is gone for certain.

// An ended store is what the next process finds of a store: what was in flight is orphaned, until it is written again.
type ended struct {
	*hooked
	orphans map[retrysafe.Rev]bool
}

// endProcess has the owner of the key die, and returns a lab of the next process.
func endProcess(t *testing.T, l *lab, key retrysafe.Key, o *retrysafe.Options) *lab {
	t.Helper()
	entries, _, err := l.store.Get(t.Context(), key.ID())
	if err != nil || len(entries) != 1 || entries[0].State != retrysafe.InFlight {
		t.Fatalf("what stands when the process ends: %v, %v, want an entry in flight", entries, err)
	}
	return labBehind(t, l.store, &ended{l.store, map[retrysafe.Rev]bool{entries[0].Rev: true}}, o)
}

func (s *ended) seen(e retrysafe.Entry) retrysafe.Entry {
	e.Orphan = e.State == retrysafe.InFlight && s.orphans[e.Rev]
	return e
}

func (s *ended) reply(r retrysafe.Reply, err error) (retrysafe.Reply, error) {
	r.Entry = s.seen(r.Entry)
	return r, err
}

func (s *ended) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.reply(s.hooked.Create(ctx, e))
}

func (s *ended) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.reply(s.hooked.Swap(ctx, old, e))
}

func (s *ended) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	entries, now, err := s.hooked.Get(ctx, ids...)
	for i := range entries {
		entries[i] = s.seen(entries[i])
	}
	return entries, now, err
}

func (s *ended) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	q.Due = false
	page, err := s.hooked.List(ctx, q)
	for i := range page.Entries {
		page.Entries[i] = s.seen(page.Entries[i])
	}
	return page, err
}

// TestOrphan is CR-1 for a store in the process: nobody waits for the lease of an owner who is gone for certain. The
// policy stored with the claim answers at once.
func TestOrphan(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  retrysafe.Policy
		o       retrysafe.Options
		verdict retrysafe.Verdict
		err     error
		after   retrysafe.State
	}{
		{"hold", hold, retrysafe.Options{}, retrysafe.OutcomeUnknown, retrysafe.ErrUnknownOutcome, retrysafe.Unknown},
		{"rerun", rerun, retrysafe.Options{}, retrysafe.TookOver, nil, retrysafe.Completed},
		{"recover", recovered, recovering(retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid before")}, nil), retrysafe.Replay, nil, retrysafe.Completed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := newLab(t, &tt.o)
				before.mustClaim(t, tt.policy, retrysafe.Won)
				l := endProcess(t, before, order, &tt.o)
				r, err := l.Do(t.Context(), order, payload, paid)
				wantErr(t, "Do in the next process", err, tt.err)
				if r.Verdict != tt.verdict {
					t.Errorf("Do in the next process: verdict %v, want %v", r.Verdict, tt.verdict)
				}
				rec, err := l.Inspect(t.Context(), order.ID())
				if err != nil || rec.State != tt.after {
					t.Errorf("Inspect: state %v, %v, want %v", rec.State, err, tt.after)
				}
			})
		})
	}
}

// An operator sees an orphan as unknown, may decide over it without force, and the sweeper holds it.
func TestOrphanIsShownAsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newLab(t, nil)
		before.mustClaim(t, hold, retrysafe.Won)
		l := endProcess(t, before, order, nil)
		rec, err := l.Inspect(t.Context(), order.ID())
		if err != nil || rec.State != retrysafe.Unknown || !rec.Expires.IsZero() {
			t.Errorf("Inspect: state %v, expires %v, %v, want unknown, never", rec.State, rec.Expires, err)
		}
		if n, err := l.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("Sweep: %d entries, %v, want 1", n, err)
		}
		rec, err = l.Resolve(t.Context(), order.ID(), retrysafe.Resolution{By: "ann", Why: "looked it up"})
		if err != nil || rec.State != retrysafe.Free {
			t.Errorf("Resolve: state %v, %v, want free", rec.State, err)
		}
	})
}

// An entry that Rerun allows to be taken over says that its lease has ended.
func TestOrphanExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newLab(t, nil)
		before.mustClaim(t, rerun, retrysafe.Won)
		l := endProcess(t, before, order, nil)
		if rec, err := l.Inspect(t.Context(), order.ID()); err != nil || rec.State != retrysafe.InFlight || rec.Expires.After(time.Now()) {
			t.Errorf("Inspect: state %v, expires %v, %v, want in flight, over", rec.State, rec.Expires, err)
		}
	})
}

// A takeover of an orphan that never got its answer is taken back: what is put in its place is over as before, not
// owned for another lease.
func TestOrphanPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newLab(t, nil)
		before.mustClaim(t, rerun, retrysafe.Won)
		l := endProcess(t, before, order, nil)
		var lost atomic.Bool
		lost.Store(true)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			rep, err := do()
			if c.verb == "swap" && lost.Load() {
				return retrysafe.Reply{}, errBlip
			}
			return rep, err
		})
		_, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do whose takeover is not answered", err, retrysafe.ErrStore)
		lost.Store(false)
		synctest.Wait()
		advance(time.Second)
		r, err := l.Do(t.Context(), order, payload, paid)
		if err != nil || r.Verdict != retrysafe.TookOver {
			t.Errorf("Do after the take-back: verdict %v, %v, want took_over", r.Verdict, err)
		}
	})
}

var _ retrysafe.Inspector = (*ended)(nil)
