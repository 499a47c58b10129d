package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Record is an entry as operators see it.
type Record struct {
	ID       ID
	Scope    string
	Key      string
	State    State
	Epoch    int64
	Started  time.Time // when the operation that stands began
	Finished time.Time // when its outcome was recorded; zero while in flight or held
	Expires  time.Time // when its lease, answer or memory ends; zero for never
	Attempts int       // claims made under the key, this operation included
	Replays  int       // approximate: flushed from time to time
	Reason   string    // why the outcome is unknown, or the answer cannot be opened
	NotKept  bool
	Answer   []byte // in clear
	Policy   Policy
	Acted    bool // under a two-step policy: it may have acted
	History  []Decision

	Unreadable bool // damaged, or of a newer version: ID, Scope, Key and State are all that is known
}

// view is e as it is to be understood at now: what is over by the clock is shown as over, swept or not.
func view(e Entry, rec record, now time.Time) Record {
	r := Record{ID: e.ID, Scope: e.Scope, Key: e.Display, State: e.State, Epoch: e.epoch(), Attempts: int(rec.attempts), Replays: int(rec.replays),
		Reason: rec.reason, NotKept: rec.notKept, Answer: rec.answer, Policy: rec.policy, Acted: rec.acted, History: rec.history}
	_, full := carried(e, rec)
	r.Started = time.UnixMicro(full.started)
	switch {
	case e.Orphan:
		r.Expires = now
	case e.Due > 0:
		r.Expires = e.Stamp.Add(e.Due)
	}
	s := meet(&e, &rec, now)
	switch s {
	case done, failed, past:
		r.Finished = time.UnixMicro(rec.heardIn(&e))
	case lapsedHold, lapsedRecover:
		r.State, r.Reason, r.Expires = Unknown, "lease over", time.Time{}
	case lapsedUnacted:
		r.Reason = "lease over before it acted"
	case over:
		r.State = Absent
	}
	if s == past {
		r.State, r.Answer, r.Expires = Tombstone, nil, e.Stamp.Add(e.TTL)
	}
	return r
}

// Inspect returns the record that stands under id, or ErrNotFound. With ErrUnreadable it returns what can be read: of
// an entry whose answer is sealed with a key that is not configured, all but the answer.
func (e *Executor) Inspect(ctx context.Context, id ID) (Record, error) {
	claims, err := e.open(ctx)
	if err != nil {
		return Record{}, err
	}
	entry, now, err := claims.one(ctx, id)
	if err != nil {
		return Record{}, fmt.Errorf("inspect: %w", err)
	}
	return e.viewed(entry, now)
}

func (e *Executor) viewed(entry Entry, now time.Time) (Record, error) {
	rec, err := entry.record()
	if err != nil {
		return Record{ID: entry.ID, Scope: entry.Scope, Key: entry.Display, State: entry.State, Unreadable: true}, err
	}
	sealed := e.answers.open(&entry, &rec)
	r := view(entry, rec, now)
	r.Replays += int(e.replays.of(entry.ID))
	switch {
	case r.State == Absent:
		return Record{}, ErrNotFound
	case sealed != nil && r.Answer != nil: // one that is over is shown to nobody
		r.Answer, r.Reason = nil, sealed.Error()
		return r, sealed
	}
	return r, nil
}

func (c *Claims) one(ctx context.Context, id ID) (Entry, time.Time, error) {
	entries, now, err := c.get(ctx, id)
	if err != nil {
		return Entry{}, now, errors.Join(ErrStore, err)
	}
	if len(entries) == 0 || entries[0].State == Reserved {
		return Entry{}, now, ErrNotFound
	}
	return entries[0], now, nil
}

func (c *Claims) list(ctx context.Context, s Inspector, q Query) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	page, err := s.List(ctx, q)
	if err != nil && !errors.Is(err, ErrInvalid) { // a cursor that is none
		err = errors.Join(ErrStore, err)
	}
	return page, err
}

// A Filter selects records. Its zero value selects all.
type Filter struct {
	State  State  // Absent: any
	Scope  string // equal
	Prefix string // of the key
	Cursor string // from the page before
	Limit  int    // at most so many; 0 means 100, more than 1000 is 1000
}

