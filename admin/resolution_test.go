package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/store/memstore"
)

const signature = `"by":"ana","reason":"seen"`

func TestParseResolution(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       *Resolution
	}{
		{"completed, no answer", `{"action":"complete",` + signature + `}`, &Resolution{Action: Complete}},
		{"released by force", `{` + signature + `,"force":true,"action":"release"}`, &Resolution{Action: Release, Force: true}},
		{"whole answer", ` {"action":"complete",` + signature + `,"status":599,"headers":{"x-a":["1","2"],"Etag":[""]},"body":"AP8="} `,
			&Resolution{Action: Complete, Status: 599, Headers: http.Header{"X-A": {"1", "2"}, "Etag": {""}}, Body: []byte{0, 255}}},
		{"nulls", `{"action":"complete",` + signature + `,"status":null,"headers":null,"body":null,"force":null}`, &Resolution{Action: Complete}},
		{"empty answer", `{"action":"complete",` + signature + `,"status":204,"headers":{},"body":""}`, &Resolution{Action: Complete, Status: 204, Headers: http.Header{}, Body: []byte{}}},
	} {
		tt.want.By, tt.want.Reason = "ana", "seen"
		got, err := parseResolution([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

func TestParseResolutionRefuses(t *testing.T) {
	complete := func(more string) string { return `{"action":"complete",` + signature + more + `}` }
	long := strings.Repeat("x", 257)
	for _, tt := range []struct{ name, body, want string }{
		{"empty", "", "not JSON"},
		{"cut short", `{"action":"complete"`, "not JSON"},
		{"two objects", complete("") + complete(""), "not JSON"},
		{"text behind the object", complete("") + " x", "not JSON"},
		{"brace behind the object", complete("") + "}", "not JSON"},
		{"comma at the end", `{"action":"complete",}`, "not JSON"},
		{"array", `[]`, "must be JSON objects"},
		{"null", `null`, "must be JSON objects"},
		{"text", `"complete"`, "must be JSON objects"},
		{"not UTF-8", complete(",\"x\":\"\xff\""), "UTF-8"},
		{"unknown field", complete(`,"statuss":200`), `"statuss" is not known here. Known are: action, by, reason, status`},
		{"field in upper case", complete(`,"FORCE":true`), `"FORCE" is not known`},
		{"field twice", complete(`,"by":"bob"`), `"by" stands there twice`},
		{"field twice, escaped", complete(`,"\u0062y":"bob"`), `"by" stands there twice`},
		{"no action", `{` + signature + `}`, `want "complete"`},
		{"another action", `{"action":"delete",` + signature + `}`, `want "complete"`},
		{"action is a number", `{"action":1,` + signature + `}`, `action: want "complete" or "release"`},
		{"no name", `{"action":"release","reason":"r"}`, "by is required"},
		{"blank name", `{"action":"release","by":" \t","reason":"r"}`, "by is required"},
		{"no reason", `{"action":"release","by":"b"}`, "reason is required"},
		{"blank reason", `{"action":"release","by":"b","reason":"\n"}`, "reason is required"},
		{"long name", `{"action":"release","by":"` + long + `","reason":"r"}`, "by has 257 bytes"},
		{"long reason", `{"action":"release","by":"b","reason":"` + long + `"}`, "reason has 257 bytes"},
		{"reason of two lines", `{"action":"release","by":"b","reason":"a\nb"}`, "reason has a control character"},
		{"name with an escape sequence", `{"action":"release","by":"b\u001b[31m","reason":"r"}`, "by has a control character"},
		{"force is text", complete(`,"force":"true"`), "force: want true or false"},
		{"status is text", complete(`,"status":"200"`), "status: want a number"},
		{"status with a fraction", complete(`,"status":200.5`), "status: want a number"},
		{"informational status", complete(`,"status":199`), "199: want 200 to 599"},
		{"status out of range", complete(`,"status":600`), "600: want 200 to 599"},
		{"status 0", complete(`,"status":0`), "0: want 200 to 599"},
		{"body without status", complete(`,"body":"AA=="`), "status is required"},
		{"empty body without status", complete(`,"body":""`), "status is required"},
		{"headers without status", complete(`,"headers":{}`), "status is required"},
		{"body that is not base64", complete(`,"status":200,"body":"***"`), "body: want base64"},
		{"body in the URL alphabet", complete(`,"status":200,"body":"_-8="`), "body: want base64"},
		{"body of a 204", complete(`,"status":204,"body":"AA=="`), "204 has no body"},
		{"body of a 205", complete(`,"status":205,"body":"AA=="`), "205 has no body"},
		{"body of a 304", complete(`,"status":304,"body":"AA=="`), "304 has no body"},
		{"headers is a list", complete(`,"status":200,"headers":[]`), "must be JSON objects"},
		{"header is text", complete(`,"status":200,"headers":{"A":"b"}`), `{"Name": ["value"]}`},
		{"header name with a space", complete(`,"status":200,"headers":{"A b":["c"]}`), `"A b" cannot be sent`},
		{"header name is empty", complete(`,"status":200,"headers":{"":["c"]}`), `"" cannot be sent`},
		{"header value with a line end", complete(`,"status":200,"headers":{"A":["b\r\nSet-Cookie: c"]}`), `"A" cannot be sent`},
		{"header twice", complete(`,"status":200,"headers":{"a-b":["1"],"A-B":["2"]}`), "A-B is given twice"},
		{"header twice, spelled alike", complete(`,"status":200,"headers":{"A":["1"],"A":["2"]}`), `"A" stands there twice`},
		{"cookie", complete(`,"status":200,"headers":{"set-cookie":["a=b"]}`), "Set-Cookie belongs to one exchange"},
		{"length", complete(`,"status":200,"headers":{"Content-Length":["7"]}`), "Content-Length belongs"},
		{"marker of a replay", complete(`,"status":200,"headers":{"Idempotent-Replayed":["true"]}`), "Idempotent-Replayed belongs"},
		{"large headers", complete(`,"status":200,"headers":{"A":["` + strings.Repeat("b", 33<<10) + `"]}`), "32 KiB"},
		{"released with a status", `{"action":"release",` + signature + `,"status":200}`, "a released key has no answer"},
		{"released with a body", `{"action":"release",` + signature + `,"body":""}`, "a released key has no answer"},
	} {
		_, err := parseResolution([]byte(tt.body))
		p, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(p.Detail, tt.want) {
			t.Errorf("%s: %v, want a problem that says %q", tt.name, err, tt.want)
		}
	}
}

// The request may be a little larger than the answer.
func TestAnswerLargerThanTheLimit(t *testing.T) {
	for size, want := range map[int]bool{maxAnswerBody: true, maxAnswerBody + 1: false} {
		r := Resolution{Action: Complete, Status: http.StatusOK, Body: make([]byte, size)}
		err := r.check()
		if p, ok := errors.AsType[*Error](err); (err == nil) != want || err != nil && (!ok || p.Code != codeTooLarge) {
			t.Errorf("%d bytes: %v, want taken %v", size, err, want)
		}
	}
}

func TestTextThatFitsIsKeptWhole(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	key := retrysafe.Key{Scope: "s", Name: "k"}
	e.Do(t.Context(), key, retrysafe.Fingerprint{}, func(context.Context) ([]byte, error) { return nil, errors.New("reset") })
	reason := strings.Repeat("ü", maxText/2)
	if err := checkSigned("ana", reason); err != nil {
		t.Fatalf("checkSigned: %v", err)
	}
	r, err := e.Forget(t.Context(), key.ID(), "ana", reason, false)
	if err != nil || len(r.History) != 1 || r.History[0].Why != reason {
		t.Errorf("Forget: %+v, %v, want the reason whole", r.History, err)
	}
}

// TestExchangeHeadersAreThoseOfIdemhttp holds two lists together that must be one: idemhttp says what it never
// keeps by refusing to.
func TestExchangeHeadersAreThoseOfIdemhttp(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	names := strings.Fields(`Accept Accept-Ch Accept-Patch Accept-Post Accept-Ranges Access-Control-Allow-Origin Access-Control-Max-Age Age Allow Alt-Svc
		Alt-Used Authentication-Info Authorization Cache-Control Cache-Status Cdn-Cache-Control Clear-Site-Data Connection Content-Digest
		Content-Disposition Content-Encoding Content-Language Content-Length Content-Location Content-Range Content-Security-Policy
		Content-Security-Policy-Report-Only Content-Type Cookie Cross-Origin-Opener-Policy Date Deprecation Etag Expires Host Http2-Settings
		Idempotency-Key Idempotency-Status Idempotent-Replayed Keep-Alive Last-Modified Link Location Nel Permissions-Policy Pragma
		Preference-Applied Proxy-Authenticate Proxy-Authentication-Info Proxy-Connection Proxy-Status Ratelimit Ratelimit-Limit
		Ratelimit-Policy Referrer-Policy Refresh Repr-Digest Report-To Reporting-Endpoints Retry-After Server Server-Timing Set-Cookie
		Set-Cookie2 Signature Strict-Transport-Security Sunset Te Timing-Allow-Origin Traceparent Tracestate Trailer Transfer-Encoding Upgrade
		Vary Via Warning Www-Authenticate X-Anything X-Content-Type-Options X-Correlation-Id X-Frame-Options X-Powered-By X-Ratelimit-Reset
		X-Request-Id X-Trace-Id`)
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		_, err := idemhttp.New(e, idemhttp.SharedScope, &idemhttp.Options{ReplayHeaders: []string{name}})
		if got, want := answer.OfOneExchange(name), err != nil; got != want {
			t.Errorf("header %s: never replayed %v, to idemhttp %v", name, got, want)
		}
	}
}

// FuzzParseResolution: what is taken is whole, can be kept and replayed, and comes back from JSON.
func FuzzParseResolution(f *testing.F) {
	for _, seed := range []string{
		`{"action":"complete",` + signature + `}`,
		`{"action":"release",` + signature + `,"force":true}`,
		`{"action":"complete",` + signature + `,"status":201,"headers":{"Location":["/a","b"]},"body":"AP8="}`,
		`{"action":"complete",` + signature + `,"status":204,"headers":{},"body":""}`,
		`{"action":"complete","by":"\ud800","reason":"\u00e4","status":null}`,
		`{"headers":{"a":["b\r\n"]},"by":1,"by":2}`,
		`[]`, `{`, `null`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseResolution(body)
		if err != nil {
			if p, ok := errors.AsType[*Error](err); !ok || p.Detail == "" || kinds[p.Code].status == 0 {
				t.Fatalf("%q: error %v is no problem to tell", body, err)
			}
			return
		}
		if strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "" || r.Action != Complete && r.Action != Release {
			t.Fatalf("%q: taken as %+v", body, r)
		}
		if kept := r.answer(); kept != nil {
			if _, err := answer.Decode(kept); err != nil {
				t.Fatalf("%q: the answer cannot be replayed: %v", body, err)
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		again, err := parseResolution(text)
		if err != nil || string(again.answer()) != string(r.answer()) || again.By != r.By || again.Reason != r.Reason || again.Force != r.Force || again.Action != r.Action {
			t.Fatalf("%q: through JSON %+v, %v, was %+v", body, again, err, r)
		}
	})
}
