package retrysafe_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// The sweeper and the counts of replays: hygiene, on which no answer hangs.

// TestSweep does what times ask for, once, and touches nothing else.
func TestSweep(t *testing.T) {
	tests := []struct {
		name   string
		before func(*testing.T, *lab)
		want   retrysafe.State // that stands in the store
		writes bool
	}{
		{"live", setLive, retrysafe.InFlight, false},
		{"lapsed, hold", lapse(hold), retrysafe.Unknown, true},
		{"lapsed, rerun", lapse(rerun), retrysafe.InFlight, false},
		{"lapsed, recover", lapse(recovered), retrysafe.InFlight, false},
		{"unknown, for ever", func(t *testing.T, l *lab) { setUnknown(t, l); advance(100 * 365 * 24 * time.Hour) }, retrysafe.Unknown, false},
		{"done", setDone, retrysafe.Completed, false},
		{"failed", setFailed, retrysafe.UnknownAnswered, false},
		{"done, retention over", setPast, retrysafe.Tombstone, true},
		{"failed, retention over", func(t *testing.T, l *lab) { setFailed(t, l); advance(25 * time.Hour) }, retrysafe.Tombstone, true},
		{"tombstone", setTomb, retrysafe.Tombstone, false},
		{"free", setFree, retrysafe.Free, false},
		{"done, memory over", func(t *testing.T, l *lab) { setDone(t, l); advance(800 * time.Hour) }, retrysafe.Absent, true},
		{"tombstone, memory over", func(t *testing.T, l *lab) { setTomb(t, l); advance(800 * time.Hour) }, retrysafe.Absent, true},
		{"free, memory over", func(t *testing.T, l *lab) { setFree(t, l); advance(800 * time.Hour) }, retrysafe.Absent, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				tt.before(t, l)
				before, _ := l.fetch(t, order)
				for pass, want := range []bool{tt.writes, false} {
					n, err := l.Sweep(t.Context())
					if err != nil || (n == 1) != want || n > 1 {
						t.Errorf("pass %d changed %d, %v; want it to write: %v", pass+1, n, err, want)
					}
				}
				after, _ := l.fetch(t, order)
				if after.State != tt.want || (after.Rev != before.Rev) != tt.writes {
					t.Errorf("%v stands, want %v", after.State, tt.want)
				}
				if after.State == retrysafe.Tombstone && (bytes.HasSuffix(after.Body, completed.Answer) || bytes.HasSuffix(after.Body, failedOnce.Answer)) {
					t.Error("the tombstone still holds its answer")
				}
				if tt.want != retrysafe.Absent && tt.writes && epochOf(after) != epochOf(before) {
					t.Errorf("epoch is %d, want %d as before", epochOf(after), epochOf(before))
				}
			})
		})
	}
}

func epochOf(e retrysafe.Entry) int64 {
	if e.Epoch == 0 {
		return e.Stamp.UnixMicro()
	}
	return e.Epoch
}

// TestSweepInBatches is TT-4: however much is due, it is read in parts of bounded size.
func TestSweepInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: time.Hour, Remember: retrysafe.Off})
		const entries = 1000
		l.expire(t, entries)
		if n, err := l.Sweep(t.Context()); n != entries || err != nil {
			t.Errorf("Sweep: %d, %v, want %d", n, err, entries)
		}
		if lists := l.store.count("list"); lists < entries/256 || lists > entries/256+65 {
			t.Errorf("%d pages, want parts of at most 256", lists)
		}
		if n := l.store.count("delete"); n != entries {
			t.Errorf("%d deletions, want %d", n, entries)
		}
	})
}

// TestSweepWritesFewAtOnce: however much is due, so many writes are under way and no more.
func TestSweepWritesFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: time.Hour, Remember: retrysafe.Off})
		l.expire(t, 300)
		var under, most atomic.Int64
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			n := under.Add(1)
			defer under.Add(-1)
			for was := most.Load(); was < n && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			<-time.After(time.Millisecond) // the others come meanwhile
			return do()
		})
		if n, err := l.Sweep(t.Context()); n != 300 || err != nil {
			t.Errorf("Sweep: %d, %v, want 300", n, err)
		}
		if got := most.Load(); got < 2 || got > 64 {
			t.Errorf("%d writes were under way at once, want some, and at most 64", got)
		}
	})
}

// TestSweepGivesWay: while an operation is under way the sweep rests four times as long as it works, and it goes on at
// once when there is none.
func TestSweepGivesWay(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, &retrysafe.Options{Retention: time.Hour, Remember: retrysafe.Off})
			const pages, works = 4, 10 * time.Millisecond
			l.expire(t, pages*256)
			l.store.mu.Lock()
			l.store.reads = func(c call) error {
				if c.verb == "list" {
					advance(works)
				}
				return nil
			}
			l.store.mu.Unlock()
			end := func() {}
			if busy {
				end = l.busy(t)
			}
			began := time.Now()
			if n, err := l.Sweep(t.Context()); n != pages*256 || err != nil {
				t.Errorf("Sweep: %d, %v, want %d", n, err, pages*256)
			}
			took := time.Since(began)
			end()
			listed := time.Duration(l.store.count("list")) * works
			want := listed
			if busy {
				want += 4 * (listed - works) // it does not rest behind the last page
			}
			if took != want {
				t.Errorf("busy %v: a sweep that works for %v took %v, want %v", busy, listed, took, want)
			}
		})
	}
}

