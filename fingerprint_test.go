package retrysafe_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Fingerprints: what tells a reused key from a retry, and the keys that seal them (rule 5).

// secret returns a fingerprint key of the least length.
func secret(seed string) []byte {
	sum := sha256.Sum256([]byte(seed))
	return sum[:]
}

// keyed returns an Executor of a process of its own on s with these fingerprint keys, opened.
func keyed(t *testing.T, s retrysafe.Store, keys ...string) *retrysafe.Executor {
	t.Helper()
	e, err := openKeyed(t, s, keys...)
	if err != nil {
		t.Fatalf("open with keys %q: %v", keys, err)
	}
	return e
}

func openKeyed(t *testing.T, s retrysafe.Store, keys ...string) (*retrysafe.Executor, error) {
	t.Helper()
	var secrets [][]byte
	for _, k := range keys {
		secrets = append(secrets, secret(k))
	}
	e, err := retrysafe.New(s, &retrysafe.Options{FingerprintKeys: secrets})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return e, e.Open(t.Context())
}

func TestFingerprintOf(t *testing.T) {
	parts := func(ss ...string) (bs [][]byte) {
		for _, s := range ss {
			bs = append(bs, []byte(s))
		}
		return bs
	}
	lists := [][][]byte{nil, parts(""), parts("", ""), parts("ab"), parts("a", "b"), parts("b", "a"), parts("ab", ""), parts("", "ab"),
		parts("ab", "c"), parts("a", "bc"), parts("\x00\x00\x00\x00\x00\x00\x00\x01a"), parts("AB")}
	seen := map[retrysafe.Fingerprint]int{}
	for i, list := range lists {
		fp := retrysafe.FingerprintOf(list...)
		if before, known := seen[fp]; known {
			t.Errorf("FingerprintOf(%q) is that of %q", list, lists[before])
		}
		seen[fp] = i
		if again := retrysafe.FingerprintOf(list...); again != fp {
			t.Errorf("FingerprintOf(%q) gave two fingerprints", list)
		}
	}
}

// TestMismatchOnEveryPath: whatever stands, another payload under the key changes nothing and wins over every
// other verdict, as long as the key is remembered.
func TestMismatchOnEveryPath(t *testing.T) {
	tests := []struct {
		name   string
		before func(t *testing.T, l *lab)
		want   error
	}{
		{"in flight", func(t *testing.T, l *lab) { l.mustClaim(t, hold, retrysafe.Won) }, retrysafe.ErrMismatch},
		{"lease over, hold", lapse(hold), retrysafe.ErrMismatch},
		{"lease over, rerun", lapse(rerun), retrysafe.ErrMismatch},
		{"lease over, recover", lapse(recovered), retrysafe.ErrMismatch},
		{"unknown", func(t *testing.T, l *lab) { l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{}) }, retrysafe.ErrMismatch},
		{"unknown, recover", func(t *testing.T, l *lab) {
			l.settle(t, l.mustClaim(t, recovered, retrysafe.Won), retrysafe.Outcome{})
		}, retrysafe.ErrMismatch},
		{"done", func(t *testing.T, l *lab) { l.mustDo(t, paid) }, retrysafe.ErrMismatch},
		{"failed", func(t *testing.T, l *lab) {
			l.settle(t, l.mustClaim(t, hold, retrysafe.Won), retrysafe.Outcome{State: retrysafe.UnknownAnswered})
		}, retrysafe.ErrMismatch},
		{"retention over", func(t *testing.T, l *lab) { l.mustDo(t, paid); advance(hold.Retention + time.Millisecond) }, retrysafe.ErrMismatch},
		{"tombstone", func(t *testing.T, l *lab) {
			l.mustDo(t, paid)
			advance(hold.Retention + time.Millisecond)
			l.Sweep(t.Context())
		}, retrysafe.ErrMismatch},
		{"forgotten by an operator", func(t *testing.T, l *lab) {
			l.mustDo(t, paid)
			l.Forget(t.Context(), order.ID(), "ann", "double entry", true)
		}, nil},
		{"memory over", func(t *testing.T, l *lab) {
			l.mustDo(t, paid)
			advance(hold.Retention + hold.Remember + time.Millisecond)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &retrysafe.Options{OnLeaseEnd: retrysafe.Recover, Recover: notHappened, Wait: time.Minute})
				tt.before(t, l)
				before, _ := l.fetch(t, order)
				ran := 0
				r, err := l.Do(t.Context(), order, other, func(ctx context.Context) ([]byte, error) { ran++; return paid(ctx) })
				wantErr(t, "Do", err, tt.want)
				if tt.want == nil {
					if ran != 1 {
						t.Errorf("ran %d times, want once: the key is free", ran)
					}
					return
				}
				after, _ := l.fetch(t, order)
				if ran != 0 || r.Verdict != retrysafe.Mismatch || r.Answer != nil || after.Rev != before.Rev {
					t.Errorf("ran %d times, verdict %v, answer %q, rewritten %v; want nothing but a mismatch", ran, r.Verdict, r.Answer, after.Rev != before.Rev)
				}
			})
		})
	}
}

