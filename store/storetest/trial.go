package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A trial is one case put to one store.
type trial struct {
	*testing.T
	store retrysafe.Store // sends again what was not answered
	peer  retrysafe.Store // what store keeps, seen from elsewhere
	list  retrysafe.Inspector
	wait  retrysafe.Waiter
	raw   retrysafe.Store // as it was opened
	wrap  func(retrysafe.Store) retrysafe.Store
	o     Options
}

func newTrial(t *testing.T, s retrysafe.Store, wrap func(retrysafe.Store) retrysafe.Store, o Options) *trial {
	tr := &trial{T: t, raw: s, wrap: wrap, o: o}
	wrapped := wrap(s)
	tr.store = insisting{wrapped}
	tr.list, _ = wrapped.(retrysafe.Inspector)
	tr.wait, _ = wrapped.(retrysafe.Waiter)
	tr.peer = tr.store
	if o.Peer != nil {
		tr.peer = insisting{wrap(o.Peer(t, s))}
	}
	return tr
}

// side is the store for even n and its peer for odd.
func (t *trial) side(n int) retrysafe.Store {
	if n%2 == 0 {
		return t.store
	}
	return t.peer
}

// many is the share of the longest case's writes that a smaller one makes.
func (t *trial) many(share int) int { return max(t.o.Load/share, 4) }

// entry is a random one: nobody else has its ID, its Scope or its Display.
func (t *trial) entry() retrysafe.Entry {
	e := retrysafe.Entry{Rev: retrysafe.NewRev(), State: retrysafe.InFlight, Epoch: 1 << 40, Scope: token(), Display: token(),
		Due: time.Hour, TTL: 24 * time.Hour, Body: randomBytes(150)}
	rand.Read(e.ID[:])
	rand.Read(e.Fingerprint[:])
	return e
}

// next is e written anew, with every field changed that may change.
func (t *trial) next(e retrysafe.Entry) retrysafe.Entry {
	n := t.entry()
	n.ID, n.State, n.Epoch, n.Due, n.TTL = e.ID, retrysafe.Completed, e.Epoch+1, e.Due+time.Second, e.TTL+time.Minute
	return n
}

func token() string { return hex.EncodeToString(randomBytes(12)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// create creates e, which must go well, and returns it as it stands.
func (t *trial) create(ctx context.Context, e retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	rep, err := t.store.Create(ctx, e)
	t.wrote("create", rep, err, e)
	return rep.Entry
}

func (t *trial) swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) retrysafe.Entry {
	t.Helper()
	rep, err := t.store.Swap(ctx, old, e)
	t.wrote("swap", rep, err, e)
	return rep.Entry
}

func (t *trial) remove(ctx context.Context, e retrysafe.Entry) {
	t.Helper()
	rep, err := t.store.Delete(ctx, e.ID, e.Rev)
	t.gone("delete", rep, err, true)
}

// wrote checks the answer to a write that took place.
func (t *trial) wrote(call string, rep retrysafe.Reply, err error, want retrysafe.Entry) {
	t.Helper()
	want.Stamp = time.Time{}
	t.answered(call, rep, err, retrysafe.Reply{Entry: want, Found: true, OK: true})
}

// refused checks the answer to a write that did not take place because standing stands.
func (t *trial) refused(call string, rep retrysafe.Reply, err error, standing retrysafe.Entry) {
	t.Helper()
	t.answered(call, rep, err, retrysafe.Reply{Entry: standing, Found: true})
}

// gone checks the answer to a call after which nothing stands.
func (t *trial) gone(call string, rep retrysafe.Reply, err error, ok bool) {
	t.Helper()
	t.answered(call, rep, err, retrysafe.Reply{OK: ok})
}

func (t *trial) answered(call string, rep retrysafe.Reply, err error, want retrysafe.Reply) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if rep.Found != want.Found || rep.OK != want.OK {
		t.Fatalf("%s: answer has Found %v, OK %v; want Found %v, OK %v", call, rep.Found, rep.OK, want.Found, want.OK)
	}
	if d := difference(rep.Entry, want.Entry); d != "" {
		t.Fatalf("%s: answer has another entry: %s", call, d)
	}
	if rep.Now.IsZero() || rep.Entry.Stamp.IsZero() == rep.Found {
		t.Fatalf("%s: answer has Now %v and Stamp %v, Found %v", call, rep.Now, rep.Entry.Stamp, rep.Found)
	}
}

