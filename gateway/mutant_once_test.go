package gateway

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// TestEachDefenceAgainstASecondSend: a body that cannot be rewound and a key that net/http does not recognise each
// keep it from sending a request with a body again. On the wire one makes up for the other, so each is looked at
// by itself.
func TestEachDefenceAgainstASecondSend(t *testing.T) {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(e, &url.URL{Scheme: "http", Host: "upstream.example"}, idemhttp.SharedScope, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "body"} {
		r := httptest.NewRequest("POST", "http://public.example/charges", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("X-Idempotency-Key", "x")
		out := g.outgoing(t.Context(), r)
		if out.GetBody != nil {
			t.Errorf("body %q: net/http could rewind it", body)
		}
		for name, want := range map[string]string{"Idempotency-Key": "k", "X-Idempotency-Key": "x"} {
			if lines, ok := out.Header[name]; ok {
				t.Errorf("body %q: %s: %q is a name that net/http looks for", body, name, lines)
			}
			if lines := out.Header[strings.ToLower(name)]; !slices.Equal(lines, []string{want}) {
				t.Errorf("body %q: %s is %q, want %q", body, strings.ToLower(name), lines, want)
			}
		}
	}
}
