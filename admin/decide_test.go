package admin_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/idemhttp"
)

func TestDecisionsByState(t *testing.T) {
	const complete, release, force = `,"action":"complete"`, `,"action":"release"`, `,"force":true`
	states := map[string]func(*testing.T, *lab){
		"unknown":          func(t *testing.T, l *lab) { l.ends(t, order, retrysafe.Outcome{}) },
		"unknown_answered": func(t *testing.T, l *lab) { l.ends(t, order, retrysafe.Outcome{State: retrysafe.UnknownAnswered}) },
		"completed":        func(t *testing.T, l *lab) { l.completes(t, order) },
		"free": func(t *testing.T, l *lab) {
			l.ends(t, order, retrysafe.Outcome{})
			l.post(t, path(order, "forget"), signed(""))
		},
		"expired": func(t *testing.T, l *lab) { l.completes(t, order); advance(25 * time.Hour) },
		"absent":  func(*testing.T, *lab) {},
	}
	for _, tt := range []struct {
		from, verb, more string
		want             string // the state that follows, or a code
		force            bool   // the refusal says that force would do
	}{
		{from: "unknown", verb: "resolve", more: complete, want: "completed"},
		{from: "unknown", verb: "resolve", more: release, want: "free"},
		{from: "unknown", verb: "forget", want: "free"},
		{from: "unknown_answered", verb: "resolve", more: complete, want: "completed"},
		{from: "unknown_answered", verb: "resolve", more: release, want: "free"},
		{from: "unknown_answered", verb: "forget", want: "free"},
		{from: "completed", verb: "resolve", more: complete, want: "decision-refused", force: true},
		{from: "completed", verb: "resolve", more: release, want: "decision-refused", force: true},
		{from: "completed", verb: "resolve", more: release + force, want: "free"},
		{from: "completed", verb: "forget", want: "decision-refused", force: true},
		{from: "completed", verb: "forget", more: force, want: "free"},
		{from: "free", verb: "resolve", more: complete + force, want: "decision-refused"},
		{from: "free", verb: "forget", want: "free"},
		{from: "expired", verb: "resolve", more: complete + force, want: "decision-refused"},
		{from: "expired", verb: "forget", want: "free"},
		{from: "absent", verb: "resolve", more: complete, want: "key-not-found"},
		{from: "absent", verb: "forget", want: "key-not-found"},
	} {
		t.Run(tt.from+" "+tt.verb+tt.more, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				states[tt.from](t, l)
				w := l.post(t, path(order, tt.verb), signed(tt.more))
				if w.Code == http.StatusOK {
					if d := l.detail(t, order); d.State != tt.want {
						t.Errorf("state %s, want %s", d.State, tt.want)
					}
					return
				}
				p := problemIn(t, w)
				if p.Code != tt.want || p.Force != tt.force {
					t.Fatalf("refused: %+v, want code %s, force allowed %v", p, tt.want, tt.force)
				}
				if p.Code == "decision-refused" && (w.Code != http.StatusConflict || p.State != tt.from) {
					t.Errorf("refused: status %d, state %s, want 409 and %s", w.Code, p.State, tt.from)
				}
			})
		})
	}
}

func TestLiveLeaseIsLeftAloneWithoutForce(t *testing.T) {
	for _, tt := range []struct{ verb, more, want string }{
		{"resolve", `,"action":"complete"`, "completed"},
		{"resolve", `,"action":"release"`, "free"},
		{"forget", "", "free"},
	} {
		t.Run(tt.verb+tt.more, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				end := l.begins(t, order)
				before := l.detail(t, order)
				wantRefused(t, l.post(t, path(order, tt.verb), signed(tt.more)), http.StatusConflict, "decision-refused", "live lease", "force")
				if d := l.detail(t, order); d.State != "in_flight" || d.Epoch != before.Epoch || len(d.History) != 0 {
					t.Errorf("after the refusal: %+v, want it unchanged", d)
				}
				if w := l.post(t, path(order, tt.verb), signed(tt.more+`,"force":true`)); w.Code != http.StatusOK {
					t.Fatalf("with force: %d %s", w.Code, w.Body)
				}
				if r := end(); !errors.Is(r.Err, retrysafe.ErrClaimLost) {
					t.Errorf("the owner's record: %v, want ErrClaimLost", r.Err)
				}
				if d := l.detail(t, order); d.State != tt.want || d.Epoch <= before.Epoch {
					t.Errorf("after all: state %s, epoch %d, want %s and more than %d", d.State, d.Epoch, tt.want, before.Epoch)
				}
			})
		})
	}
}