// TestKeyOfTheStoreIsShared: without keys of their own, processes on one store know each other's entries.
func TestKeyOfTheStoreIsShared(t *testing.T) {
	s := memstore.New(nil)
	for i, e := range []*retrysafe.Executor{keyed(t, s), keyed(t, s)} {
		r, err := e.Do(t.Context(), order, payload, paid)
		if want := []retrysafe.Verdict{retrysafe.Won, retrysafe.Replay}[i]; err != nil || r.Verdict != want {
			t.Errorf("Do of process %d: %v %v, want %v", i, r.Verdict, err, want)
		}
		_, err = e.Do(t.Context(), order, other, never(t))
		wantErr(t, "Do with another payload", err, retrysafe.ErrMismatch)
	}
}

// TestStoredFingerprintTellsNothing is FP-19: neither the digest nor its plain hash stands in the entry, and it
// differs from store to store.
func TestStoredFingerprintTellsNothing(t *testing.T) {
	plain := sha256.Sum256(payload[:])
	var seen [][]byte
	for range 2 {
		s := memstore.New(nil)
		if _, err := keyed(t, s).Do(t.Context(), order, payload, paid); err != nil {
			t.Fatalf("Do: %v", err)
		}
		entries, _, err := s.Get(t.Context(), order.ID())
		if err != nil || len(entries) != 1 {
			t.Fatalf("Get: %d entries, %v", len(entries), err)
		}
		dump := fmt.Appendf(nil, "%s%s", entries[0].Fingerprint[:], entries[0].Body)
		if bytes.Contains(dump, payload[:]) || bytes.Contains(dump, plain[:]) {
			t.Error("the entry holds a digest that a guess can be compared with")
		}
		seen = append(seen, entries[0].Fingerprint[:])
	}
	if bytes.Equal(seen[0], seen[1]) {
		t.Error("two stores seal alike")
	}
}

