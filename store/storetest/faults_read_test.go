package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Cases about reading that many faults break beside the one that names them.
const (
	pages      = "list pages hold at most the limit and miss nothing"
	noLimit    = "list without a limit returns at most 100"
	listDue    = "list selects what is due"
	listAll    = "list selects by all of a query at once"
	listLast   = "list shows an entry as it was written last"
	listOnce   = "what neither comes nor goes is listed exactly once"
	listScope  = "list selects by scope byte for byte"
	listPrefix = "list selects by prefix of display byte for byte"
	listLarge  = "pages of large bodies miss nothing"
	waitSwaps  = "wait ends when the entry is swapped"
	waitGone   = "wait ends when the entry is deleted"
	waitAll    = "one write wakes every waiter"
	waitRace   = "wait misses no write that it races with"
)

var readFaults = []fault{
	{"get stops after 500 IDs", "get returns what stands and leaves out the rest", nil, getStops},
	{"get ignores its context", "an ended context is an error", nil, getIgnores},
	{"what is read shares the store's memory", reuse, nil, getShares},
	{"get has a clock of its own", "no clock is behind a stamp that comes with it", []string{between, listDue}, getClock},
	{"reads come from a cache", "readers see whole entries and never an older one again", []string{"what was acknowledged survives a crash"}, getCached},

	{"list loses what ends a page", pages, []string{noLimit, listDue, listOnce, listLarge}, listLoses},
	{"list ignores the limit", pages, []string{listDue, listOnce, listLarge}, listUnlimited},
	{"list without a limit lists everything", noLimit, nil, listEverything},
	{"list knows one state only", "list selects by state", nil, listOneState},
	{"list ignores case in scopes", listScope, []string{"scopes come back byte for byte"}, listFoldsScopes},
	{"list ignores case in displays", listPrefix, nil, listFoldsDisplays},
	{"a prefix is a pattern", listPrefix, nil, listPatterns},
	{"list ignores what is due", listDue, []string{listAll, listLast}, listNotDue},
	{"due 0 is never due", listDue, []string{listAll, listLast, listOnce}, listZeroNever},
	{"a scope switches the prefix off", listAll, nil, listNoPrefix},
	{"a swap leaves the index as it was", listLast, []string{"list with the zero query holds everything"}, listOldIndex},
	{"list leaves out what has no scope", "list with the zero query holds everything", nil, listScopedOnly},
	{"a cursor counts entries", listOnce, []string{"a foreign cursor is an error"}, listCounts},
	{"a foreign cursor begins anew", "a foreign cursor is an error", nil, listAnew},
	{"a large page ends the listing", listLarge, nil, listEnds},

	{"wait misses a swap", waitSwaps, []string{waitAll, waitRace}, waitMissesSwap},
	{"wait misses a delete", waitGone, []string{waitAll}, waitMissesDelete},
	{"wait does not look before it waits", "wait ends at once when the Rev differs already", []string{waitRace}, waitBlind},
	{"wait begins after it has looked", waitRace, []string{waitSwaps, waitGone, waitAll}, waitLate},
	{"wait ends with an error of its own", "wait ends with its context", nil, waitInterrupted},
	{"wait does not wait", "wait on an untouched entry rarely ends by itself", nil, waitSpins},
	{"a write wakes one waiter", waitAll, []string{waitRace, waitSwaps, waitGone}, waitOne()},
}

func getStops(f *faulty) {
	f.get = func(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
		return f.engine.Get(ctx, ids[:min(len(ids), 500)]...)
	}
}

func getIgnores(f *faulty) {
	f.get = func(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
		return f.engine.Get(context.WithoutCancel(ctx), ids...)
	}
}

func getShares(f *faulty) {
	f.get = func(ctx context.Context, ids ...retrysafe.ID) (found []entry, now time.Time, err error) {
		if err := f.acquire(ctx); err != nil {
			return nil, now, err
		}
		defer f.release()
		for _, id := range ids {
			if e, ok := f.entries[id]; ok {
				found = append(found, e)
			}
		}
		return found, f.now(), nil
	}
}

