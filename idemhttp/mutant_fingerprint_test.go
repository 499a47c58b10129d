package idemhttp_test

import (
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/internal/problem"
)

// Two requests whose parts, written one behind the other, are the same bytes are not the same request.
func TestBordersBetweenThePartsOfARequest(t *testing.T) {
	tests := []struct {
		name          string
		first, second func() *http.Request
	}{
		{"the path's end moves into the query", asked("POST", "/charges/7", "t/t", ""), asked("POST", "/charges/?7", "t/t", "")},
		{"the query's end moves into the media type", asked("POST", "/charges?a=t", "t/t", ""), asked("POST", "/charges?a=", "tt/t", "")},
		{"the media type's end moves into the body", asked("POST", "/charges", "t/tx", "y"), asked("POST", "/charges", "t/t", "xy")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, setup{}, charged)
			wantCharged(t, "first", l.do(tt.first()), false)
			wantProblem(t, "second", l.do(tt.second()), http.StatusUnprocessableEntity, problem.KeyReused)
			l.wantRuns(t, 1)
		})
	}
}
