package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The JSON below is a contract: tools read it. The bubble's clock begins at 2000-01-01.

func TestDetail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		advance(time.Second + 5*time.Microsecond)
		l.completes(t, order)
		const want = `{"id":"%s","scope":"tenant-7","key":"order-1001","state":"completed",` +
			`"started":"2000-01-01T00:00:01.000005Z","finished":"2000-01-01T00:00:01.000006Z","expires":"2000-01-02T00:00:01.000006Z",` +
			`"replays":0,"attempts":1,"epoch":946684801000005,"reason":"","not_kept":false,"history":[],` +
			`"policy":{"on_lease_end":"hold","two_step":false,"lease_seconds":30,"retention_seconds":86400,"remember_seconds":2592000},"acted":null,` +
			`"answer":{"status":201,"header_names":["Content-Type","Location"],"body_bytes":8%s}}`
		for _, tt := range []struct{ name, query, values string }{
			{"not asked for the answer", "", ""},
			{"said not to want the answer", "?answer=0", ""},
			{"asked for the answer", "?answer=1", `,"headers":{"Content-Type":["application/json"],"Location":["/charges/7"]},"body":"eyJpZCI6N30="`},
		} {
			if diff := cmp.Diff(fmt.Sprintf(want, order.ID(), tt.values), l.get(t, path(order)+tt.query)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tt.name, diff)
			}
		}
	})
}

// TestDetailOfTwoSteps: an operator sees whether an operation may have acted, while it runs and when it has died.
func TestDetailOfTwoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		p := l.executor.Policy()
		p.TwoStep = true
		shows := func(want string) {
			t.Helper()
			got := l.get(t, path(order))
			if !strings.Contains(got, `"two_step":true,`) || !strings.Contains(got, want) {
				t.Errorf("got %s, want it two-step, with %s", got, want)
			}
		}
		_, err := l.executor.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload, Policy: &p}, func(ctx context.Context) retrysafe.Outcome {
			shows(`"acted":false`)
			if err := retrysafe.Act(ctx); err != nil {
				t.Errorf("Act: %v", err)
			}
			shows(`"acted":true`)
			return retrysafe.Outcome{}
		})
		if err != nil {
			t.Fatalf("Execute: %v", err)
		}
		shows(`"acted":true`)
	})
}

func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		if got, want := l.get(t, "/api/keys"), `{"keys":[],"next":""}`; got != want {
			t.Errorf("empty: %s, want %s", got, want)
		}
		l.ends(t, order, retrysafe.Outcome{Reason: "upstream: reset"})
		want := fmt.Sprintf(`{"keys":[{"id":"%s","scope":"tenant-7","key":"order-1001","state":"unknown","started":"2000-01-01T00:00:00.000000Z",`+
			`"finished":null,"expires":null,"replays":0,"attempts":1,"epoch":946684800000000,"reason":"upstream: reset","not_kept":false}],"next":""}`, order.ID())
		if diff := cmp.Diff(want, l.get(t, "/api/keys?state=&scope=&prefix=&limit=&cursor=")); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// key returns a key of the tests' tenant.
func key(name string) retrysafe.Key { return retrysafe.Key{Scope: order.Scope, Name: name} }

func TestListFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: time.Minute, MaxRun: time.Microsecond}) // leases are not extended
		l.completes(t, key("a-expired"))
		advance(24 * time.Hour)
		lapsed := l.begins(t, key("b-lapsed"))
		advance(time.Minute)
		live := l.begins(t, key("c-live"))
		l.completes(t, key("d-done"))
		l.ends(t, key("e-failed"), retrysafe.Outcome{State: retrysafe.UnknownAnswered, Answer: created.Encode()})
		l.ends(t, key("f-held"), retrysafe.Outcome{})
		l.ends(t, key("g-freed"), retrysafe.Outcome{})
		l.post(t, path(key("g-freed"), "resolve"), signed(`,"action":"release"`))
		l.completes(t, retrysafe.Key{Scope: "tenant-8", Name: "d-done"})
		for _, tt := range []struct {
			query string
			want  []string
		}{
			{"state=in_flight", []string{"c-live"}},
			{"state=completed", []string{"d-done", "d-done"}},
			{"state=unknown", []string{"b-lapsed", "f-held"}},
			{"state=unknown_answered", []string{"e-failed"}},
			{"state=free", []string{"g-freed"}},
			{"state=expired", []string{"a-expired"}},
			{"scope=tenant-8", []string{"d-done"}},
			{"prefix=d-", []string{"d-done", "d-done"}},
			{"prefix=d-&scope=tenant-7&state=completed", []string{"d-done"}},
			{"prefix=nobody", nil},
		} {
			var page admin.Page
			read(t, l.get(t, "/api/keys?"+tt.query), &page)
			if got := names(page); !slices.Equal(got, tt.want) || page.Next != "" {
				t.Errorf("%s: %q, next %q, want %q and no next", tt.query, got, page.Next, tt.want)
			}
		}
		lapsed()
		live()
	})
}

func names(p admin.Page) (keys []string) {
	for _, k := range p.Keys {
		keys = append(keys, k.Key)
	}
	slices.Sort(keys)
	return keys
}

func TestListPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		var want, got []string
		for i := range 23 {
			want = append(want, fmt.Sprintf("order-%02d", i))
			l.completes(t, key(want[i]))
		}
		cursor := ""
		for pages := 1; ; pages++ {
			var page admin.Page
			read(t, l.get(t, "/api/keys?limit=5&cursor="+cursor), &page)
			if len(page.Keys) > 5 || pages > 23 {
				t.Fatalf("page %d has %d keys, want at most 5 and an end", pages, len(page.Keys))
			}
			got = append(got, names(page)...)
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("pages hold %q, want %q", got, want)
		}
	})
}

func TestWhatIsOverByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &retrysafe.Options{Lease: time.Minute, MaxRun: time.Microsecond, Retention: time.Hour, Remember: 2 * time.Hour})
		end := l.begins(t, order)
		if d := l.detail(t, order); d.State != "in_flight" || !d.Finished.IsZero() || !d.Expires.Equal(d.Started.Add(time.Minute)) {
			t.Errorf("lease running: %+v, want in_flight that expires with the lease", d.Summary)
		}
		advance(time.Minute)
		if d := l.detail(t, order); d.State != "unknown" || d.Reason != "lease over" || !d.Expires.IsZero() {
			t.Errorf("lease over: %+v, want unknown for ever", d.Summary)
		}
		end() // the late owner
		d := l.detail(t, order)
		if d.State != "completed" || d.Answer == nil || !d.Expires.Equal(d.Finished.Add(time.Hour)) {
			t.Errorf("done: %+v, want completed that expires with the answer", d)
		}
		advance(time.Hour)
		if e := l.detail(t, order); e.State != "expired" || e.Answer != nil || !e.Finished.Equal(d.Finished.Time) || !e.Expires.Equal(d.Finished.Add(3*time.Hour)) {
			t.Errorf("retention over: %+v, want expired until the memory ends", e)
		}
		advance(2 * time.Hour)
		wantRefused(t, send(t, l, request(t, http.MethodGet, path(order), "")), http.StatusNotFound, "key-not-found", "List")
		wantRefused(t, l.post(t, path(order, "forget"), signed("")), http.StatusNotFound, "key-not-found")
	})
}