// expire completes n operations whose answers are over.
func (l *lab) expire(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Do(t.Context(), retrysafe.Key{Name: fmt.Sprint("order-", i)}, payload, paid); err != nil {
			t.Fatalf("Do: %v", err)
		}
	}
	advance(2 * time.Hour)
	l.store.reset()
}

// busy has an operation under way until end is called.
func (l *lab) busy(t *testing.T) (end func()) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		l.Do(t.Context(), retrysafe.Key{Name: "busy"}, payload, func(ctx context.Context) ([]byte, error) {
			<-stop
			return nil, nil
		})
	}()
	synctest.Wait()
	return func() { close(stop); <-ended }
}

// TestSweepRacesAnOwner: between its look and its write the owner came back. It writes nothing.
func TestSweepRacesAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		owner := l.mustClaim(t, hold, retrysafe.Won)
		advance(hold.Lease)
		l.store.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
			l.store.hook(nil)
			l.settle(t, owner, completed)
			return do()
		})
		if n, err := l.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep: %d, %v, want nothing changed", n, err)
		}
		l.mustDo(t, never(t))
	})
}

// TestRun sweeps and counts at its interval, goes on after errors, and ends with its ctx.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		l.mustClaim(t, hold, retrysafe.Won)
		done := retrysafe.Key{Name: "done"}
		l.Do(t.Context(), done, payload, paid)
		l.Do(t.Context(), done, payload, never(t))
		advance(hold.Lease - time.Second)
		l.store.mu.Lock()
		l.store.reads = func(c call) error { return errBlip }
		l.store.mu.Unlock()
		advance(10 * time.Second)
		if e, _ := l.fetch(t, order); e.State != retrysafe.InFlight {
			t.Errorf("%v stands while the store cannot be read, want in_flight", e.State)
		}
		l.store.mu.Lock()
		l.store.reads = nil
		l.store.mu.Unlock()
		advance(6 * time.Second)
		if e, _ := l.fetch(t, order); e.State != retrysafe.Unknown {
			t.Errorf("%v stands, want unknown", e.State)
		}
		if r, err := l.second(t).Inspect(t.Context(), done.ID()); err != nil || r.Replays != 1 {
			t.Errorf("%d replays written, %v, want 1", r.Replays, err)
		}
		stop()
		wantErr(t, "Run", <-ended, nil)
	})
}

// TestReplayCounts are added up over processes and passes, and change nothing else of the entry.
func TestReplayCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		for name, set := range map[string]retrysafe.Outcome{"done": completed, "failed": failedOnce} {
			key := retrysafe.Key{Name: name}
			first, err := l.Execute(t.Context(), retrysafe.Request{Key: key, Fingerprint: payload}, func(context.Context) retrysafe.Outcome {
				advance(time.Second)
				return set
			})
			if err != nil {
				t.Fatalf("Execute: %v", err)
			}
			ended := time.Now()
			another := labOver(t, l.store, nil)
			for i := range 3 {
				advance(time.Hour)
				for range i + 1 {
					l.Do(t.Context(), key, payload, never(t))
				}
				another.Do(t.Context(), key, payload, never(t))
				l.FlushReplays(t.Context())
				another.FlushReplays(t.Context())
			}
			rec, err := l.Inspect(t.Context(), key.ID())
			if err != nil || rec.Replays != 1+2+3+3 {
				t.Errorf("%s: %d replays, %v, want 9", name, rec.Replays, err)
			}
			if rec.Epoch != first.Epoch || !near(rec.Finished, ended) || !near(rec.Expires, ended.Add(hold.Retention)) || rec.Attempts != 1 {
				t.Errorf("%s: epoch %d, from %v to %v, %d attempts; want the same as before it was counted", name, rec.Epoch, rec.Finished, rec.Expires, rec.Attempts)
			}
			advance(21*time.Hour + time.Millisecond)
			_, err = l.Do(t.Context(), key, payload, never(t))
			wantErr(t, name+": Do after retention", err, retrysafe.ErrExpired)
		}
	})
}

// TestReplayCountOfWhatChangedMeanwhile is dropped.
func TestReplayCountOfWhatChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *lab){
		"gone":      func(t *testing.T, l *lab) { advance(800 * time.Hour); l.Sweep(t.Context()) },
		"expired":   func(t *testing.T, l *lab) { advance(25 * time.Hour) },
		"forgotten": func(t *testing.T, l *lab) { l.Forget(t.Context(), order.ID(), "ann", "double entry", true) },
		"in flight": func(t *testing.T, l *lab) {
			l.Forget(t.Context(), order.ID(), "ann", "double entry", true)
			setLive(t, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				l.mustDo(t, paid)
				l.mustDo(t, never(t))
				change(t, l)
				before, _ := l.fetch(t, order)
				l.FlushReplays(t.Context())
				if after, _ := l.fetch(t, order); after.Rev != before.Rev {
					t.Errorf("%v was written over", after.State)
				}
			})
		})
	}
}
