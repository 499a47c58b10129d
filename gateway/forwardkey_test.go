package gateway_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

var forwardSecret = []byte("0123456789abcdef0123456789abcdef")

// TN-10: an upstream in another domain of trust sees no key of a caller, whatever header it came in.
func TestForwardKey(t *testing.T) {
	for _, tt := range []struct {
		name   string
		how    gateway.ForwardKey
		header string
		sent   string
		preset idemhttp.Preset
		want   string // an expression
	}{
		{"the same", gateway.ForwardSame, "Idempotency-Key", "key-secret", idemhttp.IETF, `^key-secret$`},
		{"derived", gateway.ForwardDerived, "Idempotency-Key", "key-secret", idemhttp.IETF, `^[0-9a-f]{64}$`},
		{"derived, quoted", gateway.ForwardDerived, "Idempotency-Key", `"key-secret"`, idemhttp.IETF, `^"[0-9a-f]{64}"$`},
		{"derived, quotes that are part of the key", gateway.ForwardDerived, "Idempotency-Key", `"key-secret"`, idemhttp.Stripe, `^[0-9a-f]{64}$`},
		{"derived, in another header", gateway.ForwardDerived, "X-Reference", "key-secret", idemhttp.IETF, `^[0-9a-f]{64}$`},
		{"none", gateway.ForwardNone, "Idempotency-Key", "key-secret", idemhttp.IETF, ""},
		{"none, in another header", gateway.ForwardNone, "X-Reference", "key-secret", idemhttp.IETF, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := newLab(t, up.url(), gateway.Options{ForwardKey: tt.how, ForwardSecret: forwardSecret,
				Guard: idemhttp.Options{Preset: tt.preset, Key: idemhttp.KeySource{Headers: []string{"Idempotency-Key", "X-Reference"}}}})
			for i, replayed := range []bool{false, true} {
				r := request("POST", "/charges", "body", tt.header, tt.sent, "Connection", tt.header)
				wantCreated(t, []string{"first", "again"}[i], l.do(r), replayed)
			}
			got := strings.Join(recv(t, "the request", up.told).header(tt.header), ", ")
			if tt.want == "" && got != "" || !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("upstream came %s: %q, want %s", tt.header, got, tt.want)
			}
		})
	}
}

// TN-10: a request that is not guarded has no scope to derive a key by; its own stays here.
func TestForwardKeyOfUnguardedMethod(t *testing.T) {
	for _, how := range []gateway.ForwardKey{gateway.ForwardDerived, gateway.ForwardNone} {
		up := newUpstream(t, charging)
		l := newLab(t, up.url(), gateway.Options{ForwardKey: how, ForwardSecret: forwardSecret})
		l.do(request("PUT", "/charges/1", "body", "Idempotency-Key", "key-secret"))
		if got := recv(t, "the request", up.told).header("Idempotency-Key"); got != nil {
			t.Errorf("how %d: upstream came the key %q", how, got)
		}
	}
}

// A derived key hangs on scope, key and secret, each by itself, and on nothing else.
func TestDerivedKeys(t *testing.T) {
	derive := func(scope, key, secret string) string {
		up := newUpstream(t, charging)
		l := labOver(t, memstore.New(nil), up.url(), func(*http.Request) (string, error) { return scope, nil }, gateway.Options{ForwardKey: gateway.ForwardDerived, ForwardSecret: []byte(secret)})
		l.do(post(key, "body"))
		return strings.Join(recv(t, "the request", up.told).header("Idempotency-Key"), ", ")
	}
	secret := string(forwardSecret)
	keys := []string{derive("ab", "c", secret), derive("a", "bc", secret), derive("other", "c", secret), derive("ab", "d", secret), derive("ab", "c", secret+"x")}
	if again := derive("ab", "c", secret); again != keys[0] {
		t.Errorf("another gateway derives %s, want %s", again, keys[0])
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 5 {
		t.Errorf("two of these are equal: %v", keys)
	}
}

// The upstream is asked about the key that it knows.
func TestProbeByDerivedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &ledger{asked: sayings(200)}
		o := probing(gateway.Probe{})
		o.ForwardKey, o.ForwardSecret = gateway.ForwardDerived, forwardSecret
		l, stop := overPipes(t, up, o)
		defer stop()
		l.do(post("key-secret", "body"))
		if got := l.do(post("key-secret", "body")); got.status != 200 {
			t.Errorf("got %d, want what the upstream knows", got.status)
		}
		if !regexp.MustCompile(`^/base/charges\?key=[0-9a-f]{64}$`).MatchString(up.queries[0]) {
			t.Errorf("it was asked at %s", up.queries[0])
		}
	})
}

func TestForwardKeyIsRefused(t *testing.T) {
	recovers := &retrysafe.Policy{OnLeaseEnd: retrysafe.Recover, Lease: 1e9, Retention: 1e9}
	for _, tt := range []struct {
		name   string
		route  gateway.Route
		secret []byte
		want   string
	}{
		{"no such way", gateway.Route{ForwardKey: 3}, forwardSecret, "not one of"},
		{"no secret", gateway.Route{ForwardKey: gateway.ForwardDerived}, nil, "at least 32"},
		{"a short secret", gateway.Route{ForwardKey: gateway.ForwardDerived}, forwardSecret[:31], "at least 32"},
		{"a key in the query", gateway.Route{ForwardKey: gateway.ForwardDerived, Guard: idemhttp.Options{Key: idemhttp.KeySource{Query: "k"}}}, forwardSecret, "only a header"},
		{"a key in the body", gateway.Route{ForwardKey: gateway.ForwardNone, Guard: idemhttp.Options{Key: idemhttp.KeySource{Pointer: "/k"}}}, forwardSecret, "only a header"},
		{"fields", gateway.Route{ForwardKey: gateway.ForwardNone, Guard: idemhttp.Options{Key: idemhttp.KeySource{Fields: []string{"/k"}}}}, forwardSecret, "only a header"},
		{"sent again without a key", gateway.Route{ForwardKey: gateway.ForwardNone, Guard: idemhttp.Options{Resend: true}}, forwardSecret, "Resend needs it"},
		{"asked without a key", gateway.Route{ForwardKey: gateway.ForwardNone, Probe: &gateway.Probe{Path: "/{key}", Happened: []int{200}}, Guard: idemhttp.Options{Policy: recovers}}, forwardSecret, "a Probe needs it"},
		{"an unguarded route", gateway.Route{ForwardKey: gateway.ForwardNone, Unguarded: true}, forwardSecret, "as it comes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.route.Path = "/a"
			_, err := gateway.New(newExecutor(t), &url.URL{Scheme: "http", Host: "a"}, idemhttp.SharedScope, &gateway.Options{Routes: []gateway.Route{tt.route}, ForwardSecret: tt.secret})
			route, ok := errors.AsType[*gateway.RouteError](err)
			if !ok || route.Field != "ForwardKey" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want an error of field ForwardKey that says %q", err, tt.want)
			}
		})
	}
}
