package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// What a gateway publishes of its guards, and of nothing else.
func TestSpecificationIsPublished(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"))
	o := gateway.Options{
		Guard: idemhttp.Options{Required: true, Words: idemhttp.Words{Scope: "shared"}},
		Routes: []gateway.Route{
			{Name: "orders", Path: "/orders", Methods: []string{"POST", "PUT"}, Guard: idemhttp.Options{Preset: idemhttp.Stripe}},
			{Name: "files", Path: "/files/{rest...}", Unguarded: true},
		},
	}
	l := newLab(t, up.url(), o)
	got := l.do(request(http.MethodGet, idemhttp.SpecificationPath, ""))
	var s idemhttp.Specification
	if err := json.Unmarshal([]byte(got.body), &s); err != nil || got.status != 200 {
		t.Fatalf("got %d %q: %v", got.status, got.body, err)
	}
	if !s.Required || s.Scope != "shared" || s.Header != "Idempotency-Key" || len(s.Routes) != 2 {
		t.Fatalf("published %+v", s)
	}
	orders, files := s.Routes[0], s.Routes[1]
	if orders.Route != "orders" || orders.Path != "/orders" || orders.Required || orders.Syntax != "stripe" || strings.Join(orders.Methods, " ") != "POST PUT" || len(orders.Errors) == 0 {
		t.Errorf("orders: %+v", orders)
	}
	if !files.Unguarded || files.Header != "" || files.InFlight != nil {
		t.Errorf("files: %+v", files)
	}
	if upstream := strings.TrimPrefix(up.url(), "http://"); strings.Contains(got.body, upstream) {
		t.Errorf("it tells where the upstream is: %s", got.body)
	}
	if got := l.do(request(http.MethodPost, idemhttp.SpecificationPath, "x")); got.status != 400 {
		t.Errorf("POST there: got %d, want it guarded as any other", got.status)
	}
	up.wantRequests(t, 0)

	o.NoSpecification = true
	if got := newLab(t, up.url(), o).do(httptest.NewRequest(http.MethodGet, idemhttp.SpecificationPath, nil)); got.body != "up" {
		t.Errorf("switched off: got %d %q, want the upstream's", got.status, got.body)
	}
}
