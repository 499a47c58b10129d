package retrysafe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Entries that cannot be read: of another version, damaged, or overwritten with junk (rule 6, SO-11). They are never
// taken for absent.

// damages is what may befall an entry.
var damages = map[string]func(retrysafe.Entry) retrysafe.Entry{
	"later version":     func(e retrysafe.Entry) retrysafe.Entry { e.Body[0]++; return e },
	"version 0":         func(e retrysafe.Entry) retrysafe.Entry { e.Body[0] = 0; return e },
	"no body":           func(e retrysafe.Entry) retrysafe.Entry { e.Body = nil; return e },
	"junk":              func(e retrysafe.Entry) retrysafe.Entry { e.Body = []byte("junk that somebody wrote"); return e },
	"body cut":          func(e retrysafe.Entry) retrysafe.Entry { e.Body = e.Body[:len(e.Body)-1]; return e },
	"body longer":       func(e retrysafe.Entry) retrysafe.Entry { e.Body = append(e.Body, 0); return e },
	"a bit of the body": func(e retrysafe.Entry) retrysafe.Entry { e.Body[len(e.Body)/2] ^= 1; return e },
	"checksum":          func(e retrysafe.Entry) retrysafe.Entry { e.Body[1] ^= 1; return e },
	"state":             func(e retrysafe.Entry) retrysafe.Entry { e.State = retrysafe.Free; return e },
	"state of nothing":  func(e retrysafe.Entry) retrysafe.Entry { e.State = 200; return e },
	"epoch":             func(e retrysafe.Entry) retrysafe.Entry { e.Epoch = 7; return e },
	"fingerprint":       func(e retrysafe.Entry) retrysafe.Entry { e.Fingerprint[0] ^= 1; return e },
	"due":               func(e retrysafe.Entry) retrysafe.Entry { e.Due += time.Hour; return e },
	"memory":            func(e retrysafe.Entry) retrysafe.Entry { e.TTL = time.Microsecond; return e },
	"another's entry":   func(e retrysafe.Entry) retrysafe.Entry { e.Body = append([]byte(nil), foreign.Body...); return e },
}

// foreign is a sound entry of another key.
var foreign = retrysafe.Sound(retrysafe.Entry{ID: retrysafe.Key{Name: "another"}.ID(), State: retrysafe.Completed})

// damage puts what stands under order back with a fault.
func (l *lab) damage(t *testing.T, fault func(retrysafe.Entry) retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	e, found := l.fetch(t, order)
	if !found {
		t.Fatal("nothing stands")
	}
	old := e.Rev
	e.Body = append([]byte(nil), e.Body...)
	e = fault(e)
	e.Rev = retrysafe.NewRev()
	rep, err := l.store.Store.Swap(t.Context(), old, e)
	if err != nil || !rep.OK {
		t.Fatalf("Swap: %v, %v", rep.OK, err)
	}
	return rep.Entry
}

// TestUnreadableEntry fails closed everywhere, and only Forget with force frees it.
func TestUnreadableEntry(t *testing.T) {
	for name, fault := range damages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{Wait: time.Minute})
				l.mustDo(t, paid)
				bad := l.damage(t, fault)
				advance(40 * 24 * time.Hour) // beyond every time there is

				_, err := l.Do(t.Context(), order, payload, never(t))
				wantErr(t, "Do", err, retrysafe.ErrUnreadable)
				_, err = l.Do(t.Context(), order, other, never(t))
				wantErr(t, "Do with another payload", err, retrysafe.ErrUnreadable)
				rec, err := l.Inspect(t.Context(), order.ID())
				wantErr(t, "Inspect", err, retrysafe.ErrUnreadable)
				if rec.ID != order.ID() || rec.Key != order.Name || rec.Scope != order.Scope {
					t.Errorf("Inspect: %+v, want what can be read", rec)
				}
				_, err = l.Resolve(t.Context(), order.ID(), withForce(happened))
				wantErr(t, "Resolve with force", err, retrysafe.ErrUnreadable)
				_, err = l.Forget(t.Context(), order.ID(), "ann", "damaged", false)
				wantErr(t, "Forget without force", err, retrysafe.ErrUnreadable)
				if n, err := l.Sweep(t.Context()); n != 0 || err != nil {
					t.Errorf("Sweep: %d, %v, want it left alone", n, err)
				}
				l.CountReplay(order.ID())
				l.FlushReplays(t.Context())
				if e, _ := l.fetch(t, order); e.Rev != bad.Rev {
					t.Error("an entry that cannot be read was written over")
				}
				if records, _, err := l.List(t.Context(), retrysafe.Filter{}); bad.State <= retrysafe.Tombstone && (err != nil || len(records) != 1) {
					t.Errorf("List: %d records, %v, want it listed", len(records), err)
				}

				if _, err := l.Forget(t.Context(), order.ID(), "ann", "damaged", true); err != nil {
					t.Fatalf("Forget with force: %v", err)
				}
				if r := l.mustDo(t, paid); r.Verdict != retrysafe.Won {
					t.Errorf("Do of the freed key: %v, want won", r.Verdict)
				}
				if rec, _ := l.Inspect(t.Context(), order.ID()); len(rec.History) != 1 || rec.History[0].By != "ann" {
					t.Errorf("history is %+v, want that it was forgotten", rec.History)
				}
			})
		})
	}
}

// TestForgottenUnreadableEntry is remembered like any other act: the sweeper does not drop its trail at once.
func TestForgottenUnreadableEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustDo(t, paid)
		l.damage(t, damages["junk"])
		if _, err := l.Forget(t.Context(), order.ID(), "ann", "damaged", true); err != nil {
			t.Fatalf("Forget: %v", err)
		}
		advance(time.Hour)
		l.Sweep(t.Context())
		rec, err := l.Inspect(t.Context(), order.ID())
		if err != nil || len(rec.History) != 1 {
			t.Errorf("an hour later: %d acts, %v, want the trail of who freed it", len(rec.History), err)
		}
	})
}

// TestEntryDamagedUnderway: the owner's entry is damaged while it runs. It ran, and says that nobody can record it.
func TestEntryDamagedUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		r, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) {
			l.damage(t, damages["junk"])
			return paid(ctx)
		})
		wantErr(t, "Do", err, retrysafe.ErrUnreadable)
		if string(r.Answer) != "paid" {
			t.Errorf("answer %q, want the operation's own", r.Answer)
		}
	})
}

// TestDamagedKeyring stops everybody: its keys would make every known key another operation's.
func TestDamagedKeyring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.mustDo(t, paid)
		entries, _, err := l.store.Store.Get(t.Context(), retrysafe.KeyringID)
		if err != nil || len(entries) != 1 {
			t.Fatalf("Get: %d entries, %v", len(entries), err)
		}
		bad := entries[0]
		bad.Rev, bad.Body = retrysafe.NewRev(), append([]byte(nil), bad.Body...)
		bad.Body[len(bad.Body)-1] ^= 1
		if _, err := l.store.Store.Swap(t.Context(), entries[0].Rev, bad); err != nil {
			t.Fatalf("Swap: %v", err)
		}
		_, err = l.second(t).Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do of another process", err, retrysafe.ErrUnreadable)
	})
}
