package idemhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// A scenario brings a situation about, expects what the caller is told, and sends again when the cause is gone:
// what the layer answers by itself is never stored.
type scenario struct {
	bubble bool // time passes: it plays in a synctest bubble
	play   func(t *testing.T, s problem.Situation)
}

// TestSituations plays every row of the protocol.
func TestSituations(t *testing.T) {
	scenarios := allScenarios()
	for _, s := range problem.Situations {
		c, ok := scenarios[s.Name]
		if !ok {
			t.Errorf("row %q has no scenario", s.Name)
			continue
		}
		delete(scenarios, s.Name)
		t.Run(s.Name, func(t *testing.T) {
			if !c.bubble {
				c.play(t, s)
				return
			}
			synctest.Test(t, func(t *testing.T) { c.play(t, s) })
		})
	}
	for name := range scenarios {
		t.Errorf("scenario %q has no row in the protocol", name)
	}
}

func allScenarios() map[string]scenario {
	return map[string]scenario{
		"first, done":        {play: playFirst},
		"again, answer kept": {play: playReplay},
		"again, answer not kept (too large, or streamed)": {play: playNotKept},
		"key missing where required":                      {play: playKeyMissing},
		"key malformed, empty, doubled or too long":       {play: playKeyInvalid},
		"other fingerprint under the same key and scope (also in flight, also after expiry while remembered)": {bubble: true, play: playKeyReused},
		"in flight": {play: playInFlight},
		"nothing was sent upstream (dial, DNS, TLS)":                                                  {play: playUnreachable},
		"upstream may have acted, no whole answer: the first caller":                                  {play: playUpstreamMayHaveActed},
		"the same key again while held":                                                               {play: playHeld},
		"handler or upstream answered 5xx (a whole answer; not 503 with Retry-After, which releases)": {play: playFailed},
		"answer gone, key remembered":                                                                 {bubble: true, play: playExpired},
		"ran, could not be recorded yet":                                                              {bubble: true, play: playUnrecorded},
		"scope source missing":                                                                        {play: playScopeMissing},
		"too many keys or requests of one tenant":                                                     {play: playQuota},
		"recovery of this key is running":                                                             {bubble: true, play: playRecovering},
		"handler panicked":                                                                            {play: playPanicked},
		"stored entry unreadable (version, checksum)":                                                 {play: playUnreadable},
		"shutting down":                                                                               {play: playDraining},
		"store down":                                                                                  {play: playStoreDown},
		"body over the limit":                                                                         {play: playBodyTooLarge},
		"body broke off":                                                                              {play: playBodyBrokeOff},
	}
}

// wantRow expects a problem whose status and headers are those that the row names.
func wantRow(t *testing.T, s problem.Situation, got reply, status int) {
	t.Helper()
	if !strings.Contains(s.Status, strconv.Itoa(status)) {
		t.Errorf("the row says %q, the scenario %d", s.Status, status)
	}
	wantProblem(t, s.Name, got, status, s.Code)
	promised := strings.Contains(s.Headers, "`Retry-After`") && !strings.Contains(s.Headers, "no `Retry-After`")
	if given := got.header.Get("Retry-After") != ""; given != promised {
		t.Errorf("Retry-After stands there: %v, the row says %q", given, s.Headers)
	}
	if said := got.header.Get("Idempotency-Status"); said != "" && said != "unknown" {
		t.Errorf("Idempotency-Status is %q", said)
	}
}

func playFirst(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	got := l.do(post("k"))
	wantCharged(t, s.Name, got, false)
	wantStatus(t, s.Name, got, 201, "")
	l.wantRuns(t, 1)
}

func playReplay(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	l.do(post("k"))
	for range 3 {
		got := l.do(post("k"))
		wantCharged(t, s.Name, got, true)
		wantStatus(t, s.Name, got, 201, "")
	}
	l.wantRuns(t, 1)
}