func TestTimesAreToldInUTC(t *testing.T) {
	lagos := time.FixedZone("", 3600)
	for want, given := range map[string]time.Time{
		`"2026-03-01T23:30:00.120000Z"`: time.Date(2026, 3, 2, 0, 30, 0, 120_000_999, lagos),
		`null`:                          {},
	} {
		text, err := json.Marshal(admin.Time{Time: given})
		if err != nil || string(text) != want {
			t.Errorf("%v: %s, %v, want %s", given, text, err, want)
		}
		var back admin.Time
		if read(t, want, &back); !back.Equal(given.Truncate(time.Microsecond)) {
			t.Errorf("%s: read as %v", want, back)
		}
	}
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		for _, tt := range []struct {
			name    string
			outcome retrysafe.Outcome
			want    *admin.Answer
		}{
			{"of an HTTP handler", retrysafe.Outcome{State: retrysafe.Completed, Answer: created.Encode()},
				&admin.Answer{Status: 201, HeaderNames: []string{"Content-Type", "Location"}, BodyBytes: 8, Headers: created.Header, Body: created.Body}},
			{"of a function", retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte("paid")}, &admin.Answer{HeaderNames: []string{}, BodyBytes: 4, Body: []byte("paid")}},
			{"empty", retrysafe.Outcome{State: retrysafe.Completed, Answer: []byte{}}, &admin.Answer{HeaderNames: []string{}, Body: []byte{}}},
			{"not kept", retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}, nil},
		} {
			l.ends(t, key(tt.name), tt.outcome)
			var with, without admin.Detail
			read(t, l.get(t, path(key(tt.name))+"?answer=1"), &with)
			read(t, l.get(t, path(key(tt.name))), &without)
			if diff := cmp.Diff(tt.want, with.Answer); diff != "" || with.NotKept != tt.outcome.NotKept {
				t.Errorf("%s, asked for: not kept %v, -want +got\n%s", tt.name, with.NotKept, diff)
			}
			if tt.want != nil {
				tt.want.Headers, tt.want.Body = nil, nil
			}
			if diff := cmp.Diff(tt.want, without.Answer); diff != "" {
				t.Errorf("%s, not asked for: -want +got\n%s", tt.name, diff)
			}
		}
	})
}

func TestReplaysAndAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.ends(t, order, retrysafe.Outcome{})
		l.post(t, path(order, "resolve"), signed(`,"action":"release"`))
		l.completes(t, order)
		for range 3 {
			if _, err := l.executor.Execute(t.Context(), retrysafe.Request{Key: order, Fingerprint: payload}, nil); err != nil {
				t.Fatalf("replay: %v", err)
			}
		}
		if d := l.detail(t, order); d.Replays != 3 || d.Attempts != 2 || len(d.History) != 1 {
			t.Errorf("%d replays, %d attempts, %d acts, want 3, 2, 1", d.Replays, d.Attempts, len(d.History))
		}
	})
}

func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.completes(t, order)
		l.store.damage(t, order)
		summary := fmt.Sprintf(`{"id":"%s","scope":"tenant-7","key":"order-1001","state":"completed","started":null,"finished":null,"expires":null,`+
			`"replays":0,"attempts":0,"epoch":0,"reason":"","not_kept":false,"unreadable":true`, order.ID())
		if diff := cmp.Diff(`{"keys":[`+summary+`}],"next":""}`, l.get(t, "/api/keys?state=completed")); diff != "" {
			t.Errorf("list: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(summary+`,"history":[],"policy":null,"acted":null,"answer":null}`, l.get(t, path(order))); diff != "" {
			t.Errorf("detail: -want +got\n%s", diff)
		}
		wantRefused(t, l.post(t, path(order, "resolve"), signed(`,"action":"complete","force":true`)), http.StatusConflict, "entry-unreadable", "forget", "force")
		wantRefused(t, l.post(t, path(order, "forget"), signed("")), http.StatusConflict, "entry-unreadable")
		w := l.post(t, path(order, "forget"), signed(`,"force":true`))
		var d admin.Detail
		read(t, w.Body.String(), &d)
		if w.Code != http.StatusOK || d.State != "free" || d.Unreadable {
			t.Errorf("forget with force: %d %s, want 200 and free", w.Code, w.Body)
		}
	})
}

