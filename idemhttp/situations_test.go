package idemhttp_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
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
		"too many requests of one tenant":                                                             {bubble: true, play: playQuota},
		"scope cannot be verified at the moment (the issuer's keys cannot be had)":                    {play: playScopeUnavailable},
		"recovery of this key is running":                                                             {bubble: true, play: playRecovering},
		"handler panicked":                                                                            {play: playPanicked},
		"stored entry unreadable (version, checksum)":                                                 {play: playUnreadable},
		"shutting down":                           {play: playDraining},
		"store down":                              {play: playStoreDown},
		"body over the limit":                     {play: playBodyTooLarge},
		"body broke off, or stopped coming":       {play: playBodyBrokeOff},
		"sent in TLS early data (`Early-Data`)":   {play: playTooEarly},
		"no room for more request bodies at once": {play: playOverloaded},
		"the gateway's upstream leads back to it": {play: playLoop},
		"path that can be read in more than one way (a gateway with routes)": {play: playAmbiguous},
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

func playHeld(t *testing.T, s problem.Situation) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		idemhttp.MayHaveActed(r.Context(), "")
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
