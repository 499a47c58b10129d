package idemhttp_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// A header that the first answer had on several lines has them all in the replay, in their order. Link and Vary,
// to which outer layers add their own, are restored in another way than the rest.
func TestEveryLineOfAHeaderIsReplayed(t *testing.T) {
	for _, name := range []string{"Content-Language", "Cache-Control", "X-Charge", "Link", "Vary"} {
		t.Run(name, func(t *testing.T) {
			want := []string{"b", "a", "c"}
			l := newLab(t, setup{guard: idemhttp.Options{ReplayHeaders: []string{"X-Charge"}}}, func(w http.ResponseWriter, _ *http.Request) {
				for _, value := range want {
					w.Header().Add(name, value)
				}
			})
			for what, replayed := range map[string]bool{"first": false, "again": true} {
				got := l.do(post("k-" + what))
				if replayed {
					got = l.do(post("k-" + what))
				}
				wantMarker(t, what, got, replayed)
				if !slices.Equal(got.header[name], want) {
					t.Errorf("%s: %s has the lines %q, want %q", what, name, got.header[name], want)
				}
			}
		})
	}
}
