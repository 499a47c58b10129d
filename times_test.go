package retrysafe_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// Lease, retention and memory are three times (rule 2), decided by the store's clock when an entry is read (rule 7).

// after runs an operation that ends at a moment of its own, so that its times begin at a known stamp, and lets d pass.
func (l *lab) after(t *testing.T, o retrysafe.Outcome, d time.Duration) {
	t.Helper()
	r, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, func(context.Context) retrysafe.Outcome {
		advance(time.Second)
		return o
	})
	if err != nil || r.Err != nil {
		t.Fatalf("Execute: %v, %v", err, r.Err)
	}
	advance(d)
}

// TestThreeTimes walks an entry through its life, to the microsecond, with and without a sweeper (TT-2: it makes
// no difference to anybody).
func TestThreeTimes(t *testing.T) {
	const tick = time.Microsecond
	failed := retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: []byte("500")}
	o := retrysafe.Options{Retention: time.Hour, Remember: 10 * time.Hour}
	off := retrysafe.Options{Retention: time.Hour, Remember: retrysafe.Off}
	tests := []struct {
		name string
		o    retrysafe.Options
		out  retrysafe.Outcome
		age  time.Duration
		want error // nil: replay, or a run where runs is true
		runs bool
	}{
		{"answer kept, at its last tick", o, completed, time.Hour - tick, nil, false},
		{"answer gone, key remembered", o, completed, time.Hour, retrysafe.ErrExpired, false},
		{"key remembered, at its last tick", o, completed, 11*time.Hour - tick, retrysafe.ErrExpired, false},
		{"key forgotten", o, completed, 11 * time.Hour, nil, true},
		{"failure kept, at its last tick", o, failed, time.Hour - tick, retrysafe.ErrFailed, false},
		{"failure gone, key remembered", o, failed, time.Hour, retrysafe.ErrExpired, false},
		{"failure, key forgotten", o, failed, 11 * time.Hour, nil, true},
		{"no memory, answer kept", off, completed, time.Hour - tick, nil, false},
		{"no memory, forgotten with its answer", off, completed, time.Hour, nil, true},
		{"unknown is held for ever", o, retrysafe.Outcome{}, 100 * 365 * 24 * time.Hour, retrysafe.ErrUnknownOutcome, false},
		{"unknown without memory is held for ever too", off, retrysafe.Outcome{}, 100 * 365 * 24 * time.Hour, retrysafe.ErrUnknownOutcome, false},
	}
	for _, tt := range tests {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, swept %v", tt.name, swept), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, &tt.o)
					l.after(t, tt.out, tt.age)
					if swept {
						if _, err := l.Sweep(t.Context()); err != nil {
							t.Fatalf("Sweep: %v", err)
						}
					}
					ran := false
					_, err := l.Do(t.Context(), order, payload, func(ctx context.Context) ([]byte, error) { ran = true; return paid(ctx) })
					wantErr(t, "Do", err, tt.want)
					if ran != tt.runs {
						t.Errorf("ran: %v, want %v", ran, tt.runs)
					}
				})
			})
		}
	}
}

// TestRetentionCountsFromTheEnd is TT-1: TTL 2 s, an operation of 1.5 s, a retry 3 s after the claim.
func TestRetentionCountsFromTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: 2 * time.Second})
		l.mustDo(t, slowly(1500*time.Millisecond))
		advance(1500 * time.Millisecond)
		r := l.mustDo(t, never(t))
		if r.Verdict != retrysafe.Replay || r.Left != 500*time.Millisecond || r.Age != 3*time.Second {
			t.Errorf("Do: %v with %v left at age %v, want replay, 500ms, 3s", r.Verdict, r.Left, r.Age)
		}
	})
}

// TestPolicyStoredWithTheClaimDecides, not the configuration of whoever meets it.
func TestPolicyStoredWithTheClaimDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Retention: time.Hour, Remember: time.Hour})
		l.after(t, completed, time.Minute)
		short := labOver(t, l.store, &retrysafe.Options{Retention: time.Second, Remember: retrysafe.Off})
		short.Sweep(t.Context())
		short.mustDo(t, never(t))
		advance(time.Hour)
		_, err := short.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do after the owner's retention", err, retrysafe.ErrExpired)
	})
}

// TestClockOfTheProcess is TT-5: a process whose clock is wrong steals no claim, and is told a time within the lease.
// The store's clock is its own here: it lags behind the bubble's by a day.
func TestClockOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{Store: memstore.New(nil)}
		l := labBehind(t, s, &skewed{Store: s, by: -24 * time.Hour}, &retrysafe.Options{OnLeaseEnd: retrysafe.Rerun})
		go l.Do(t.Context(), order, payload, slowly(time.Minute))
		advance(20 * time.Second)
		r, err := l.Do(t.Context(), order, payload, never(t))
		wantErr(t, "Do", err, retrysafe.ErrInFlight)
		if r.Left <= 0 || r.Left > 30*time.Second || r.Age != 20*time.Second {
			t.Errorf("%v left at age %v, want at most the lease of 30s, and 20s", r.Left, r.Age)
		}
		advance(time.Minute)
		l.mustDo(t, never(t))
	})
}