func getClock(f *faulty) {
	f.get = func(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
		found, now, err := f.engine.Get(ctx, ids...)
		return found, now.Add(-700 * time.Millisecond), err
	}
}

// getCached shows an entry again as it was read before, where it is one of a long run of swaps.
func getCached(f *faulty) {
	var mu sync.Mutex
	reads, cached := 0, map[retrysafe.ID]entry{}
	f.get = func(ctx context.Context, ids ...retrysafe.ID) ([]entry, time.Time, error) {
		found, now, err := f.engine.Get(ctx, ids...)
		mu.Lock()
		defer mu.Unlock()
		if len(found) != 1 || found[0].Epoch < 3 || found[0].Epoch > 1<<20 {
			return found, now, err
		}
		before, ok := cached[ids[0]]
		if reads++; ok && reads%64 != 0 {
			return []entry{before}, now, err
		}
		cached[ids[0]] = found[0]
		return found, now, err
	}
}

func listLoses(f *faulty) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		page, err := f.engine.List(ctx, q)
		if page.Next != "" {
			page.Entries = page.Entries[:len(page.Entries)-1]
		}
		return page, err
	}
}

func listUnlimited(f *faulty) {
	f.listing(func(q retrysafe.Query) retrysafe.Query { q.Limit *= 2; return q })
}

func listEverything(f *faulty) {
	f.listing(func(q retrysafe.Query) retrysafe.Query {
		if q.Limit == 0 {
			q.Limit = 1 << 20
		}
		return q
	})
}

func listOneState(f *faulty) {
	f.listing(func(q retrysafe.Query) retrysafe.Query { q.States = q.States[:min(len(q.States), 1)]; return q })
}

func listFoldsScopes(f *faulty) {
	f.sifted(func(q *retrysafe.Query) { q.Scope = "" }, func(q retrysafe.Query, e entry) bool {
		return q.Scope == "" || strings.EqualFold(e.Scope, q.Scope)
	})
}

func listFoldsDisplays(f *faulty) {
	f.sifted(func(q *retrysafe.Query) { q.Prefix = "" }, func(q retrysafe.Query, e entry) bool {
		return strings.HasPrefix(strings.ToLower(e.Display), strings.ToLower(q.Prefix))
	})
}

func listPatterns(f *faulty) {
	f.sifted(func(q *retrysafe.Query) { q.Prefix = "" }, func(q retrysafe.Query, e entry) bool { return like(e.Display, q.Prefix+"%") })
}

// like is SQL's LIKE: % is any text, _ any sign.
func like(s, pattern string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '%':
		return like(s, pattern[1:]) || s != "" && like(s[1:], pattern)
	}
	return s != "" && (pattern[0] == '_' || s[0] == pattern[0]) && like(s[1:], pattern[1:])
}

func listNotDue(f *faulty) {
	f.listing(func(q retrysafe.Query) retrysafe.Query { q.Due = false; return q })
}

func listZeroNever(f *faulty) {
	f.sifted(func(*retrysafe.Query) {}, func(q retrysafe.Query, e entry) bool { return !q.Due || e.Due > 0 })
}

func listNoPrefix(f *faulty) {
	f.listing(func(q retrysafe.Query) retrysafe.Query {
		if q.Scope != "" {
			q.Prefix = ""
		}
		return q
	})
}

// listOldIndex finds an entry under the scope of its ID's first create.
func listOldIndex(f *faulty) {
	var scopes sync.Map
	f.create = func(ctx context.Context, e entry) (reply, error) {
		scopes.LoadOrStore(e.ID, e.Scope)
		return f.engine.Create(ctx, e)
	}
	f.sifted(func(q *retrysafe.Query) { q.Scope = "" }, func(q retrysafe.Query, e entry) bool {
		scope, _ := scopes.Load(e.ID)
		return q.Scope == "" || q.Scope == scope
	})
}