func TestDecisionIsAnsweredWithTheKeyAndItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.ends(t, order, retrysafe.Outcome{})
		advance(time.Hour)
		l.post(t, path(order, "forget"), `{"by":"  bob ","reason":"a test order"}`)
		l.ends(t, order, retrysafe.Outcome{})
		w := l.post(t, path(order, "resolve"), signed(`,"action":"complete","status":201,"headers":{"content-type":["text/plain"]},"body":"b2s="`))
		var d admin.Detail
		read(t, w.Body.String(), &d)
		history, _ := json.Marshal(d.History)
		const want = `[{"at":"2000-01-01T01:00:00.000000Z","by":"bob","reason":"a test order","did":"forgot","from":"unknown"},` +
			`{"at":"2000-01-01T01:00:00.000002Z","by":"ana","reason":"seen in the bank's list","did":"completed","from":"unknown"}]`
		if w.Code != http.StatusOK || string(history) != want {
			t.Errorf("%d, history %s,\nwant 200, %s", w.Code, history, want)
		}
		if d.State != "completed" || d.Answer == nil || d.Answer.Status != 201 || d.Answer.BodyBytes != 2 || d.Answer.Body != nil {
			t.Errorf("got %s, want the completed key with its answer, without its body", w.Body)
		}
	})
}

// TestRetriesAfterADecision asks what the callers of an API see, whose first request died without an answer.
func TestRetriesAfterADecision(t *testing.T) {
	for _, tt := range []struct {
		name, decision string
		status         int
		header         http.Header
		body           string
	}{
		{"completed with an answer", `,"action":"complete","status":202,"headers":{"Location":["/charges/9"],"X-Shop":["a","b"]},"body":"AAH/"`, http.StatusAccepted,
			http.Header{"Location": {"/charges/9"}, "X-Shop": {"a", "b"}, "Idempotent-Replayed": {"true"}, "Idempotency-Status": nil}, "\x00\x01\xff"},
		{"completed with an empty answer", `,"action":"complete","status":204`, http.StatusNoContent,
			http.Header{"Idempotent-Replayed": {"true"}, "Idempotency-Status": nil}, ""},
		{"completed without an answer", `,"action":"complete"`, http.StatusNoContent,
			http.Header{"Idempotent-Replayed": {"true"}, "Idempotency-Status": {"answer-not-kept"}}, ""},
		{"released", `,"action":"release"`, http.StatusOK, http.Header{"Idempotent-Replayed": nil}, "ran again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				runs := 0
				guard, err := idemhttp.New(l.executor, idemhttp.SharedScope, nil)
				if err != nil {
					t.Fatalf("idemhttp.New: %v", err)
				}
				api := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if runs++; runs == 1 {
						idemhttp.MayHaveActed(r.Context(), "")
					}
					fmt.Fprint(w, "ran again")
				}))
				post := func() *httptest.ResponseRecorder {
					w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", strings.NewReader("10 EUR"))
					r.Header.Set("Idempotency-Key", order.Name)
					api.ServeHTTP(w, r)
					return w
				}
				post()
				if w := l.post(t, path(retrysafe.Key{Scope: "shared", Name: order.Name}, "resolve"), signed(tt.decision)); w.Code != http.StatusOK {
					t.Fatalf("resolve: %d %s", w.Code, w.Body)
				}
				w := post()
				if w.Code != tt.status || w.Body.String() != tt.body {
					t.Errorf("retry: %d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
				}
				for name, want := range tt.header {
					if got := w.Header()[name]; fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("retry: header %s is %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

func TestAnswersUpToTheLimit(t *testing.T) {
	l := newLab(t, nil)
	l.ends(t, order, retrysafe.Outcome{})
	encoded := func(size int) string {
		return signed(`,"action":"complete","status":200,"body":"` + base64.StdEncoding.EncodeToString(make([]byte, size)) + `"`)
	}
	wantRefused(t, l.post(t, path(order, "resolve"), encoded(11<<20)), http.StatusRequestEntityTooLarge, "body-too-large", "10 MiB", "without")
	if w := l.post(t, path(order, "resolve"), encoded(10<<20)); w.Code != http.StatusOK {
		t.Errorf("10 MiB: %d %.200s, want 200", w.Code, w.Body)
	}
	if d := l.detail(t, order); d.Answer == nil || d.Answer.BodyBytes != 10<<20 {
		t.Errorf("answer %+v, want 10 MiB", d.Answer)
	}
}

func TestBadDecisionsAreRefusedBeforeTheyReachTheStore(t *testing.T) {
	l := newLab(t, nil)
	for _, tt := range []struct {
		name        string
		target      string
		body        string
		contentType string
		coding      string
		status      int
		code, want  string
	}{
		{name: "id", target: "/api/keys/7/forget", status: 400, code: "request-invalid", want: "hexadecimal"},
		{name: "parameter", target: path(order, "forget") + "?force=1", status: 400, code: "request-invalid", want: "Known are: none"},
		{name: "no media type", contentType: "-", status: 415, code: "media-type-unsupported", want: "application/json"},
		{name: "form", contentType: "application/x-www-form-urlencoded", status: 415, code: "media-type-unsupported", want: "application/json"},
		{name: "broken media type", contentType: "application/json; =", status: 415, code: "media-type-unsupported", want: "application/json"},
		{name: "compressed", coding: "gzip", status: 415, code: "media-type-unsupported", want: "Content-Encoding"},
		{name: "nothing", body: " ", status: 400, code: "request-invalid", want: "not JSON"},
		{name: "large", body: signed("") + strings.Repeat(" ", 20<<10), status: 413, code: "body-too-large", want: "16 KiB"},
		{name: "unsigned", body: `{"force":true}`, status: 400, code: "request-invalid", want: "by is required"},
		{name: "field of the other verb", body: signed(`,"action":"release"`), status: 400, code: "request-invalid", want: `"action" is not known here. Known are: by, reason, force`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.target == "" {
				tt.target = path(order, "forget")
			}
			if tt.body == "" {
				tt.body = signed("")
			}
			r := request(t, http.MethodPost, tt.target, tt.body)
			switch tt.contentType {
			case "":
			case "-":
				r.Header.Del("Content-Type")
			default:
				r.Header.Set("Content-Type", tt.contentType)
			}
			if tt.coding != "" {
				r.Header.Set("Content-Encoding", tt.coding)
			}
			wantRefused(t, send(t, l, r), tt.status, tt.code, tt.want)
		})
	}
}

// broken is a body that ends before its end.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestBodyThatBreaksOff(t *testing.T) {
	l := newLab(t, nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path(order, "forget"), broken{})
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	wantRefused(t, send(t, l, r), http.StatusBadRequest, "request-invalid", "broke off")
}

func TestDecisionsAreLoggedWithoutKeyAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.ends(t, order, retrysafe.Outcome{})
		l.post(t, path(order, "resolve"), signed("")) // refused: no action
		l.post(t, path(order, "resolve"), signed(`,"action":"complete"`))
		l.post(t, path(order, "forget"), signed("")) // refused: completed
		l.post(t, path(order, "forget"), `{"by":"bob","reason":"wrong shop","force":true}`)
		log := l.log.String()
		tag := order.ID().String()
		for _, want := range []string{
			`level=INFO msg="key decided" id=` + tag + ` by=ana did=completed from=unknown epoch=`,
			`level=INFO msg="key decided" id=` + tag + ` by=bob did=forgot from=completed epoch=`,
		} {
			if strings.Count(log, want) != 1 {
				t.Errorf("log %q, want once %q", log, want)
			}
		}
		if strings.Count(log, "\n") != 2 {
			t.Errorf("log %q, want two lines", log)
		}
		for _, secret := range []string{order.Name, order.Scope, "bank", "wrong shop", token} {
			if strings.Contains(log, secret) {
				t.Errorf("log %q holds %q", log, secret)
			}
		}
	})
}

func TestDecisionStandsWhenTheCallerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.ends(t, order, retrysafe.Outcome{})
		ctx, hangUp := context.WithCancel(t.Context())
		l.store.onGet(func(ctx context.Context) error { hangUp(); return ctx.Err() })
		send(t, l, request(t, http.MethodPost, path(order, "resolve"), signed(`,"action":"release"`)).WithContext(ctx))
		if ctx.Err() == nil {
			t.Fatal("the caller did not hang up")
		}
		if d := l.detail(t, order); d.State != "free" || !strings.Contains(l.log.String(), "key decided") {
			t.Errorf("state %s, log %q, want free and logged", d.State, l.log.String())
		}
	})
}

// TestDecisionsAtOnce lets many operators decide differently over one key: one of them does.
func TestDecisionsAtOnce(t *testing.T) {
	l := newLab(t, nil)
	l.ends(t, order, retrysafe.Outcome{})
	var wg sync.WaitGroup
	codes := make(chan int, 40)
	for i := range cap(codes) {
		wg.Go(func() {
			w := l.post(t, path(order, "resolve"), fmt.Sprintf(`{"by":"operator %d","reason":"sure","action":"complete","status":%d}`, i, 200+i))
			codes <- w.Code
			l.get(t, "/api/keys?state=completed")
		})
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	d := l.detail(t, order)
	if count[http.StatusOK] != 1 || count[http.StatusConflict] != cap(codes)-1 || len(d.History) != 1 {
		t.Fatalf("statuses %v, %d acts, want one 200, all else 409, one act", count, len(d.History))
	}
	if want := fmt.Sprintf("operator %d", d.Answer.Status-200); d.History[0].By != want {
		t.Errorf("answer of %s stands under the name of %s", want, d.History[0].By)
	}
}
