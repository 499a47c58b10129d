package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/process"
	"github.com/retrysafe/retrysafe/bench/sample"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// Fillers are the operations under way at once while a folder is filled: many share a sync.
const fillers = 512

// tenant is the scope of all keys.
const tenant = "tenant-7"

// fill brings a folder from one number of keys to another as a service does: every key is claimed, and its answer of
// about 300 bytes recorded.
func (s *scale) fill(ctx context.Context, dir string, from, to int, o *retrysafe.Options) (err error) {
	if from == to {
		return nil
	}
	store, err := pebblestore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	executor, err := retrysafe.New(store, o)
	if err != nil {
		return err
	}
	began := time.Now()
	var made atomic.Int64
	made.Store(int64(from))
	watch := s.progress("keys stored", &made)
	err = parallel(ctx, fillers, func(ctx context.Context) (bool, error) {
		if i := made.Add(1); i > int64(to) {
			made.Add(-1)
			return false, nil
		}
		return true, operate(ctx, executor)
	})
	watch()
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	s.quiet(ctx)
	size, err := sizeOf(dir)
	if err != nil {
		return err
	}
	s.found(fmt.Sprintf("fill of a folder, from %d to %d keys", from, to), "operations/s", "", sample.Sample{float64(to-from) / took},
		"Executor.Do in this process, %d at once, each a synced claim and a synced record with an answer of about 300 bytes; %.0f s", fillers, took)
	s.found(fmt.Sprintf("size of a folder of %d keys", to), "MiB", "", sample.Sample{float64(size) / (1 << 20)},
		"sum of its files when compaction rested; 64 MiB of it are the reserve for a full disk")
	return nil
}

// operate is one operation under a key of its own.
func operate(ctx context.Context, executor *retrysafe.Executor) error {
	id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	key := retrysafe.Key{Scope: tenant, Name: id}
	_, err := executor.Do(ctx, key, retrysafe.FingerprintOf([]byte(id)), func(context.Context) ([]byte, error) {
		return answer(id), nil
	})
	return err
}

// answer is JSON of about 300 bytes, half of it the same in all answers.
func answer(id string) []byte {
	return fmt.Appendf(nil, `{"id":"ch_%s","object":"charge","amount":%d,"currency":"jpy","captured":true,"livemode":true,"status":"succeeded",`+
		`"payment_method":"pm_%016x%016x","balance_transaction":"txn_%016x%016x","receipt":"%016x%016x","description":null}`,
		id, rand.IntN(1e6), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64())
}

// parallel calls do from n goroutines, again and again, until it returns false or an error, or ctx ends.
func parallel(ctx context.Context, n int, do func(context.Context) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for ctx.Err() == nil {
				more, err := do(ctx)
				if err != nil {
					cancel(err) // the first one counts
				}
				if !more || err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// progress tells every five seconds how far something is, until the function it returns is called.
func (s *scale) progress(what string, n *atomic.Int64) (stop func()) {
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.tell("%d %s", n.Load(), what)
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		group.Wait()
	}
}

// quiet waits until this process rests, so that what was written before is compacted: a minute at most.
func (s *scale) quiet(ctx context.Context) {
	look := s.window / 10
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last := process.CPUTime()
	for rested, looks := 0, 0; rested < 4 && looks < int(time.Minute/look); looks++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := process.CPUTime()
		if rested++; now-last > look/10 {
			rested = 0
		}
		last = now
	}
}

// sizeOf returns the bytes of the files under dir. Files that go meanwhile are not counted.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return ignoreGone(err)
	})
	return size, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