// get is the entry that stands under id as s sees it, and the clock.
func (t *trial) get(ctx context.Context, s retrysafe.Store, id retrysafe.ID) (e retrysafe.Entry, found bool, now time.Time) {
	t.Helper()
	entries, now, err := s.Get(ctx, id)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if len(entries) > 1 {
		t.Fatalf("get of one ID: %d entries", len(entries))
	}
	if len(entries) == 0 {
		return e, false, now
	}
	return entries[0], true, now
}

// stands checks that want stands, for the store and for its peer.
func (t *trial) stands(ctx context.Context, want retrysafe.Entry) {
	t.Helper()
	for n, who := range []string{"", ", from elsewhere"} {
		got, found, _ := t.get(ctx, t.side(n), want.ID)
		if !found {
			t.Fatalf("get%s: nothing stands; want an entry", who)
		}
		if d := difference(got, want); d != "" {
			t.Fatalf("get%s: another entry stands: %s", who, d)
		}
	}
}

// absent checks that nothing stands under id.
func (t *trial) absent(ctx context.Context, id retrysafe.ID) {
	t.Helper()
	for n, who := range []string{"", ", from elsewhere"} {
		if _, found, _ := t.get(ctx, t.side(n), id); found {
			t.Fatalf("get%s: an entry stands; want none", who)
		}
	}
}

// each calls f with 0 to n-1 from many goroutines at once, as many as the Options allow, that all start together.
func (t *trial) each(n int, f func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var failures collected
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range min(n, t.o.Callers) {
		wg.Go(func() {
			<-start
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				failures.add(f(i))
			}
		})
	}
	close(start)
	wg.Wait()
	if failures.n > 0 {
		t.Fatalf("%d of %d callers failed; first %v", failures.n, n, failures.first)
	}
}

// collected counts errors and keeps the first.
type collected struct {
	mu    sync.Mutex
	n     int
	first error
}

func (c *collected) add(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == 1 {
		c.first = err
	}
}

// difference says in which fields two entries differ, "" for none. A zero Stamp in want stands for any.
func difference(got, want retrysafe.Entry) string {
	var d []string
	field := func(name string, equal bool, show func(retrysafe.Entry) string) {
		if !equal {
			d = append(d, fmt.Sprintf("%s is %s, want %s", name, show(got), show(want)))
		}
	}
	field("ID", got.ID == want.ID, func(e retrysafe.Entry) string { return e.ID.String() })
	field("Rev", got.Rev == want.Rev, func(e retrysafe.Entry) string { return fmt.Sprintf("%x", e.Rev) })
	field("State", got.State == want.State, func(e retrysafe.Entry) string { return e.State.String() })
	field("Epoch", got.Epoch == want.Epoch, func(e retrysafe.Entry) string { return fmt.Sprint(e.Epoch) })
	field("Fingerprint", got.Fingerprint == want.Fingerprint, func(e retrysafe.Entry) string { return fmt.Sprintf("%x", e.Fingerprint) })
	field("Scope", got.Scope == want.Scope, func(e retrysafe.Entry) string { return fmt.Sprintf("%+q", e.Scope) })
	field("Display", got.Display == want.Display, func(e retrysafe.Entry) string { return fmt.Sprintf("%+q", e.Display) })
	field("Due", got.Due == want.Due, func(e retrysafe.Entry) string { return e.Due.String() })
	field("TTL", got.TTL == want.TTL, func(e retrysafe.Entry) string { return e.TTL.String() })
	field("Body", bytes.Equal(got.Body, want.Body), func(e retrysafe.Entry) string { return shortened(e.Body, got.Body, want.Body) })
	field("Stamp", want.Stamp.IsZero() || got.Stamp.Equal(want.Stamp), func(e retrysafe.Entry) string { return e.Stamp.String() })
	return strings.Join(d, "; ")
}

// shortened is body for people: its length, and what it holds where got and want begin to differ.
func shortened(body, got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Sprintf("%d bytes with %x at %d", len(body), body[at:min(at+8, len(body))], at)
}

// soon calls f and returns its error. It fails when f takes longer than the store's Patience.
func (t *trial) soon(what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(t.o.Patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		t.Fatalf("%s: not over within %v", what, t.o.Patience)
		return nil
	}
}

// past waits until the store's clock is past when.
func (t *trial) past(ctx context.Context, when time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, t.o.Patience)
	defer cancel()
	id := t.entry().ID
	for {
		if _, _, now := t.get(ctx, t.store, id); now.After(when) {
			return
		}
		if err := rest(ctx, time.Millisecond); err != nil {
			t.Fatalf("wait for the store's clock to be past %v: %v", when, err)
		}
	}
}

// rest lets d pass, so that goroutines and stores get on with what they have begun.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
