package idemhttp_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The store fails. Before the operation: nothing runs. After it: the answer is held back until it is recorded, and
// whatever happens, the operation does not run again (SO-1, SO-7).

func TestStoreDownBeforeTheOperation(t *testing.T) {
	l := newLab(t, setup{}, charged)
	l.do(post("done"))
	l.store.down()
	for _, key := range []string{"new", "done"} {
		got := l.do(post(key))
		wantProblem(t, key, got, 503, problem.StoreUnavailable)
		wantRetryAfter(t, key, got, 60)
	}
	l.wantRuns(t, 1)
	unkeyed := post("")
	unkeyed.Header.Del("Idempotency-Key")
	wantCharged(t, "SO-1 without a key", l.do(unkeyed), false)
	l.store.up()
	wantCharged(t, "new, when it is up", l.do(post("new")), false)
	wantCharged(t, "done, when it is up", l.do(post("done")), true)
}

// A claim that stands and whose answer was lost is known again by its revision.
func TestClaimsAnswerIsLostOnce(t *testing.T) {
	l := newLab(t, setup{}, charged)
	l.store.lose("create")
	lost := 0
	l.store.hook(func(context.Context, string) error {
		if lost++; lost == 2 {
			l.store.up()
		}
		return nil
	})
	wantCharged(t, "first", l.do(post("k")), false)
	wantCharged(t, "again", l.do(post("k")), true)
	l.wantRuns(t, 1)
}

// A claim that was never answered is taken back: it holds no key for something that did not run.
func TestClaimIsNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{}, charged)
		l.store.lose("create")
		wantProblem(t, "first", l.do(post("k")), 503, problem.StoreUnavailable)
		l.wantRuns(t, 0)
		l.store.up()
		advance(time.Minute)
		wantCharged(t, "again", l.do(post("k")), false)
		l.wantRuns(t, 1)
	})
}

// The store comes back within RecordWait: the caller notices nothing but the time.
func TestStoreBackBeforeRecordWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lab
		l = newLab(t, setup{core: retrysafe.Options{RecordWait: 10 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
			l.store.down("swap")
			charged(w, r)
		})
		began := time.Now()
		first := l.start(post("k"))
		advance(3 * time.Second)
		select {
		case got := <-first:
			t.Fatalf("the answer went out before it was recorded: %v", got)
		default:
		}
		wantProblem(t, "meanwhile", l.do(post("k")), 409, problem.InFlight)
		l.store.up()
		got := <-first
		wantCharged(t, "first", got, false)
		wantStatus(t, "first", got, 201, "")
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("the answer went out %v after the start", took)
		}
		wantCharged(t, "again", l.do(post("k")), true)
		l.wantRuns(t, 1)
	})
}

// The store stays away past RecordWait, past the lease even: the caller gets its answer, nothing runs again, and the
// late record still counts.
func TestStoreAwayForLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		away []string // verbs
	}{{"everything", nil}, {"writes over what stands", []string{"swap"}}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l *lab
				core := retrysafe.Options{RecordWait: 2 * time.Second, Lease: 30 * time.Second}
				l = newLab(t, setup{core: core}, func(w http.ResponseWriter, r *http.Request) {
					l.store.down(tt.away...)
					charged(w, r)
				})
				got := l.do(post("k"))
				wantCharged(t, "first", got, false)
				wantStatus(t, "first", got, 201, "unrecorded")
				if got := l.do(post("k")); got.status != 503 && got.status != 409 {
					t.Errorf("meanwhile: got %d %q", got.status, got.body)
				}
				advance(10 * time.Minute)
				if got := l.do(post("k")); got.status != 503 && got.status != 409 {
					t.Errorf("after the lease: got %d %q", got.status, got.body)
				}
				l.store.up()
				advance(time.Minute)
				wantCharged(t, "when it is back", l.do(post("k")), true)
				l.wantRuns(t, 1)
			})
		})
	}
}

// The record stands and its answer was lost: it is known again, however often it is sent.
func TestRecordsAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{core: retrysafe.Options{RecordWait: 2 * time.Second}}, charged)
		l.store.lose("swap")
		got := l.do(post("k"))
		wantCharged(t, "first", got, false)
		if said := got.header.Get("Idempotency-Status"); said != "" && said != "unrecorded" {
			t.Errorf("first: Idempotency-Status is %q", said)
		}
		wantCharged(t, "meanwhile", l.do(post("k")), true)
		l.store.up()
		advance(time.Minute)
		wantCharged(t, "when it is back", l.do(post("k")), true)
		l.wantRuns(t, 1)
	})
}

// A release that cannot be recorded yet is made up for. It is no news to the caller: nothing was done, as the answer says.
func TestStoreDownAtTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		var l *lab
		l = newLab(t, setup{core: retrysafe.Options{RecordWait: 2 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
			if busy {
				l.store.down()
				w.WriteHeader(429)
				return
			}
			charged(w, r)
		})
		wantStatus(t, "first", l.do(post("k")), 429, "")
		busy = false
		l.store.up()
		advance(time.Minute)
		wantCharged(t, "again", l.do(post("k")), false)
		l.wantRuns(t, 2)
	})
}

// Nobody knows the outcome, and that cannot be recorded yet: what counts for the caller is that nobody knows. To a
// client, unrecorded means done.
func TestStoreDownAtAnUnknownOutcome(t *testing.T) {
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l *lab
				l = newLab(t, setup{core: retrysafe.Options{RecordWait: 2 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
					l.store.down()
					idemhttp.MayHaveActed(r.Context(), "")
					w.WriteHeader(502)
					if stream {
						w.(http.Flusher).Flush()
					}
				})
				wantStatus(t, "first", l.do(post("k")), 502, "unknown")
				l.store.up()
				advance(time.Minute)
				wantProblem(t, "again", l.do(post("k")), 409, problem.OutcomeUnknown)
				l.wantRuns(t, 1)
			})
		})
	}
}

// The handler panics while the store is down: the key is not free, now or later.
func TestStoreDownAtThePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lab
		l = newLab(t, setup{core: retrysafe.Options{RecordWait: 2 * time.Second}}, func(http.ResponseWriter, *http.Request) {
			l.store.down()
			panic("boom")
		})
		wantProblem(t, "first", l.do(post("k")), 500, problem.OutcomeUnknown)
		l.store.up()
		advance(time.Minute)
		wantProblem(t, "again", l.do(post("k")), 409, problem.OutcomeUnknown)
		l.wantRuns(t, 1)
	})
}

// TT-10: a full store refuses new keys and drops none that is in use.
func TestFullStore(t *testing.T) {
	h, running, letGo := blocking()
	l := newLab(t, setup{}, h)
	l.store.Store = memstore.New(&memstore.Options{MaxEntries: 2})
	one, two := l.start(post("one")), l.start(post("two"))
	recv(t, "one", running)
	recv(t, "two", running)
	got := l.do(post("three"))
	wantProblem(t, "three", got, 503, problem.StoreUnavailable)
	wantRetryAfter(t, "three", got, 60)
	wantProblem(t, "one again", l.do(post("one")), 409, problem.InFlight)
	close(letGo)
	wantCharged(t, "one", recv(t, "one", one), false)
	wantCharged(t, "two", recv(t, "two", two), false)
	wantCharged(t, "one again", l.do(post("one")), true)
	l.wantRuns(t, 2)
}