func playNotKept(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{guard: idemhttp.Options{MaxResponse: 8}}, charged)
	wantCharged(t, "first", l.do(post("k")), false)
	got := l.do(post("k"))
	wantStatus(t, s.Name, got, 201, string(s.Code))
	wantMarker(t, s.Name, got, true)
	if got.body != "" || got.header.Get("Location") != "/charges/answer-secret" {
		t.Errorf("replay has body %q and Location %q: want no body, and where to look", got.body, got.header.Get("Location"))
	}
	l.wantRuns(t, 1)
}

func playKeyMissing(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{guard: idemhttp.Options{Required: true}}, charged)
	without := post("")
	without.Header.Del("Idempotency-Key")
	wantRow(t, s, l.do(without), 400)
	l.wantRuns(t, 0)
	wantCharged(t, "with a key", l.do(post("k")), false)
}

func playKeyInvalid(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	for _, field := range []string{"", `"`, "a,b-secret", strings.Repeat("k", 256)} {
		wantRow(t, s, l.do(post(field)), 400)
	}
	wantRow(t, s, l.do(post("key-secret", "Idempotency-Key", "key-secret")), 400)
	l.wantRuns(t, 0)
	wantCharged(t, "sent once", l.do(post("key-secret")), false)
}

func playKeyReused(t *testing.T, s problem.Situation) {
	h, running, letGo := blocking()
	l := newLab(t, setup{core: retrysafe.Options{Retention: time.Hour, Remember: time.Hour}}, h)
	other := func() *http.Request {
		return request(http.MethodPost, "/charges", "another-secret", "Idempotency-Key", "key-secret")
	}
	first := l.start(post("key-secret"))
	<-running
	wantRow(t, s, l.do(other()), 422)
	close(letGo)
	wantCharged(t, "first", <-first, false)
	wantRow(t, s, l.do(other()), 422)
	wantCharged(t, "the first again", l.do(post("key-secret")), true)
	advance(90 * time.Minute)
	wantRow(t, s, l.do(other()), 422)
	wantProblem(t, "the first after expiry", l.do(post("key-secret")), 410, problem.AnswerExpired)
	l.wantRuns(t, 1)
}

func playInFlight(t *testing.T, s problem.Situation) {
	h, running, letGo := blocking()
	l := newLab(t, setup{}, h)
	first := l.start(post("key-secret"))
	<-running
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantRetryAfter(t, s.Name, got, 30)
	close(letGo)
	wantCharged(t, "first", <-first, false)
	wantCharged(t, "again, when it is done", l.do(post("key-secret")), true)
	l.wantRuns(t, 1)
}

// upstream returns a gateway to addr.
func upstream(t *testing.T, addr string, timeout time.Duration) http.Handler {
	t.Helper()
	l := newLab(t, setup{}, charged) // for its executor
	g, err := gateway.New(l.executor, &url.URL{Scheme: "http", Host: addr}, idemhttp.SharedScope, &gateway.Options{UpstreamTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func playUnreachable(t *testing.T, s problem.Situation) {
	ln := listen(t, "127.0.0.1:0")
	addr := ln.Addr().String()
	ln.Close()
	g := upstream(t, addr, time.Minute)
	wantRow(t, s, answered(g, post("key-secret")), 502)
	up := &httptest.Server{Listener: listen(t, addr), Config: &http.Server{Handler: http.HandlerFunc(charged)}}
	up.Start()
	defer up.Close()
	wantCharged(t, "when it is up", answered(g, post("key-secret")), false)
}

func playUpstreamMayHaveActed(t *testing.T, s problem.Situation) {
	silent, ended := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("say") == "nothing" {
			defer close(ended)
			<-silent
			return
		}
		panic(http.ErrAbortHandler) // acts, and breaks off
	}))
	defer up.Close()
	g := upstream(t, strings.TrimPrefix(up.URL, "http://"), 50*time.Millisecond)
	got := answered(g, post("key-secret"))
	wantRow(t, s, got, 502)
	wantStatus(t, s.Name, got, 502, "unknown")
	wantProblem(t, "again", answered(g, post("key-secret")), 409, problem.OutcomeUnknown)

	late := func() *http.Request {
		return request(http.MethodPost, "/charges?say=nothing", "", "Idempotency-Key", "late-secret")
	}
	got = answered(g, late())
	wantRow(t, s, got, 504)
	wantStatus(t, s.Name, got, 504, "unknown")
	wantProblem(t, "again", answered(g, late()), 409, problem.OutcomeUnknown)
	close(silent)
	<-ended
}

