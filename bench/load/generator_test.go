package load

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A recorder is a server that knows what it was sent.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls int
	keys  map[string]int // times each key came; "" for none
	bad   []string       // what was wrong with requests
}

// newRecorder starts a server that notes every request and answers with answer,
// which gets the number of the call and of the calls with its key, from 1.
func newRecorder(t *testing.T, answer func(w http.ResponseWriter, call, withKey int)) *recorder {
	r := &recorder{keys: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call, withKey := r.note(req)
		answer(w, call, withKey)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) note(req *http.Request) (call, withKey int) {
	content, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || !json.Valid(content) || int64(len(content)) != req.ContentLength {
		r.bad = append(r.bad, string(content))
	}
	key := req.Header.Get("Idempotency-Key")
	r.calls++
	r.keys[key]++
	return r.calls, r.keys[key]
}

func created(w http.ResponseWriter, _, _ int) {
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"id":"ch_1"}`)
}

// run runs p and fails t if Run does, or if the server saw what it should not.
func (r *recorder) run(t *testing.T, p Plan) Report {
	t.Helper()
	g, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Close() // waits for handlers under way, so that reading the counts is safe
	if len(r.bad) > 0 {
		t.Errorf("%d requests had a bad body, the first %q", len(r.bad), r.bad[0])
	}
	return got
}

// checkClean fails t unless every request was answered, all with status.
func checkClean(t *testing.T, got Report, status int) {
	t.Helper()
	if got.Errors != 0 || got.FirstError != "" || got.GaveUp != 0 {
		t.Errorf("got %d errors, first %q, %d gave up; want none", got.Errors, got.FirstError, got.GaveUp)
	}
	if got.Requests == 0 || got.Statuses[status] != got.Requests || len(got.Statuses) != 1 {
		t.Errorf("got statuses %v of %d requests; want only %d", got.Statuses, got.Requests, status)
	}
	l := got.Latency
	if l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max || l.Max > got.Seconds*1e6 {
		t.Errorf("latency %+v is out of order or longer than %v s", l, got.Seconds)
	}
	if rate := float64(got.Requests) / got.Seconds; got.Rate != rate || got.CPUSeconds <= 0 {
		t.Errorf("rate %v, CPU %v s; want rate %v and some CPU", got.Rate, got.CPUSeconds, rate)
	}
}

func TestUniqueKeysAreAllDifferent(t *testing.T) {
	r := newRecorder(t, created)
	got := r.run(t, testPlan(r.URL))
	checkClean(t, got, 201)
	if got.Requests != uint64(r.calls) || got.Sent != uint64(r.calls) || len(r.keys) != r.calls {
		t.Errorf("%d requests, %d sent; the server had %d with %d keys", got.Requests, got.Sent, r.calls, len(r.keys))
	}
	if r.keys[""] != 0 {
		t.Errorf("%d requests had no key", r.keys[""])
	}
	if got.Seconds < 0.05 {
		t.Errorf("window was %v s; want 0.05 at least", got.Seconds)
	}
}

func TestPlainRequestsHaveNoKey(t *testing.T) {
	r := newRecorder(t, created)
	p := testPlan(r.URL)
	p.Mode, p.Method = Plain, "PATCH"
	got := r.run(t, p)
	checkClean(t, got, 201)
	if r.keys[""] != r.calls || got.Requests != uint64(r.calls) {
		t.Errorf("%d requests; the server had %d, %d of them without key", got.Requests, r.calls, r.keys[""])
	}
}

func TestReplaysAreCountedAndEachKeyIsSentOnceBefore(t *testing.T) {
	for _, keys := range []int{1, 3, 100} { // fewer and more than connections
		r := newRecorder(t, func(w http.ResponseWriter, call, withKey int) {
			if withKey > 1 {
				w.Header().Set("Idempotent-Replayed", "true")
			}
			if first := call <= keys; first != (withKey == 1) {
				w.WriteHeader(http.StatusTeapot) // a first sending after the clock started, or a replay before
				return
			}
			created(w, call, withKey)
		})
		p := testPlan(r.URL)
		p.Mode, p.Keys, p.Connections = Replay, keys, 7
		got := r.run(t, p)
		checkClean(t, got, 201)
		if len(r.keys) != keys || got.Sent != uint64(r.calls) || got.Requests != got.Sent-uint64(keys) {
			t.Errorf("%d keys: %d requests, %d sent; the server had %d with %d keys", keys, got.Requests, got.Sent, r.calls, len(r.keys))
		}
		if got.Replayed != got.Requests {
			t.Errorf("%d keys: %d of %d answers counted as replays", keys, got.Replayed, got.Requests)
		}
	}
}

func TestReplaysGoRoundAllKeys(t *testing.T) {
	r := newRecorder(t, created)
	p := testPlan(r.URL)
	p.Mode, p.Keys, p.Connections = Replay, 5, 1
	r.run(t, p)
	least, most := r.calls, 0
	for _, n := range r.keys {
		least, most = min(least, n), max(most, n)
	}
	if len(r.keys) != 5 || most-least > 1 {
		t.Errorf("%d keys came %d to %d times; want 5 keys, equally often", len(r.keys), least, most)
	}
}

func TestWarmupIsNotMeasured(t *testing.T) {
	r := newRecorder(t, created)
	p := testPlan(r.URL)
	p.Warmup = 50 * time.Millisecond
	begun := time.Now()
	got := r.run(t, p)
	window := time.Since(begun) - p.Warmup // at most
	checkClean(t, got, 201)
	if got.Seconds > window.Seconds() {
		t.Errorf("window was %v s; want at most %v", got.Seconds, window)
	}
	if got.Sent != uint64(r.calls) || got.Requests >= got.Sent {
		t.Errorf("%d requests measured of %d; the server had %d", got.Requests, got.Sent, r.calls)
	}
}

func TestChunkedAnswersAreRead(t *testing.T) {
	r := newRecorder(t, func(w http.ResponseWriter, call, _ int) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, strings.Repeat("a", call%5000))
		w.(http.Flusher).Flush()
		io.WriteString(w, "b")
		w.Header().Set("X-Sum", "1")
	})
	got := r.run(t, testPlan(r.URL))
	checkClean(t, got, 200)
	if got.Requests != uint64(r.calls) {
		t.Errorf("%d requests; the server had %d", got.Requests, r.calls)
	}
}

func TestEveryStatusIsAnAnswer(t *testing.T) {
	statuses := []int{200, 204, 304, 409, 422, 503}
	r := newRecorder(t, func(w http.ResponseWriter, call, _ int) { w.WriteHeader(statuses[call%len(statuses)]) })
	got := r.run(t, testPlan(r.URL))
	for i, status := range statuses {
		want := uint64((r.calls + len(statuses) - i) / len(statuses))
		if i == 0 {
			want-- // calls are counted from 1
		}
		if got.Statuses[status] != want {
			t.Errorf("status %d came %d times; want %d", status, got.Statuses[status], want)
		}
	}
	if got.Errors != 0 || got.Requests != uint64(r.calls) {
		t.Errorf("%d requests, %d errors, first %q; the server had %d", got.Requests, got.Errors, got.FirstError, r.calls)
	}
}