func TestBadLooks(t *testing.T) {
	l := newLab(t, nil)
	id := order.ID().String()
	for _, tt := range []struct {
		target string
		want   string // part of the detail
	}{
		{"/api/keys?state=lost", "in_flight, completed, unknown"},
		{"/api/keys?state=absent", "in_flight"},
		{"/api/keys?state=reserved", "in_flight"},
		{"/api/keys?state=COMPLETED", "in_flight"},
		{"/api/keys?limit=0", "1 to 1000"},
		{"/api/keys?limit=1001", "1 to 1000"},
		{"/api/keys?limit=-5", "1 to 1000"},
		{"/api/keys?limit=ten", "1 to 1000"},
		{"/api/keys?limit=99999999999999999999", "1 to 1000"},
		{"/api/keys?cursor=next", "cursor"},
		{"/api/keys?cursor=" + strings.Repeat("a", 1025), "1025 bytes"},
		{"/api/keys?stat=unknown", `"stat" is not known here. Known are: state, scope`},
		{"/api/keys?state=free&state=unknown", "2 times"},
		{"/api/keys?prefix=%zz", "malformed"},
		{"/api/keys?prefix=a;limit=1", "malformed"},
		{"/api/keys/order-1001", "64 hexadecimal digits"},
		{"/api/keys/" + id[:63], "64 hexadecimal digits"},
		{"/api/keys/" + id + "00", "64 hexadecimal digits"},
		{"/api/keys/" + id + "?answer=yes", "1 to see the answer"},
		{"/api/keys/" + id + "?state=free", `"state" is not known here`},
	} {
		w := send(t, l, request(t, http.MethodGet, tt.target, ""))
		if w.Code != http.StatusBadRequest {
			t.Errorf("GET %s: %d %s, want 400", tt.target, w.Code, w.Body)
			continue
		}
		wantRefused(t, w, http.StatusBadRequest, "request-invalid", tt.want)
	}
}

// listless hides that the store can list.
type listless struct{ retrysafe.Store }

func TestStoreThatCannotList(t *testing.T) {
	e, err := retrysafe.New(listless{memstore.New(nil)}, nil)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	api := newAPI(t, e, &admin.Options{Token: token})
	wantRefused(t, send(t, api, request(t, http.MethodGet, "/api/keys", "")), http.StatusNotImplemented, "list-unsupported", "id")
	wantRefused(t, send(t, api, request(t, http.MethodGet, path(order), "")), http.StatusNotFound, "key-not-found")
}

func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		l.ends(t, order, retrysafe.Outcome{})
		l.store.onGet(func(context.Context) error { return fmt.Errorf("dial db-1.internal: refused") })
		for _, r := range []*http.Request{
			request(t, http.MethodGet, path(order), ""),
			request(t, http.MethodPost, path(order, "forget"), signed("")),
		} {
			w := send(t, l, r)
			wantRefused(t, w, http.StatusServiceUnavailable, "store-unavailable", "log", "Look at the key")
			if w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "db-1") {
				t.Errorf("%s: Retry-After %q, body %s: want one, and nothing of what the store said", r.Method, w.Header().Get("Retry-After"), w.Body)
			}
		}
		if log := l.log.String(); strings.Count(log, "admin call failed") != 2 || !strings.Contains(log, "db-1") || strings.Contains(log, order.Name) {
			t.Errorf("log %q, want two failures with their cause and no key", log)
		}
	})
}

// A store that never answered says nothing of an entry.
func TestStoreThatCannotBeOpened(t *testing.T) {
	s := &refusing{Store: memstore.New(nil)}
	e, err := retrysafe.New(s, nil)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	api := newAPI(t, e, &admin.Options{Token: token})
	for _, verb := range []string{"resolve", "forget"} {
		w := send(t, api, request(t, http.MethodPost, path(order, verb), signed("")))
		wantRefused(t, w, http.StatusServiceUnavailable, "store-unavailable")
	}
}

// refusing says of its keyring that it cannot be read.
type refusing struct{ retrysafe.Store }

func (refusing) Create(context.Context, retrysafe.Entry) (retrysafe.Reply, error) {
	return retrysafe.Reply{}, retrysafe.ErrUnreadable
}