func playHeld(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		idemhttp.MayHaveActed(r.Context())
		w.WriteHeader(http.StatusBadGateway)
	})
	wantStatus(t, "first", l.do(post("key-secret")), 502, "unknown")
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantStatus(t, s.Name, got, 409, "unknown")
	if id := idOf("key-secret"); !strings.Contains(got.body, `"instance":"urn:retrysafe:key:`+id.String()+`"`) {
		t.Errorf("the problem does not name what to look up: %s", got.body)
	}
	l.wantRuns(t, 1)

	answer := retrysafe.Resolution{Happened: false, By: "operator", Why: "looked it up"}
	if _, err := l.executor.Resolve(t.Context(), idOf("key-secret"), answer); err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	wantStatus(t, "when it was decided", l.do(post("key-secret")), 502, "unknown")
	l.wantRuns(t, 2)
}

func playFailed(t *testing.T, s problem.Situation) {
	for _, status := range []int{500, 502, 503, 504, 599} {
		l := newLab(t, setup{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, "no luck")
		})
		wantStatus(t, "first", l.do(post("k")), status, "")
		got := l.do(post("k"))
		wantStatus(t, s.Name, got, status, "unknown")
		wantMarker(t, s.Name, got, true)
		if got.body != "no luck" {
			t.Errorf("replay of %d has body %q", status, got.body)
		}
		l.wantRuns(t, 1)
	}
}

func playExpired(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{core: retrysafe.Options{Retention: time.Hour, Remember: time.Hour}}, charged)
	l.do(post("key-secret"))
	advance(time.Hour + time.Second)
	wantRow(t, s, l.do(post("key-secret")), 410)
	l.wantRuns(t, 1)
	advance(time.Hour + time.Second)
	wantCharged(t, "when it is forgotten", l.do(post("key-secret")), false)
	l.wantRuns(t, 2)
}

func playUnrecorded(t *testing.T, s problem.Situation) {
	var l *lab
	l = newLab(t, setup{core: retrysafe.Options{RecordWait: 10 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		l.store.down()
		charged(w, r)
	})
	began := time.Now()
	got := l.do(post("k"))
	wantCharged(t, s.Name, got, false)
	wantStatus(t, s.Name, got, 201, string(s.Code))
	if held := time.Since(began); held < 10*time.Second || held > 11*time.Second {
		t.Errorf("the answer was held back for %v, want RecordWait", held)
	}
	l.store.up()
	advance(time.Minute)
	wantCharged(t, "when the store is back", l.do(post("k")), true)
	l.wantRuns(t, 1)
}

func playScopeMissing(t *testing.T, s problem.Situation) {
	tenant, failure := "", error(nil)
	l := newLab(t, setup{scope: func(*http.Request) (string, error) { return tenant, failure }}, charged)
	wantRow(t, s, l.do(post("key-secret")), 401)
	tenant, failure = "tenant-secret", errors.New("token-secret has expired")
	wantRow(t, s, l.do(post("key-secret")), 401)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	failure = nil
	wantCharged(t, "with a scope", l.do(post("key-secret")), false)
}

// playQuota has a limiter behind the guard, as one that counts a tenant's keys must be: the guard releases the key.
func playQuota(t *testing.T, s problem.Situation) {
	full := true
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		if full {
			problem.Write(w, idemhttp.DefaultDocsBase, problem.Answer{Code: problem.QuotaExceeded, RetryAfter: time.Minute})
			return
		}
		charged(w, r)
	})
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 429)
	wantRetryAfter(t, s.Name, got, 60)
	full = false
	wantCharged(t, "with room again", l.do(post("key-secret")), false)
}

