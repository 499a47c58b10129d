package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/process"
	"github.com/retrysafe/retrysafe/bench/sample"
	"github.com/retrysafe/retrysafe/store/memstore"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// claimants are the claims under way at once.
const claimants = 64

// claims compares claims in the big folder with claims in an empty one, which is a new one in each round.
func (s *scale) claims(ctx context.Context, dir string) (err error) {
	big, err := pebblestore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, big.Close()) }()
	var full, empty paces
	for round := range s.rounds {
		turns := []func() error{
			func() error { return s.claimFor(ctx, big, &full) },
			func() error { return s.claimInNew(ctx, &empty) },
		}
		for i := range turns {
			if err := turns[(round+i)%len(turns)](); err != nil { // nobody is always first
				return err
			}
		}
		s.tell("round %d: %.0f claims/s among %d keys, %.0f in an empty folder", round+1, full.rate[round], s.keys, empty.rate[round])
	}
	const how = "Store.Create of fresh claims that the core made, in this process, %d at once, rounds interleaved, %v each; what was claimed is deleted off the clock"
	s.found("claims in an empty folder", "claims/s", "", empty.rate, how, claimants, s.window)
	s.found(fmt.Sprintf("claims among %d keys", s.keys), "claims/s", "", full.rate, how, claimants, s.window)
	s.found("ratio of the two", "", ">= 0.9", full.rate.Over(empty.rate), "round by round")
	s.found("CPU of a claim in an empty folder", "us", "", empty.cpu, cpuHow)
	s.found(fmt.Sprintf("CPU of a claim among %d keys", s.keys), "us", "", full.cpu, cpuHow)
	return nil
}

func (s *scale) claimInNew(ctx context.Context, p *paces) error {
	dir := s.folder("empty")
	defer os.RemoveAll(dir)
	store, err := pebblestore.Open(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(s.claimFor(ctx, store, p), store.Close())
}

// paces are those of claims, round by round.
type paces struct{ rate, cpu sample.Sample } // claims/s; us a claim

const cpuHow = "of this process in those windows, what Pebble does in the background included; a busy machine disturbs it less than a rate"

// claimFor measures claims for one window. What was claimed is undone, and the store rests.
func (s *scale) claimFor(ctx context.Context, store retrysafe.Store, p *paces) error {
	claims, err := pressed(ctx, s.atMost())
	if err != nil {
		return err
	}
	n, err := s.claimNow(ctx, store, claims, p)
	if err != nil {
		return err
	}
	return s.undo(ctx, store, claims[:n])
}

// claimNow writes claims for one window, and adds their pace. It returns how many.
func (s *scale) claimNow(ctx context.Context, store retrysafe.Store, claims []retrysafe.Entry, p *paces) (int, error) {
	began, cpu := time.Now(), process.CPUTime()
	n, err := create(ctx, store, claims, s.window)
	if err != nil {
		return n, err
	}
	p.rate = append(p.rate, float64(n)/time.Since(began).Seconds())
	p.cpu = append(p.cpu, float64((process.CPUTime()-cpu).Microseconds())/float64(n))
	return n, nil
}

// fastest bounds how many claims a second are made ready: a window in which they run out is cut short.
const fastest = 80_000

func (s *scale) atMost() int { return int(s.window.Seconds()*fastest) + claimants }

// create writes the claims, in their order, until all are written or the time is over. It returns how many.
func create(ctx context.Context, store retrysafe.Store, claims []retrysafe.Entry, atMost time.Duration) (int, error) {
	end := time.Now().Add(atMost)
	var next atomic.Int64
	err := parallel(ctx, claimants, func(ctx context.Context) (bool, error) {
		if time.Now().After(end) {
			return false, nil
		}
		i := int(next.Add(1) - 1)
		if i >= len(claims) {
			return false, nil
		}
		rep, err := store.Create(ctx, claims[i])
		if err == nil && !rep.OK {
			err = errors.New("a fresh key was taken")
		}
		return true, err
	})
	return min(int(next.Load()), len(claims)), err
}

// undo deletes the claims again, and lets the store rest: left in flight, they would be what the next opening has to
// look after.
func (s *scale) undo(ctx context.Context, store retrysafe.Store, made []retrysafe.Entry) error {
	defer s.quiet(ctx)
	var next atomic.Int64
	return parallel(ctx, fillers, func(ctx context.Context) (bool, error) {
		i := int(next.Add(1) - 1)
		if i >= len(made) {
			return false, nil
		}
		_, err := store.Delete(ctx, made[i].ID, made[i].Rev)
		return true, err
	})
}

// A press is a Store that keeps the claims it is sent, and refuses them: so entries are had as the core makes them.
type press struct {
	*memstore.Store // for what the core keeps itself
	mu              sync.Mutex
	claims          []retrysafe.Entry
}

// Create keeps a claim.
func (p *press) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	if e.State != retrysafe.InFlight {
		return p.Store.Create(ctx, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = append(p.claims, e)
	return retrysafe.Reply{}, retrysafe.ErrNotWritten
}

// pressed returns n fresh claims.
func pressed(ctx context.Context, n int) ([]retrysafe.Entry, error) {
	p := &press{Store: memstore.New(nil)}
	executor, err := retrysafe.New(p, nil)
	if err != nil {
		return nil, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	err = parallel(ctx, 4, func(ctx context.Context) (bool, error) {
		if left.Add(-1) < 0 {
			return false, nil
		}
		if err := operate(ctx, executor); !errors.Is(err, retrysafe.ErrNotWritten) {
			return false, fmt.Errorf("make a claim: %w", err)
		}
		return true, nil
	})
	return p.claims, err
}
