package gateway_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// S11: a server that makes variables of headers reads X_Tenant and X-Tenant as one. What imitates a header that came, or
// that the gateway sets or decides by, does not reach it; a header of its own with an underscore does. Go's server lets
// all of them in, which the wire shows.
func TestLookAlikes(t *testing.T) {
	for _, way := range forwardings {
		t.Run(way.name, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := labOver(t, memstore.New(nil), up.url(), gateway.HeaderScope("X-Tenant", gateway.Loopback()), gateway.Options{Guard: idemhttp.Options{Key: idemhttp.KeySource{Headers: []string{"Idempotency-Key", "X-Order"}}}})
			c := dial(t, serve(t, l))
			c.send(t, "%s / HTTP/1.1\r\nHost: api\r\nX-Tenant: mine\r\nX_Tenant: yours\r\nx_TENANT: yours\r\nIdempotency_Key: other\r\nX_Idempotency-Key: other\r\nX_Order: other\r\nX_Forwarded_For: 203.0.113.1\r\nX-Forwarded_Host: evil\r\nX_Real-IP: 203.0.113.1\r\n"+
				"Content_Length: 9\r\nTransfer_Encoding: chunked\r\nclient_id: app\r\nX_Own: mine\r\nContent-Length: 4\r\n", way.method)
			for i := 0; i < len(way.lines); i += 2 {
				c.send(t, "%s: %s\r\n", way.lines[i], way.lines[i+1])
			}
			c.send(t, "\r\nbody")
			wantCreated(t, "request", c.answer(t, way.method), false)
			got := recv(t, "the request", up.told)
			for _, name := range []string{"X_Tenant", "Idempotency_Key", "X_Idempotency-Key", "X_Order", "X_Forwarded_For", "X-Forwarded_Host", "X_Real-IP", "Content_Length", "Transfer_Encoding"} {
				wantLines(t, got, name)
			}
			wantLines(t, got, "X-Tenant", "mine")
			wantLines(t, got, "Client_id", "app")
			wantLines(t, got, "X_Own", "mine")
		})
	}
}

// A look-alike is no scope and no key.
func TestLookAlikeDecidesNothing(t *testing.T) {
	up := newUpstream(t, charging)
	l := labOver(t, memstore.New(nil), up.url(), gateway.HeaderScope("X-Tenant", gateway.Loopback()), gateway.Options{Guard: idemhttp.Options{Required: true}})
	wantProblem(t, "scope", l.do(post("k", "body", "X_Tenant", "t")), 401, problem.ScopeMissing, "")
	wantProblem(t, "key", l.do(request("POST", "/", "body", "Idempotency_Key", "k", "X-Tenant", "t")), 400, problem.KeyMissing, "")
	up.wantRequests(t, 0)
}

// S10: the caller names the key and the scope in Connection, in whatever case and between whatever else. The key
// still goes upstream; a scope that anybody on the way could have had removed is not believed.
func TestConnectionNamesWhatDecides(t *testing.T) {
	for _, line := range []string{"Idempotency-Key, X-Tenant", "iDEMPOTENCY-kEY,x-tenant", "close ,\tX-TENANT\t, idempotency-key", ",,x-tenant,,idempotency-key"} {
		t.Run(line, func(t *testing.T) {
			up := newUpstream(t, charging)
			l := labOver(t, memstore.New(nil), up.url(), gateway.HeaderScope("X-Tenant", gateway.Loopback()), gateway.Options{})
			c := dial(t, serve(t, l))
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nConnection: %s\r\nIdempotency-Key: k\r\nX-Tenant: t\r\nContent-Length: 4\r\n\r\nbody", line)
			wantProblem(t, "key and scope", c.answer(t, "POST"), 401, problem.ScopeMissing, "")
			up.wantRequests(t, 0)
			l = newLab(t, up.url(), gateway.Options{})
			c = dial(t, serve(t, l))
			c.send(t, "POST / HTTP/1.1\r\nHost: api\r\nConnection: %s\r\nIdempotency-Key: k\r\nX-Tenant: t\r\nContent-Length: 4\r\n\r\nbody", line)
			wantCreated(t, "the key", c.answer(t, "POST"), false)
			got := recv(t, "the request", up.told)
			wantLines(t, got, "Idempotency-Key", "k")
			wantLines(t, got, "X-Tenant")
			wantLines(t, got, "Connection")
		})
	}
}