func playRecovering(t *testing.T, s problem.Situation) {
	asked, answer := make(chan struct{}), make(chan struct{})
	recovering := func(context.Context, retrysafe.Key) (retrysafe.Outcome, error) {
		close(asked)
		<-answer
		return retrysafe.Outcome{State: retrysafe.Free}, nil
	}
	h, running, letGo := blocking()
	l := newLab(t, setup{core: retrysafe.Options{Lease: 3 * time.Second, MaxRun: time.Second, OnLeaseEnd: retrysafe.Recover, Recover: recovering}}, h)
	lost := l.start(post("key-secret")) // its heartbeat ends after MaxRun, as if its process had died
	<-running
	advance(time.Minute)
	second := l.start(post("key-secret"))
	<-asked
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantRetryAfter(t, s.Name, got, 3)
	close(answer)
	<-running
	close(letGo)
	wantCharged(t, "it had not happened", <-second, false)
	wantStatus(t, "the lost one", <-lost, 201, string(problem.Unrecorded))
	wantCharged(t, "again", l.do(post("key-secret")), true)
	l.wantRuns(t, 2)
}

func playPanicked(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, func(http.ResponseWriter, *http.Request) { panic("panic-secret") })
	got := l.do(post("key-secret"))
	wantRow(t, s, got, 500)
	wantStatus(t, s.Name, got, 500, "unknown")
	got = l.do(post("key-secret"))
	wantRow(t, s, got, 409)
	wantStatus(t, "again", got, 409, "unknown")
	l.wantRuns(t, 1)
	if strings.Contains(l.log.String(), "secret") {
		t.Errorf("the log tells: %s", l.log)
	}
}

func playUnreadable(t *testing.T, s problem.Situation) {
	for _, damage := range []int{0, 1, 40} { // the version, the checksum, the record
		l := newLab(t, setup{}, charged)
		l.do(post("key-secret"))
		entries, _, err := l.store.Store.Get(t.Context(), idOf("key-secret"))
		if err != nil || len(entries) != 1 {
			t.Fatalf("Get: %d entries, %v", len(entries), err)
		}
		whole := entries[0]
		broken := whole
		broken.Body, broken.Rev = []byte(string(whole.Body)), retrysafe.NewRev()
		broken.Body[damage] ^= 0xff
		l.store.Swap(t.Context(), whole.Rev, broken)
		wantRow(t, s, l.do(post("key-secret")), 503)
		l.wantRuns(t, 1)
		whole.Rev = retrysafe.NewRev()
		l.store.Swap(t.Context(), broken.Rev, whole)
		wantCharged(t, "repaired", l.do(post("key-secret")), true)
	}
}

func playDraining(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	l.do(post("done-secret"))
	if err := l.executor.Drain(t.Context()); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	wantRow(t, s, l.do(post("key-secret")), 503)
	wantRow(t, s, l.do(post("done-secret")), 503)
	l.wantRuns(t, 1)
	if r := l.stands(t, "key-secret"); r.State != retrysafe.Absent {
		t.Errorf("%v stands under the refused key", r.State)
	}
}

func playStoreDown(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	l.store.down()
	wantRow(t, s, l.do(post("key-secret")), 503)
	wantRow(t, s, l.do(post("key-secret")), 503)
	l.wantRuns(t, 0)
	l.store.up()
	wantCharged(t, "when it is up", l.do(post("key-secret")), false)
}

func playBodyTooLarge(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{guard: idemhttp.Options{MaxBody: 10}}, charged)
	wantRow(t, s, l.do(post("key-secret")), 413)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "a smaller one", l.do(request(http.MethodPost, "/charges", "0123456789", "Idempotency-Key", "key-secret")), false)
}

func playBodyBrokeOff(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, charged)
	r := post("key-secret")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"card":"body-`), brokenOff{}))
	wantRow(t, s, l.do(r), 400)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
	wantCharged(t, "sent whole", l.do(post("key-secret")), false)
}

// brokenOff is the end of a body whose sender went away.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