// skewed is a store whose clock differs from the process's.
type skewed struct {
	retrysafe.Store
	by time.Duration
}

func (s *skewed) shift(r retrysafe.Reply, err error) (retrysafe.Reply, error) {
	r.Now = r.Now.Add(s.by)
	if r.Found {
		r.Entry.Stamp = r.Entry.Stamp.Add(s.by)
	}
	return r, err
}

func (s *skewed) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.shift(s.Store.Create(ctx, e))
}

func (s *skewed) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.shift(s.Store.Swap(ctx, old, e))
}

// TestOptions: zero is the default, Off is off, nonsense is refused at once.
func TestOptions(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if got := e.Policy(); got != hold {
		t.Errorf("default policy is %+v, want %+v", got, hold)
	}
	e, err = retrysafe.New(memstore.New(nil), &retrysafe.Options{Remember: retrysafe.Off, Wait: retrysafe.Off, Lease: 1500 * time.Nanosecond})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if got := e.Policy(); got.Remember != 0 || got.Lease != time.Microsecond {
		t.Errorf("policy is %+v, want no memory and a lease of whole microseconds", got)
	}
	refused := map[string]retrysafe.Options{
		"Lease off":          {Lease: retrysafe.Off},
		"Lease negative":     {Lease: -time.Second},
		"Lease too short":    {Lease: 999 * time.Nanosecond},
		"Retention off":      {Retention: retrysafe.Off},
		"Remember negative":  {Remember: -2},
		"Wait negative":      {Wait: -time.Second},
		"RecordWait off":     {RecordWait: retrysafe.Off},
		"MaxRun off":         {MaxRun: retrysafe.Off},
		"StoreTimeout off":   {StoreTimeout: retrysafe.Off},
		"SweepInterval off":  {SweepInterval: retrysafe.Off},
		"PollInterval off":   {PollInterval: retrysafe.Off},
		"recover by nobody":  {OnLeaseEnd: retrysafe.Recover},
		"no such OnLeaseEnd": {OnLeaseEnd: 3},
	}
	for name, o := range refused {
		if _, err := retrysafe.New(memstore.New(nil), &o); err == nil {
			t.Errorf("New with %s: no error", name)
		} else {
			wantErr(t, "New with "+name, err, retrysafe.ErrInvalid)
		}
	}
}

// TestLongestTimes is TT-7: somebody who keeps answers for ever says so with the longest time there is. A sum that
// overflowed would forget the key at once.
func TestLongestTimes(t *testing.T) {
	for name, o := range map[string]retrysafe.Options{
		"retention":            {Retention: math.MaxInt64},
		"memory":               {Remember: math.MaxInt64},
		"retention and memory": {Retention: math.MaxInt64, Remember: math.MaxInt64},
		"lease":                {Lease: math.MaxInt64},
		"run, wait and record": {MaxRun: math.MaxInt64, Wait: math.MaxInt64, RecordWait: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, &o)
				l.mustDo(t, slowly(time.Minute))
				advance(time.Hour)
				if r := l.mustDo(t, never(t)); r.Verdict != retrysafe.Replay {
					t.Errorf("Do an hour later: %v, want replay", r.Verdict)
				}
			})
		})
	}
}

// TestPolicyOfARequest: one that makes no sense is refused before anything is written, as the Executor's would be.
func TestPolicyOfARequest(t *testing.T) {
	with := func(change func(*retrysafe.Policy)) retrysafe.Policy {
		p := hold
		change(&p)
		return p
	}
	for name, p := range map[string]retrysafe.Policy{
		"nothing set":        {},
		"no lease":           with(func(p *retrysafe.Policy) { p.Lease = 0 }),
		"negative lease":     with(func(p *retrysafe.Policy) { p.Lease = -time.Second }),
		"negative retention": with(func(p *retrysafe.Policy) { p.Retention = -time.Second }),
		"negative memory":    with(func(p *retrysafe.Policy) { p.Remember = -time.Second }),
		"no such OnLeaseEnd": with(func(p *retrysafe.Policy) { p.OnLeaseEnd = 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				_, err := l.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload, Policy: &p}, func(context.Context) retrysafe.Outcome {
					t.Error("the operation ran")
					return completed
				})
				wantErr(t, "Execute", err, retrysafe.ErrInvalid)
				if n := l.store.count(); n != 0 {
					t.Errorf("%d store calls, want none", n)
				}
			})
		})
	}
}

// TestKeyWithoutAName is refused.
func TestKeyWithoutAName(t *testing.T) {
	l := newLab(t, nil)
	_, err := l.Do(t.Context(), retrysafe.Key{Scope: "tenant-7"}, payload, never(t))
	wantErr(t, "Do", err, retrysafe.ErrInvalid)
}
