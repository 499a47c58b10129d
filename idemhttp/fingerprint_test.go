package idemhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// variants are pairs of requests under one key, and whether the second is a retry of the first.
var variants = []struct {
	name          string
	first, second func() *http.Request
	same          bool
}{
	{"the same", asked("POST", "/a?x=1", "t/t", "body"), asked("POST", "/a?x=1", "t/t", "body"), true},
	{"FP-8 another byte of the body", asked("POST", "/a", "t/t", "body"), asked("POST", "/a", "t/t", "bodY"), false},
	{"one byte more", asked("POST", "/a", "t/t", "body"), asked("POST", "/a", "t/t", "body "), false},
	{"no body", asked("POST", "/a", "t/t", "body"), asked("POST", "/a", "t/t", ""), false},
	{"FP-1 members in another order, raw", asked("POST", "/a", "application/json", `{"a":1,"b":2}`), asked("POST", "/a", "application/json", `{"b":2,"a":1}`), false},
	{"FP-4 another space, raw", asked("POST", "/a", "application/json", `{"a":1}`), asked("POST", "/a", "application/json", `{ "a" : 1 }`), false},
	{"FP-5 integers that are one float64", asked("POST", "/a", "application/json", `{"amount":9007199254740992}`), asked("POST", "/a", "application/json", `{"amount":9007199254740993}`), false},
	{"FP-5 integers beyond int64", asked("POST", "/a", "application/json", `18446744073709551616`), asked("POST", "/a", "application/json", `18446744073709551617`), false},
	{"FP-7 a doubled member", asked("POST", "/a", "application/json", `{"amount":1,"amount":100}`), asked("POST", "/a", "application/json", `{"amount":100}`), false},
	{"FP-17 null is not absent", asked("POST", "/a", "application/json", `{"memo":null}`), asked("POST", "/a", "application/json", `{}`), false},
	{"FP-22 another gzip level, raw", asked("POST", "/a", "application/json", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02"), asked("POST", "/a", "application/json", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04"), false},

	{"FP-8 another path", asked("POST", "/charges", "t/t", "x"), asked("POST", "/refunds", "t/t", "x"), false},
	{"FP-11 another member of a collection", asked("POST", "/tickets/1", "t/t", "x"), asked("POST", "/tickets/2", "t/t", "x"), false},
	{"a slash at the end", asked("POST", "/a", "t/t", "x"), asked("POST", "/a/", "t/t", "x"), false},
	{"GW-7 an encoded slash", asked("POST", "/a%2Fb", "t/t", "x"), asked("POST", "/a/b", "t/t", "x"), false},
	{"an encoded slash in other letters", asked("POST", "/a%2Fb", "t/t", "x"), asked("POST", "/a%2fb", "t/t", "x"), false},
	{"an encoded letter", asked("POST", "/%61", "t/t", "x"), asked("POST", "/a", "t/t", "x"), false},
	{"GW-7 a path that is not clean", asked("POST", "//a/../b", "t/t", "x"), asked("POST", "/b", "t/t", "x"), false},
	{"GW-7 a path that is not clean, again", asked("POST", "//a/../b", "t/t", "x"), asked("POST", "//a/../b", "t/t", "x"), true},
	{"GW-7 absolute form", asked("POST", "http://api/a", "t/t", "x"), asked("POST", "/a", "t/t", "x"), true},
	{"case of the path", asked("POST", "/a", "t/t", "x"), asked("POST", "/A", "t/t", "x"), false},

	{"FP-10 another value in the query", asked("POST", "/a?dry_run=true", "t/t", "x"), asked("POST", "/a?dry_run=false", "t/t", "x"), false},
	{"FP-10 no query", asked("POST", "/a?dry_run=true", "t/t", "x"), asked("POST", "/a", "t/t", "x"), false},
	{"FP-10 the query in another order", asked("POST", "/a?a=1&b=2", "t/t", "x"), asked("POST", "/a?b=2&a=1", "t/t", "x"), false},
	{"FP-10 equal names in another order", asked("POST", "/a?a=1&a=2", "t/t", "x"), asked("POST", "/a?a=2&a=1", "t/t", "x"), false},
	{"a path that ends like another's query", asked("POST", "/a%3Fx=1", "t/t", "x"), asked("POST", "/a?x=1", "t/t", "x"), false},

	{"FP-8 another method", asked("POST", "/a", "t/t", "x"), asked("PATCH", "/a", "t/t", "x"), false},
	{"another media type", asked("POST", "/a", "application/json", "1"), asked("POST", "/a", "text/plain", "1"), false},
	{"no media type", asked("POST", "/a", "application/json", "1"), asked("POST", "/a", "", "1"), false},
	{"case of the media type", asked("POST", "/a", "Application/JSON", "1"), asked("POST", "/a", "application/json", "1"), true},
	{"another charset", asked("POST", "/a", "text/plain; charset=utf-8", "é"), asked("POST", "/a", "text/plain; charset=latin1", "é"), false},
	{"no charset", asked("POST", "/a", "text/plain; charset=utf-8", "é"), asked("POST", "/a", "text/plain", "é"), false},
	{"case and quotes of the charset", asked("POST", "/a", `text/plain; charset="UTF-8"`, "é"), asked("POST", "/a", "text/plain;charset=utf-8", "é"), true},
	{"a parameter that is made anew", asked("POST", "/a", "application/json; trace=1", "1"), asked("POST", "/a", "application/json; trace=2", "1"), true},
	{"FP-16 another boundary is no other type", asked("POST", "/a", "multipart/form-data; boundary=X", "1"), asked("POST", "/a", "multipart/form-data; boundary=Y", "1"), true},
	{"FP-16 another boundary in the body, raw", asked("POST", "/a", "multipart/form-data; boundary=X", "--X--"), asked("POST", "/a", "multipart/form-data; boundary=Y", "--Y--"), false},
	{"a type that is none", asked("POST", "/a", "text/;;", "1"), asked("POST", "/a", "text/;", "1"), false},

	{"headers of one exchange", asked("POST", "/a", "t/t", "x", "Accept", "a/a", "Traceparent", "00-1"), asked("POST", "/a", "t/t", "x", "Accept", "b/b", "Traceparent", "00-2"), true},
	{"another user agent and token", asked("POST", "/a", "t/t", "x", "Authorization", "Bearer 1"), asked("POST", "/a", "t/t", "x", "Authorization", "Bearer 2"), true},
	{"the key is quoted now", asked("POST", "/a", "t/t", "x"), asked("POST", "/a", "t/t", "x", "Quoted", "yes"), true},
}

