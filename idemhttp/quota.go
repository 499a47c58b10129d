package idemhttp

import (
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Quota bounds what the requests with a key of one scope may take, in this process. What is beyond it gets 429 with a
// truthful Retry-After, and nothing of it is claimed or runs. Retries count like first requests: the layer does not
// know which it is before it asks the store.
type Quota struct {
	Rate     float64 // requests a second, over time; 0: no bound
	Burst    int     // requests at once that Rate lets through after a rest. Defaults to one second's worth, at least 1
	InFlight int     // requests under way at once; 0: no bound
}

func (q Quota) check() error {
	if q.Rate < 0 || q.Burst < 0 || q.InFlight < 0 || math.IsNaN(q.Rate) || math.IsInf(q.Rate, 0) {
		return errors.New("Quota must be of finite numbers that are not negative")
	}
	return nil
}

// maxTenants bounds how many scopes are remembered. Beyond it those go first that are at rest: they would find their
// quota whole. What they are told does not change by that.
const maxTenants = 10000

// Quotas counts what the scopes take, over all requests of the Middlewares that share it. Use NewQuotas.
type Quotas struct {
	Quota
	mu      sync.Mutex
	tenants map[string]*tenant
}

// NewQuotas returns Quotas that give each scope q.
func NewQuotas(q Quota) *Quotas {
	if q.Burst == 0 {
		q.Burst = int(min(max(math.Ceil(q.Rate), 1), math.MaxInt32))
	}
	return &Quotas{Quota: q}
}

// A tenant is one scope. Nil is one without a quota.
type tenant struct {
	limiter  *rate.Limiter // nil: no rate
	inFlight int           // guarded by the mu of Quotas
}

// enter lets a request of a scope in, or says after how long it may come again. Who was let in leaves.
func (q *Quotas) enter(scope string) (t *tenant, after time.Duration) {
	if q.Rate == 0 && q.InFlight == 0 {
		return nil, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t = q.tenants[scope]
	if t == nil {
		t = q.add(scope)
	}
	if q.InFlight > 0 && t.inFlight >= q.InFlight {
		return nil, time.Second
	}
	if t.limiter != nil {
		if r := t.limiter.Reserve(); r.Delay() > 0 {
			after = r.Delay()
			r.Cancel()
			return nil, after
		}
	}
	t.inFlight++
	return t, 0
}

func (q *Quotas) leave(t *tenant) {
	if t == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.inFlight--
}

// add makes room for a scope and lets it in.
func (q *Quotas) add(scope string) *tenant {
	if q.tenants == nil {
		q.tenants = map[string]*tenant{}
	}
	if len(q.tenants) >= maxTenants {
		q.evict()
	}
	t := &tenant{}
	if q.Rate > 0 {
		t.limiter = rate.NewLimiter(rate.Limit(q.Rate), q.Burst)
	}
	q.tenants[scope] = t
	return t
}

// evict takes some scopes out: those at rest that it meets among a few, or else one that has nothing under way.
func (q *Quotas) evict() {
	var spare string
	found, looked := false, 0
	for scope, t := range q.tenants { // in random order
		if t.inFlight > 0 {
			continue
		}
		if t.limiter == nil || t.limiter.Tokens() >= float64(q.Burst) {
			delete(q.tenants, scope)
			return
		}
		spare, found = scope, true
		if looked++; looked == 64 {
			break
		}
	}
	if found {
		delete(q.tenants, spare)
	}
}