func listScopedOnly(f *faulty) {
	f.sifted(func(*retrysafe.Query) {}, func(q retrysafe.Query, e entry) bool { return e.Scope != "" || q.Prefix != "" })
}

func listCounts(f *faulty) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		from, err := strconv.Atoi("0" + q.Cursor)
		if err != nil {
			return retrysafe.Page{}, err
		}
		limit := q.Limit
		if limit == 0 {
			limit = 100
		}
		q.Cursor, q.Limit = "", 1<<20
		page, err := f.engine.List(ctx, q)
		page.Entries = page.Entries[min(from, len(page.Entries)):]
		if len(page.Entries) > limit {
			page.Entries, page.Next = page.Entries[:limit], strconv.Itoa(from+limit)
		}
		return page, err
	}
}

func listAnew(f *faulty) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		page, err := f.engine.List(ctx, q)
		if errors.Is(err, retrysafe.ErrInvalid) {
			q.Cursor = ""
			return f.engine.List(ctx, q)
		}
		return page, err
	}
}

// listEnds stops early and says that nothing follows.
func listEnds(f *faulty) {
	f.list = func(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
		page, err := f.engine.List(ctx, q)
		room := 0
		large := func(e entry) bool { room += len(e.Body); return room > 1<<18 }
		if i := slices.IndexFunc(page.Entries, large); i >= 0 {
			page.Entries = page.Entries[:i]
		}
		return page, err
	}
}

// waitMissesSwap ends only when nothing stands, or when another Rev stood from the beginning.
func waitMissesSwap(f *faulty) {
	f.wait = f.waiting(func(found bool) bool { return !found })
}

func waitMissesDelete(f *faulty) {
	f.wait = f.waiting(func(found bool) bool { return found })
}

// waiting is a wait that tells of a change only where notices says so.
func (f *faulty) waiting(notices func(found bool) bool) func(context.Context, retrysafe.ID, retrysafe.Rev) error {
	return func(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
		for first := true; ; first = false {
			changed, err := f.next(ctx)
			if err != nil {
				return err
			}
			rep, err := f.look(ctx, entry{ID: id, Rev: old})
			if err != nil {
				return ctx.Err()
			}
			if differs := !rep.Found || rep.Entry.Rev != old; differs && (first || notices(rep.Found)) {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func waitBlind(f *faulty) {
	f.wait = func(ctx context.Context, _ retrysafe.ID, _ retrysafe.Rev) error { return f.pause(ctx) }
}

// waitLate may miss what is written after it has looked.
func waitLate(f *faulty) {
	f.wait = func(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
		rep, err := f.look(ctx, entry{ID: id, Rev: old})
		if err != nil || !rep.Found || rep.Entry.Rev != old {
			return ctx.Err()
		}
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return f.pause(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func waitInterrupted(f *faulty) {
	f.wait = func(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
		if err := f.engine.Wait(ctx, id, old); err != nil {
			return errors.New("interrupted")
		}
		return nil
	}
}

func waitSpins(f *faulty) {
	f.wait = func(ctx context.Context, _ retrysafe.ID, _ retrysafe.Rev) error { return ctx.Err() }
}

// waitOne lets all waiters of a process wait for one signal.
func waitOne() func(*faulty) {
	signal := make(chan struct{}, 1)
	return func(f *faulty) {
		f.commit = func(ctx context.Context, s *engine, id retrysafe.ID, e *entry) error {
			err := syncThenShow(ctx, s, id, e)
			select {
			case signal <- struct{}{}:
			default:
			}
			return err
		}
		f.wait = func(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) error {
			if rep, err := f.look(ctx, entry{ID: id, Rev: old}); err != nil || !rep.Found || rep.Entry.Rev != old {
				return ctx.Err()
			}
			select {
			case <-signal:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
