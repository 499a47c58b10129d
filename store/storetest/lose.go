package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// ErrAnswerLost is what a store returned by [LoseAnswers] says in place of an answer.
var ErrAnswerLost = errors.New("storetest: the answer was lost")

// LoseAnswers returns s with the first answer to every write lost: the write is done, its caller gets
// [ErrAnswerLost] and has to send the same write again. Errors of s itself pass, and count for no answer.
// Reads are untouched. The result is a [retrysafe.Waiter] and a [retrysafe.Inspector] where s is; whatever
// else s is, it is not.
func LoseAnswers(s retrysafe.Store) retrysafe.Store {
	l := &losing{Store: s, told: map[write]bool{}}
	w, waits := s.(retrysafe.Waiter)
	i, lists := s.(retrysafe.Inspector)
	switch {
	case waits && lists:
		return struct {
			*losing
			retrysafe.Waiter
			retrysafe.Inspector
		}{l, w, i}
	case waits:
		return struct {
			*losing
			retrysafe.Waiter
		}{l, w}
	case lists:
		return struct {
			*losing
			retrysafe.Inspector
		}{l, i}
	}
	return l
}

// A write is what a repeated sending has in common with the first.
type write struct {
	id  retrysafe.ID
	rev retrysafe.Rev // that it writes, or that it deletes
	del bool
}

type losing struct {
	retrysafe.Store
	mu   sync.Mutex
	told map[write]bool // whose first answer is lost already; guarded by mu
}

func (l *losing) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	rep, err := l.Store.Create(ctx, e)
	return l.answer(write{id: e.ID, rev: e.Rev}, rep, err)
}

func (l *losing) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	rep, err := l.Store.Swap(ctx, old, e)
	return l.answer(write{id: e.ID, rev: e.Rev}, rep, err)
}

func (l *losing) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	rep, err := l.Store.Delete(ctx, id, old)
	return l.answer(write{id: id, rev: old, del: true}, rep, err)
}

func (l *losing) answer(w write, rep retrysafe.Reply, err error) (retrysafe.Reply, error) {
	if err != nil {
		return rep, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told[w] {
		l.told[w] = true
		return retrysafe.Reply{}, ErrAnswerLost
	}
	return rep, nil
}

// insisting sends a write again whose answer was lost, as every caller of a Store must.
type insisting struct{ retrysafe.Store }

func (s insisting) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return insist(func() (retrysafe.Reply, error) { return s.Store.Create(ctx, e) })
}

func (s insisting) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return insist(func() (retrysafe.Reply, error) { return s.Store.Swap(ctx, old, e) })
}

func (s insisting) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	return insist(func() (retrysafe.Reply, error) { return s.Store.Delete(ctx, id, old) })
}

// insist does not believe ErrNotWritten of a later sending: it tells nothing about the first.
func insist(send func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	rep, err := send()
	if !errors.Is(err, ErrAnswerLost) {
		return rep, err
	}
	if rep, err = send(); err != nil {
		return rep, fmt.Errorf("send again what was not answered: %v", err)
	}
	return rep, nil
}
