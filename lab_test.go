package retrysafe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The laboratory of the core's tests: an Executor over a store in memory whose every call can be counted, refused,
// held up, or robbed of its answer. Time is that of a synctest bubble.

// A lab is an Executor under test and what it stands on.
type lab struct {
	*retrysafe.Executor
	claims *retrysafe.Claims
	store  *hooked
}

// newLab returns a lab whose fingerprint keys are known, so that every call it counts is one of a verb.
func newLab(t *testing.T, o *retrysafe.Options) *lab {
	t.Helper()
	return labOver(t, &hooked{Store: memstore.New(nil)}, o)
}

func labOver(t *testing.T, s *hooked, o *retrysafe.Options) *lab {
	t.Helper()
	return labBehind(t, s, s, o)
}

// labBehind returns a lab whose Executor sees s through front, which may hide a part of it.
func labBehind(t *testing.T, s *hooked, front retrysafe.Store, o *retrysafe.Options) *lab {
	t.Helper()
	e, err := retrysafe.New(front, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	claims, err := e.Verbs(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		e.Drain(ctx) // what a failed test left behind ends with it
	})
	s.reset()
	return &lab{e, claims, s}
}

// A hook may do a write, refuse it, hold it up, or forget its answer.
type hook = func(c call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error)

// A call is one call of a store: create, swap, delete, get, wait or list.
type call struct {
	verb string
	id   retrysafe.ID
}

// hooked is a memory store with a hand on every call.
type hooked struct {
	*memstore.Store
	mu     sync.Mutex
	counts map[string]int
	// around has every write in its hand. Nil does it.
	around hook
	// reads may refuse a read. Nil allows it.
	reads func(c call) error
}

func (h *hooked) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = map[string]int{}
}

// count returns the calls of some verbs since the last reset, or of all.
func (h *hooked) count(verbs ...string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for verb, calls := range h.counts {
		for _, v := range verbs {
			if v == verb {
				n += calls
			}
		}
		if len(verbs) == 0 {
			n += calls
		}
	}
	return n
}

func (h *hooked) counted(c call) (hook, func(call) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = map[string]int{}
	}
	h.counts[c.verb]++
	return h.around, h.reads
}

func (h *hooked) hook(around hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.around = around
}

// write hands a write to the hook. One that is on its way takes place whatever becomes of its caller.
func (h *hooked) write(ctx context.Context, c call, do func(context.Context) (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	around, _ := h.counted(c)
	if around == nil || ctx.Err() != nil {
		return do(ctx)
	}
	return around(c, func() (retrysafe.Reply, error) { return do(context.WithoutCancel(ctx)) })
}

func (h *hooked) read(c call) error {
	if _, reads := h.counted(c); reads != nil {
		return reads(c)
	}
	return nil
}

func (h *hooked) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return h.write(ctx, call{"create", e.ID}, func(ctx context.Context) (retrysafe.Reply, error) { return h.Store.Create(ctx, e) })
}

func (h *hooked) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return h.write(ctx, call{"swap", e.ID}, func(ctx context.Context) (retrysafe.Reply, error) { return h.Store.Swap(ctx, old, e) })
}

func (h *hooked) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	return h.write(ctx, call{"delete", id}, func(ctx context.Context) (retrysafe.Reply, error) { return h.Store.Delete(ctx, id, old) })
}

func (h *hooked) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	if err := h.read(call{verb: "get"}); err != nil {
		return nil, time.Time{}, err
	}
	return h.Store.Get(ctx, ids...)
}

func (h *hooked) Wait(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
	if err := h.read(call{"wait", id}); err != nil {
		return err
	}
	return h.Store.Wait(ctx, id, old)
}

func (h *hooked) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	if err := h.read(call{verb: "list"}); err != nil {
		return retrysafe.Page{}, err
	}
	return h.Store.List(ctx, q)
}

// silent hides that a store can tell of changes and can list.
type silent struct{ retrysafe.Store }

