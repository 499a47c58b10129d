package retrysafe

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Off switches an option off whose zero value means its default.
const Off time.Duration = -1

// Options are what an Executor does unless a [Request] says otherwise. Nil, and the zero value of each field,
// is the default.
type Options struct {
	Lease      time.Duration // how long a claim stands without a sign of life; extended at a third. Defaults to 30 s
	Retention  time.Duration // how long answers are kept. Defaults to 24 h
	Remember   time.Duration // how long keys are remembered after that. Defaults to 30 days; Off forgets them with the answer
	OnLeaseEnd LeaseEnd      // what becomes of a claim whose owner is gone. Defaults to Hold
	Recover    RecoverFunc   // asks what happened; needed by OnLeaseEnd Recover
	Wait       time.Duration // how long Do waits for another attempt to end. Defaults to 0: ErrInFlight at once
	RecordWait time.Duration // how long an answer is held back until it is recorded. Defaults to 10 s
	MaxRun     time.Duration // for how long a lease is extended at most. Defaults to 1 h

	StoreTimeout  time.Duration // of one store call. Defaults to 5 s
	SweepInterval time.Duration // between two passes of the sweeper. Defaults to 5 s
	PollInterval  time.Duration // between two looks for all waiters, where the store cannot tell. Defaults to 25 ms

	// FingerprintKeys seal fingerprints: the first seals, the others are still known. Each is at least
	// MinFingerprintKey random bytes. Defaults to one random key kept in the store itself.
	FingerprintKeys [][]byte

	// AnswerKeys seal stored answers with AES-256-GCM: the first seals, all open. Each is AnswerKey random bytes, and no
	// fingerprint key too. Defaults to none: answers are kept in clear.
	AnswerKeys [][]byte

	Observer Observer     // is told what happens. Defaults to none
	Logger   *slog.Logger // at Debug and Error only; never a key or a payload. Defaults to silence
}

// A RecoverFunc asks the world what became of an operation whose owner is gone. Its Outcome settles the
// claim: Free means that it certainly did not happen and never will, and lets the caller run it. An error, or
// the zero Outcome, leaves it unknown. What the owner sent may still be on its way: [QuietOf] says since when it has
// been silent.
type RecoverFunc func(ctx context.Context, key Key) (Outcome, error)

// longest bounds every time, so that no sum of two overflows: a century stands for ever.
const longest = 100 * 365 * 24 * time.Hour

// fill puts defaults in place of zeros and refuses what makes no sense.
func (o *Options) fill() error {
	for _, d := range []struct {
		name     string
		p        *time.Duration
		fallback time.Duration
		off      bool
	}{
		{"Lease", &o.Lease, 30 * time.Second, false}, {"Retention", &o.Retention, 24 * time.Hour, false},
		{"Remember", &o.Remember, 30 * 24 * time.Hour, true}, {"Wait", &o.Wait, 0, true},
		{"RecordWait", &o.RecordWait, 10 * time.Second, false}, {"MaxRun", &o.MaxRun, time.Hour, false},
		{"StoreTimeout", &o.StoreTimeout, 5 * time.Second, false}, {"SweepInterval", &o.SweepInterval, 5 * time.Second, false},
		{"PollInterval", &o.PollInterval, 25 * time.Millisecond, false},
	} {
		switch {
		case *d.p == 0:
			*d.p = d.fallback
		case *d.p == Off && d.off:
			*d.p = 0
		case *d.p < time.Microsecond:
			return fmt.Errorf("%w: option %s is %v: want a positive time", ErrInvalid, d.name, *d.p)
		}
		*d.p = min(*d.p, longest).Truncate(time.Microsecond)
	}
	if o.OnLeaseEnd > Recover || o.OnLeaseEnd == Recover && o.Recover == nil {
		return fmt.Errorf("%w: option OnLeaseEnd is %v: want Hold, Rerun, or Recover with a Recover function", ErrInvalid, o.OnLeaseEnd)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