// asked returns what makes a request under the key k.
func asked(method, target, mediaType, body string, lines ...string) func() *http.Request {
	return func() *http.Request {
		r := request(method, target, body, append(lines, "Idempotency-Key", "k")...)
		if mediaType != "" {
			r.Header.Set("Content-Type", mediaType)
		}
		if r.Header.Get("Quoted") != "" {
			r.Header.Set("Idempotency-Key", `"k"`)
		}
		return r
	}
}

// FP-2, BE-5: another request under the key is told apart, by its raw bytes, while the first runs and when it is done; it changes nothing: the
// first is replayed then.
func TestFingerprint(t *testing.T) {
	for _, tt := range variants {
		t.Run(tt.name, func(t *testing.T) {
			h, running, letGo := blocking()
			l := newLab(t, setup{}, h)
			first := l.start(tt.first())
			recv(t, "the first runs", running)
			if got := l.do(tt.second()); tt.same {
				wantProblem(t, "while the first runs", got, 409, problem.InFlight)
			} else {
				wantProblem(t, "while the first runs", got, 422, problem.KeyReused)
			}
			close(letGo)
			wantCharged(t, "first", recv(t, "first", first), false)
			if got := l.do(tt.second()); tt.same {
				wantCharged(t, "when it is done", got, true)
			} else {
				wantProblem(t, "when it is done", got, 422, problem.KeyReused)
			}
			wantCharged(t, "the first again", l.do(tt.first()), true)
			l.wantRuns(t, 1)
		})
	}
}

// TN-5: what is told of another request's key tells nothing of that request, done or not.
func TestMismatchTellsNothingOfTheFirst(t *testing.T) {
	l := newLab(t, setup{}, charged)
	l.do(post("key-secret"))
	got := l.do(request(http.MethodPost, "/charges", "other", "Idempotency-Key", "key-secret"))
	wantProblem(t, "mismatch", got, 422, problem.KeyReused)
	wantRetryAfter(t, "mismatch", got, 0)
	if strings.Contains(got.body, "urn:retrysafe:key") || strings.Contains(got.body, "201") {
		t.Errorf("the problem points to the first request: %s", got.body)
	}
}

// FP-19: what the store keeps of a payload cannot be guessed from a dump.
func TestStoreKeepsNoPlainFingerprint(t *testing.T) {
	l := newLab(t, setup{}, charged)
	l.do(post("k"))
	other := newLab(t, setup{}, charged)
	other.do(post("k"))
	one, _, err := l.store.Store.Get(t.Context(), idOf("k"))
	two, _, err2 := other.store.Store.Get(t.Context(), idOf("k"))
	if err != nil || err2 != nil || len(one) != 1 || len(two) != 1 {
		t.Fatalf("Get: %v, %v", err, err2)
	}
	if one[0].Fingerprint == two[0].Fingerprint {
		t.Error("two stores keep the same fingerprint of one request: it is no secret's")
	}
	if strings.Contains(l.store.dump(t), "body-secret") {
		t.Error("the store keeps the payload")
	}
}

// A handler that changes what it was given changes no fingerprint.
func TestHandlerMayChangeItsRequest(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		clear(b)
		r.URL.Path, r.Method = "/changed", "PUT"
		r.Header.Set("Content-Type", "changed/changed")
		charged(w, r)
	})
	wantCharged(t, "first", l.do(post("k")), false)
	wantCharged(t, "again", l.do(post("k")), true)
}

// A guard within a guard, each with a header of its own, is two keys of one request.
func TestGuardsNest(t *testing.T) {
	inner := newLab(t, setup{guard: idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"X-Inner"}}}}, charged)
	outer := newLab(t, setup{}, inner.ServeHTTP)
	wantCharged(t, "first", outer.do(post("k", "X-Inner", "i")), false)
	wantCharged(t, "again, by the outer", outer.do(post("k", "X-Inner", "i")), true)
	inner.wantRuns(t, 1)
	if got := outer.do(post("other", "X-Inner", "i")); got.status != 201 {
		t.Errorf("again, by the inner: got %d", got.status)
	}
	inner.wantRuns(t, 1)
}