// List returns the records that f selects, and the cursor of the next page, "" at the end. A page may be
// short, even empty, before the end: it reads at most so much of the store. Unreadable entries are listed
// with what can be read of them.
func (e *Executor) List(ctx context.Context, f Filter) (records []Record, next string, err error) {
	store, ok := e.store.(Inspector)
	if !ok {
		return nil, "", fmt.Errorf("list: %w: this store cannot list", errors.ErrUnsupported)
	}
	claims, err := e.open(ctx)
	if err != nil {
		return nil, "", err
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	f.Limit = min(f.Limit, 1000)
	q := Query{States: standsAs(f.State), Scope: displayed(f.Scope), Prefix: displayed(f.Prefix), Cursor: f.Cursor}
	for range 20 {
		q.Limit = f.Limit - len(records)
		page, err := claims.list(ctx, store, q)
		if err != nil {
			return nil, "", fmt.Errorf("list: %w", err)
		}
		for _, entry := range page.Entries {
			if r, err := e.viewed(entry, page.Now); !errors.Is(err, ErrNotFound) && (f.State == Absent || r.State == f.State) {
				records = append(records, r)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(records) >= f.Limit {
			break
		}
	}
	return records, q.Cursor, nil
}

// standsAs returns the states in which entries that are shown as s may stand: what is over by the clock may
// not have been swept yet.
func standsAs(s State) []State {
	switch s {
	case Absent:
		return []State{Free, InFlight, Completed, Unknown, UnknownAnswered, Tombstone}
	case Unknown:
		return []State{Unknown, InFlight}
	case Tombstone:
		return []State{Tombstone, Completed, UnknownAnswered}
	}
	return []State{s}
}

// A Resolution is an operator's decision on an outcome. By and Why are required; they stay in the history.
type Resolution struct {
	Happened bool   // the operation took effect; else it certainly did not and never will
	Answer   []byte // what retries are answered; nil: they are told that the answer was not kept
	By, Why  string
	Force    bool // also on a live lease and on Completed
}

// maxHistory bounds the acts kept in an entry: the oldest go first.
const maxHistory = 32

// Resolve decides an outcome and fences whoever owned it. Errors: ErrNotFound, ErrInvalid, a [RefusedError].
func (e *Executor) Resolve(ctx context.Context, id ID, r Resolution) (Record, error) {
	v, did := resolveUndone, "released"
	if r.Happened {
		v, did = resolveDone, "completed"
	}
	return e.operate(ctx, id, v, "resolve", Decision{By: r.By, Why: r.Why, Did: did}, r.Force, func(rec *record) {
		rec.answer, rec.notKept = r.Answer, r.Happened && r.Answer == nil
	})
}

// Forget makes a key claimable again, whatever happened, and fences whoever owned it. With force it also
// frees an entry that cannot be read. Errors: ErrNotFound, ErrInvalid, a [RefusedError].
func (e *Executor) Forget(ctx context.Context, id ID, by, why string, force bool) (Record, error) {
	return e.operate(ctx, id, forget, "forget", Decision{By: by, Why: why, Did: "forgot"}, force, func(rec *record) {
		rec.answer, rec.notKept = nil, false
	})
}

func (e *Executor) operate(ctx context.Context, id ID, v verb, name string, a Decision, force bool, change func(*record)) (Record, error) {
	a.By, a.Why = displayed(strings.TrimSpace(a.By)), displayed(strings.TrimSpace(a.Why))
	if a.By == "" || a.Why == "" {
		return Record{}, fmt.Errorf("%s: %w: by and reason are required: they stay in the key's history", name, ErrInvalid)
	}
	claims, err := e.open(ctx)
	if err != nil {
		return Record{}, err
	}
	for range maxRounds {
		entry, now, err := claims.one(ctx, id)
		if err != nil {
			return Record{}, fmt.Errorf("%s: %w", name, err)
		}
		next, err := e.operated(entry, now, v, name, a, force, change)
		if err != nil {
			return Record{}, fmt.Errorf("%s: %w", name, err)
		}
		rep, err := claims.replace(ctx, entry, next, false)
		if err != nil {
			return Record{}, fmt.Errorf("%s: %w", name, errors.Join(ErrStore, err))
		}
		if rep.OK {
			e.observe(ctx, Event{Kind: EventResolved, ID: id, State: rep.Entry.State})
			return e.viewed(rep.Entry, rep.Now)
		}
	}
	return Record{}, fmt.Errorf("%s: %w: the entry kept changing", name, ErrStore)
}

// operated is the entry after an operator's act, if the table allows it.
func (ex *Executor) operated(e Entry, now time.Time, v verb, name string, a Decision, force bool, change func(*record)) (Entry, error) {
	rec, err := e.record()
	s := meet(&e, &rec, now)
	if err != nil {
		if v != forget || !force {
			return Entry{}, err
		}
		s, rec = past, record{policy: ex.policy} // what cannot be read can only be forgotten
	}
	ed := decide(s, v)
	if ed == nil && s == over {
		return Entry{}, ErrNotFound
	}
	if ed == nil || ed.force && !force {
		return Entry{}, &RefusedError{Act: name, State: view(e, rec, now).State, Live: s == live, Force: ed != nil}
	}
	a.At, a.From = now, e.State
	e, rec = carried(e, rec)
	change(&rec)
	rec.history = append(rec.history[max(0, len(rec.history)-maxHistory+1):], a)
	rec.nonce, rec.reason, rec.heard = NewRev(), "", 0
	e.Epoch, e.State, e.Due, e.TTL = nextEpoch(e.Epoch, now), ed.to, rec.policy.Retention, rec.policy.memory()
	if ed.to == Free {
		e.Due = e.TTL
	}
	ex.answers.seal(&e, &rec)
	e.put(rec)
	return e, nil
}
