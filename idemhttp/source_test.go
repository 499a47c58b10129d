package idemhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// Where a key may stand, and what is made of it there.

const jsonType = "application/json"

func jsonPost(target, body string) *http.Request {
	return request(http.MethodPost, target, body, "Content-Type", jsonType)
}

func TestKeySources(t *testing.T) {
	headers := idemhttp.KeySource{Headers: []string{"Idempotency-Key", "x-request-id"}}
	query := idemhttp.KeySource{Query: "request_id"}
	pointer := idemhttp.KeySource{Pointer: "/meta/request_id"}
	fields := idemhttp.KeySource{Fields: []string{"/shop", "/order_no"}}
	const missing = "" // such a request runs unguarded, and is refused where a key is required
	for _, tt := range []struct {
		name string
		from idemhttp.KeySource
		r    func() *http.Request
		want string // the key's name; refused for 400
	}{
		{"the first header", headers, func() *http.Request { return request("POST", "/", "x", "Idempotency-Key", "k") }, "k"},
		{"the second header", headers, func() *http.Request { return request("POST", "/", "x", "X-Request-Id", `"k"`) }, "k"},
		{"KP-1 two headers", headers, func() *http.Request { return request("POST", "/", "x", "X-Request-Id", "k", "Idempotency-Key", "k") }, refused},
		{"no header", headers, func() *http.Request { return request("POST", "/", "x", "X-Request", "k") }, missing},

		{"a parameter", query, func() *http.Request { return jsonPost("/?a=1&request_id=k&b=2", "x") }, "k"},
		{"a parameter, encoded", query, func() *http.Request { return jsonPost("/?request%5Fid=a%22b+%2C", "x") }, `a"b ,`},
		{"KP-1 a parameter twice", query, func() *http.Request { return jsonPost("/?request_id=k&request_id=k", "x") }, refused},
		{"KP-4 an empty parameter", query, func() *http.Request { return jsonPost("/?request_id=", "x") }, refused},
		{"KP-4 a parameter without a value", query, func() *http.Request { return jsonPost("/?request_id", "x") }, refused},
		{"a parameter that is no text", query, func() *http.Request { return jsonPost("/?request_id=%00", "x") }, refused},
		{"a parameter that does not decode", query, func() *http.Request { return jsonPost("/?request_id=100%", "x") }, "100%"},
		{"another parameter", query, func() *http.Request { return jsonPost("/?Request_id=k", "x") }, missing},

		{"a member", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":"k-1"}}`) }, "k-1"},
		{"a member with escapes", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request\u005fid":"k\u002d1"}}`) }, "k-1"},
		{"no member", pointer, func() *http.Request { return jsonPost("/", `{"meta":{}}`) }, missing},
		{"a number where a string must be", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":7}}`) }, refused},
		{"null", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":null}}`) }, refused},
		{"KP-4 an empty member", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":""}}`) }, refused},
		{"KP-7 a member of 256 bytes", pointer, func() *http.Request {
			return jsonPost("/", `{"meta":{"request_id":"`+strings.Repeat("k", 256)+`"}}`)
		}, refused},
		{"a member that is no ASCII", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":"é"}}`) }, refused},
		{"FP-7 a doubled member", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":"a","request_id":"b"}}`) }, refused},
		{"FP-7 doubled elsewhere", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":"a"},"x":1,"\u0078":2}`) }, refused},
		{"FP-7 a doubled member, and it does not say it is JSON", pointer, func() *http.Request {
			return request("POST", "/", `{"meta":{"request_id":"a","request_id":"b"}}`)
		}, refused},
		{"more behind the value", pointer, func() *http.Request {
			return request("POST", "/", "\ufeff {\"meta\":{\"request_id\":\"a\"}} x", "Content-Type", "text/json")
		}, refused},
		{"JSON that breaks off", pointer, func() *http.Request { return jsonPost("/", `{"meta":{"request_id":"a"`) }, refused},
		{"no JSON, and it says so", pointer, func() *http.Request { return request("POST", "/", "a=1", "Content-Type", "text/plain") }, missing},
		{"JSON that does not say so", pointer, func() *http.Request { return request("POST", "/", `{"meta":{"request_id":"k"}}`) }, "k"},
		{"no body", pointer, func() *http.Request { return request("POST", "/", "") }, missing},
		{"no body, and it says it is JSON", pointer, func() *http.Request { return jsonPost("/", "") }, refused},

		{"business fields", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":17,"shop":"a"}`) }, `POST /orders "a","17"`},
		{"business fields, encoded path", fields, func() *http.Request { return jsonPost("/o%20s", `{"order_no":"1\"7","shop":"é"}`) }, `POST /o%20s "é","1\"7"`},
		{"KP-4 an empty business field", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":"","shop":"a"}`) }, refused},
		{"one business field of two", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":17}`) }, missing},
		{"a number that can be written otherwise", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":17.0,"shop":"a"}`) }, refused},
		{"minus nothing", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":-0,"shop":"a"}`) }, refused},
		{"a business field that is true", fields, func() *http.Request { return jsonPost("/orders", `{"order_no":true,"shop":"a"}`) }, refused},
		{"KP-7 business fields of too many bytes", fields, func() *http.Request {
			return jsonPost("/orders", `{"order_no":"`+strings.Repeat("1", 255)+`","shop":"a"}`)
		}, refused},
		{"an upgrade", fields, func() *http.Request {
			return request("POST", "/orders", `{"order_no":17,"shop":"a"}`, "Upgrade", "h2c", "Content-Type", jsonType)
		}, refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, required := range []bool{false, true} {
				var read string
				l := newLab(t, setup{guard: idemhttp.Options{Key: tt.from, Required: required}}, func(w http.ResponseWriter, r *http.Request) {
					b, err := io.ReadAll(r.Body)
					if read = string(b); err != nil {
						t.Errorf("the handler reads %v", err)
					}
					charged(w, r)
				})
				r := tt.r()
				sent := ""
				if r.Body != nil {
					b, _ := io.ReadAll(r.Body)
					sent = string(b)
					r.Body = io.NopCloser(strings.NewReader(sent))
				}
				got := l.do(r)
				switch {
				case tt.want == refused:
					wantProblem(t, "request", got, 400, problem.KeyInvalid)
					l.wantRuns(t, 0)
				case tt.want == missing && required:
					wantProblem(t, "request", got, 400, problem.KeyMissing)
					l.wantRuns(t, 0)
				default:
					wantCharged(t, "request", got, false)
					if read != sent {
						t.Errorf("the handler read %q, want %q", read, sent)
					}
				}
				if tt.want == refused || tt.want == missing {
					if n := l.store.calls.Load(); n != 0 {
						t.Errorf("%d store calls, want none", n)
					}
				} else if r := l.stands(t, tt.want); r.State != retrysafe.Completed {
					t.Errorf("%v stands under %q; the store holds %q", r.State, tt.want, l.store.dump(t))
				}
			}
		})
	}
}

// An order is charged once however its number is written, and refunded under the same number.
func TestBusinessKeyBelongsToItsOperation(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Key: idemhttp.KeySource{Fields: []string{"/order_no"}}}}, charged)
	wantCharged(t, "charge", l.do(jsonPost("/charges", `{"order_no":17}`)), false)
	wantCharged(t, "charge, again", l.do(jsonPost("/charges", `{"order_no":17}`)), true)
	wantProblem(t, "charge, as text", l.do(jsonPost("/charges", `{"order_no":"17"}`)), 422, problem.KeyReused)
	wantProblem(t, "charge, another amount", l.do(jsonPost("/charges", `{"order_no":17,"amount":2}`)), 422, problem.KeyReused)
	wantProblem(t, "charge, its path spelled otherwise", l.do(jsonPost("/%63harges", `{"order_no":17}`)), 422, problem.KeyReused)
	wantCharged(t, "refund", l.do(jsonPost("/refunds", `{"order_no":17}`)), false)
	l.wantRuns(t, 2)
}

// Values of several members do not run together.
func TestBordersBetweenBusinessFields(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Key: idemhttp.KeySource{Fields: []string{"/a", "/b"}}}}, charged)
	for i, body := range []string{`{"a":"x","b":"y"}`, `{"a":"x\",\"y","b":"z"}`, `{"a":"x","b":"y\",\"z"}`, `{"a":"x,y","b":"z"}`} {
		wantCharged(t, body, l.do(jsonPost("/", body)), false)
		l.wantRuns(t, int64(i+1))
	}
}

// A body that has to be read to find the key has the limits of every guarded body.
func TestLimitsWhereTheBodyCarriesTheKey(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{Key: idemhttp.KeySource{Pointer: "/k"}, MaxBody: 20}}, charged)
	wantProblem(t, "too large", l.do(jsonPost("/", `{"k":"1","pad":"123456789"}`)), 413, problem.BodyTooLarge)
	r := jsonPost("/", `{"k":"1"}`)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"k":`), brokenReader{}))
	wantProblem(t, "broken off", l.do(r), 400, problem.BodyUnreadable)
	if l.runs.Load() != 0 || l.store.calls.Load() != 0 {
		t.Errorf("%d runs and %d store calls, want none", l.runs.Load(), l.store.calls.Load())
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestKeySourceIsRefused(t *testing.T) {
	e, err := retrysafe.New(newLab(t, setup{}, charged).store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]idemhttp.KeySource{
		"two places":            {Query: "q", Pointer: "/p"},
		"a header twice":        {Headers: []string{"A", "a"}},
		"a header that is none": {Headers: []string{"a b"}},
		"no pointer":            {Pointer: "request_id"},
		"the whole body":        {Fields: []string{""}},
		"a broken pointer":      {Fields: []string{"/a", "/~"}},
	} {
		if _, err := idemhttp.New(e, idemhttp.SharedScope, &idemhttp.Options{Key: s}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
