package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/sample"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// retention is that of the keys that the sweep finds expired. They are remembered on, as is the default: a sweep makes
// tombstones of them.
const retention = 100 * time.Millisecond

// A sweeping is the folder of expired keys, and what was found in it.
type sweeping struct {
	*scale
	store    *pebblestore.Store
	executor *retrysafe.Executor

	undisturbed, disturbed paces
	speed, alone           sample.Sample // keys/s swept, with claims and without
	swept                  int
}

// sweep compares claims while expired keys are swept with claims while they only lie there.
func (s *scale) sweep(ctx context.Context) (err error) {
	dir, n := s.folder("expired"), s.keys/3
	if err := s.fill(ctx, dir, 0, n, &retrysafe.Options{Retention: retention}); err != nil {
		return err
	}
	if err := pause(ctx, 2*retention); err != nil {
		return err
	}
	w := &sweeping{scale: s}
	if w.store, err = pebblestore.Open(dir, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	if w.executor, err = retrysafe.New(w.store, nil); err != nil {
		return err
	}
	if err := w.rounds(ctx); err != nil {
		return err
	}
	w.tellAll(n)
	return nil
}

func (w *sweeping) rounds(ctx context.Context) error {
	for round := range w.scale.rounds {
		turns := []func() error{
			func() error { return w.claimFor(ctx, w.store, &w.undisturbed) },
			func() error { return w.claimDuringSweep(ctx) },
			func() error {
				return w.during(ctx, &w.alone, func() error { return pause(ctx, w.window) })
			},
		}
		for i := range turns {
			if err := turns[(round+i)%len(turns)](); err != nil { // nobody is always first
				return err
			}
		}
		w.tell("round %d: %.0f claims/s undisturbed, %.0f during a sweep of %.0f keys/s, which alone does %.0f keys/s",
			round+1, w.undisturbed.rate[round], w.disturbed.rate[round], w.speed[round], w.alone[round])
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claimDuringSweep is claimFor while the sweeper runs.
func (w *sweeping) claimDuringSweep(ctx context.Context) error {
	claims, err := pressed(ctx, w.atMost())
	if err != nil {
		return err
	}
	n := 0
	err = w.during(ctx, &w.speed, func() error {
		return w.serving(ctx, func() (err error) {
			n, err = w.claimNow(ctx, w.store, claims, &w.disturbed)
			return err
		})
	})
	if err != nil {
		return err
	}
	return w.undo(ctx, w.store, claims[:n])
}

// serving is do, with an operation of the Executor under way meanwhile: a sweep gives way to those, and the claims of
// this measurement are made beside it.
func (w *sweeping) serving(ctx context.Context, do func() error) error {
	key := retrysafe.Key{Scope: "scale", Name: rand.Text()}
	_, err := w.executor.Do(ctx, key, retrysafe.Fingerprint{}, func(context.Context) ([]byte, error) { return nil, do() })
	return err
}

// during sweeps while do does something, and adds how many keys a second were swept. It is an error if the expired keys
// run out before do is over: then it was not disturbed all the time.
func (w *sweeping) during(ctx context.Context, speed *sample.Sample, do func() error) error {
	sweeping, stop := context.WithCancel(ctx)
	defer stop()
	type end struct {
		n   int
		err error
	}
	ended := make(chan end, 1)
	began := time.Now()
	go func() {
		n, err := w.executor.Sweep(sweeping)
		ended <- end{n, err}
	}()
	err := do()
	stop()
	e := <-ended
	w.swept += e.n
	*speed = append(*speed, float64(e.n)/time.Since(began).Seconds())
	switch {
	case err != nil:
		return err
	case e.err == nil:
		return fmt.Errorf("the expired keys ran out after %d: want more -keys, or a shorter -window", w.swept)
	case !errors.Is(e.err, context.Canceled):
		return e.err
	}
	return ctx.Err()
}

func (w *sweeping) tellAll(n int) {
	how := fmt.Sprintf("as above, in a folder of %d keys whose answers have expired, rounds interleaved, %v each", n, w.window)
	w.found("claims beside expired keys, undisturbed", "claims/s", "", w.undisturbed.rate, "%s", how)
	w.found("claims during the sweep", "claims/s", "", w.disturbed.rate, "%s; Executor.Sweep in this process at the same time", how)
	w.found("ratio of the two", "", ">= 0.8", w.disturbed.rate.Over(w.undisturbed.rate), "round by round")
	w.found("keys swept during claims", "keys/s", "", w.speed, "by that Sweep, each made a tombstone; %d of %d swept in all measurements", w.swept, n)
	w.found("keys swept without claims", "keys/s", "", w.alone, "Executor.Sweep and nothing else; a million keys take %.0f s at that speed", 1e6/w.alone.Median())
}