// TestFingerprintKeys follows one store through deployments; each line is a process with its keys, in order.
func TestFingerprintKeys(t *testing.T) {
	type process struct {
		keys  []string
		opens bool
	}
	tests := []struct {
		name      string
		processes []process
	}{
		{"the same file", []process{{[]string{"a"}, true}, {[]string{"a"}, true}}},
		{"another file", []process{{[]string{"a"}, true}, {[]string{"b"}, false}}},
		{"no file any more", []process{{[]string{"a"}, true}, {nil, false}}},
		{"rotation", []process{{[]string{"a"}, true}, {[]string{"b", "a"}, true}, {[]string{"b"}, true}}},
		{"rotation, and the oldest process restarts", []process{{[]string{"a"}, true}, {[]string{"b", "a"}, true}, {[]string{"a"}, true}}},
		{"rotation to a stranger", []process{{[]string{"a"}, true}, {[]string{"b", "a"}, true}, {[]string{"c"}, false}}},
		{"from the store's key to a file", []process{{nil, true}, {[]string{"a"}, true}, {[]string{"a"}, true}}},
		{"from the store's key to a file, then another file", []process{{nil, true}, {[]string{"a"}, true}, {[]string{"b"}, false}}},
		{"from the store's key to a file, then rotation", []process{{nil, true}, {[]string{"a"}, true}, {[]string{"b", "a"}, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New(nil)
			for i, p := range tt.processes {
				e, err := openKeyed(t, s, p.keys...)
				if opens := err == nil; opens != p.opens {
					t.Fatalf("process %d with keys %q: %v, want it to open: %v", i, p.keys, err, p.opens)
				}
				if !p.opens {
					wantErr(t, "Open", err, retrysafe.ErrInvalid)
					continue
				}
				// It knows what the process before it sealed, if they share a key.
				before := retrysafe.Key{Name: fmt.Sprint("order-", i-1)}
				if i > 0 && len(p.keys) >= len(tt.processes[i-1].keys) {
					if _, err := e.Do(t.Context(), before, payload, never(t)); err != nil {
						t.Errorf("process %d: Do(%v): %v", i, before, err)
					}
					_, err = e.Do(t.Context(), before, other, never(t))
					wantErr(t, "Do with another payload", err, retrysafe.ErrMismatch)
				}
				if _, err := e.Do(t.Context(), retrysafe.Key{Name: fmt.Sprint("order-", i)}, payload, paid); err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
}

// TestEntrySealedWithAKeyThatIsGone fails closed: it is no mismatch, no absence, and nothing runs.
func TestEntrySealedWithAKeyThatIsGone(t *testing.T) {
	s := memstore.New(nil)
	if _, err := keyed(t, s, "a").Do(t.Context(), order, payload, paid); err != nil {
		t.Fatalf("Do: %v", err)
	}
	keyed(t, s, "b", "a")
	_, err := keyed(t, s, "b").Do(t.Context(), order, payload, never(t))
	wantErr(t, "Do", err, retrysafe.ErrUnreadable)
}

func TestShortFingerprintKeyIsRefused(t *testing.T) {
	for _, keys := range [][][]byte{{{}}, {make([]byte, retrysafe.MinFingerprintKey-1)}, {secret("a"), []byte("b")}} {
		_, err := retrysafe.New(memstore.New(nil), &retrysafe.Options{FingerprintKeys: keys})
		wantErr(t, fmt.Sprintf("New with keys of %d", len(keys)), err, retrysafe.ErrInvalid)
	}
}

// TestKeyringThroughLostAnswers: the first process of a store, and a rotation, on a network that loses answers.
func TestKeyringThroughLostAnswers(t *testing.T) {
	for times := 1; times <= 2; times++ {
		s := &hooked{Store: memstore.New(nil)}
		lose := func() {
			left := times
			s.hook(func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
				if left--; left >= 0 {
					return answerLost(c, do)
				}
				return do()
			})
		}
		for _, keys := range [][]string{nil, {"a"}, {"b", "a"}} {
			lose()
			e := keyed(t, s, keys...)
			if _, err := e.Do(t.Context(), order, payload, paid); err != nil {
				t.Errorf("keys %q, %d answers lost: Do: %v", keys, times, err)
			}
		}
	}
}

// TestKeyringIsNoKey: the reserved entry is neither listed, inspected, forgotten, nor swept.
func TestKeyringIsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		advance(10 * 365 * 24 * time.Hour)
		if n, err := l.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep: %d, %v, want 0", n, err)
		}
		records, _, err := l.List(t.Context(), retrysafe.Filter{})
		if len(records) != 0 || err != nil {
			t.Errorf("List: %d records, %v, want none", len(records), err)
		}
		_, err = l.Inspect(t.Context(), retrysafe.KeyringID)
		wantErr(t, "Inspect", err, retrysafe.ErrNotFound)
		_, err = l.Forget(t.Context(), retrysafe.KeyringID, "ann", "curious", true)
		wantErr(t, "Forget", err, retrysafe.ErrNotFound)
		l.mustDo(t, paid)
	})
}