var errBlip = errors.New("connection reset")

// answerLost does a write and loses its answer.
func answerLost(_ call, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	if _, err := do(); err != nil {
		return retrysafe.Reply{}, err
	}
	return retrysafe.Reply{}, errBlip
}

// down does not do a write.
func down(call, func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	return retrysafe.Reply{}, errBlip
}

// advance lets d pass, and all that it brings about.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// fetch returns the entry that stands under key, read past every hook.
func (l *lab) fetch(t *testing.T, key retrysafe.Key) (e retrysafe.Entry, found bool) {
	t.Helper()
	entries, _, err := l.store.Store.Get(t.Context(), key.ID())
	if err != nil {
		t.Fatalf("Get(%v): %v", key, err)
	}
	if len(entries) == 0 {
		return e, false
	}
	return entries[0], true
}

// standing returns the state that stands under key by the store's own clock.
func (l *lab) standing(t *testing.T, key retrysafe.Key) retrysafe.State {
	t.Helper()
	r, err := l.Inspect(t.Context(), key.ID())
	if err != nil && !errors.Is(err, retrysafe.ErrNotFound) {
		t.Fatalf("Inspect(%v): %v", key, err)
	}
	return r.State
}

// order is the key of most tests, and payload what is asked for under it.
var (
	order   = retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
	payload = retrysafe.FingerprintOf([]byte("charge 10 EUR"))
	other   = retrysafe.FingerprintOf([]byte("charge 99 EUR"))
)

// An op is an operation as Do takes it.
type op = func(context.Context) ([]byte, error)

// paid is an operation that succeeds.
func paid(context.Context) ([]byte, error) { return []byte("paid"), nil }

// never is an operation that must not run.
func never(t *testing.T) op {
	return func(context.Context) ([]byte, error) {
		t.Error("the operation ran")
		return nil, nil
	}
}

// mustDo runs op under order and expects it, or an earlier one, to answer.
func (l *lab) mustDo(t *testing.T, op op) retrysafe.Result {
	t.Helper()
	r, err := l.Do(t.Context(), order, payload, op)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	return r
}

// mustClaim claims order and expects the verdict.
func (l *lab) mustClaim(t *testing.T, p retrysafe.Policy, want retrysafe.Verdict) *retrysafe.Claim {
	t.Helper()
	c, err := l.claims.Claim(t.Context(), retrysafe.ClaimRequest{Key: order, Fingerprint: payload, Policy: p, CanRecover: true})
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	if c.Verdict != want {
		t.Fatalf("Claim: verdict %v, want %v", c.Verdict, want)
	}
	return c
}

// wantErr expects got to wrap want, or to be nil where want is.
func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if want == nil && got != nil || !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// wantState expects the state that stands under order.
func (l *lab) wantState(t *testing.T, want retrysafe.State) {
	t.Helper()
	if got := l.standing(t, order); got != want {
		t.Errorf("state of the key is %v, want %v", got, want)
	}
}

// Cases of users of other systems stand in the tests' comments by their number. Those of these groups that concern
// another part are tested there:
//
//	CC-17  serialization failures: the SQL stores retry their own; here a store call that fails once is repeated
//	       (TestLostAnswersOfEveryWrite)
//	CR-4   answers that are never captured: idemhttp; here every end of an operation ends its claim (TestHowOperationsEnd)
//	CR-11  a refused claim that is acknowledged all the same: inbox
//	SV-1   keys of other types than text: a Key is text, what is hashed of a payload is bytes; values are in codec_test.go
//	TT-10  a full memory store that drops live claims: store/memstore
//	SO-2, SO-4, SO-5, SO-14  collations, lock upgrades, expiry beside the write, limits of an item: each store's own
//	SO-8   probe and write on different stores: an Executor has one; cmd/retrysafe tests its configuration
//	SO-10  a local cache that answers in flight or stale: cache
