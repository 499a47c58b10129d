package idemhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
)

// What a guard says of a status, against the table.

// OU-2: a failure that is final is kept if the guard says so, and one that is not is released.
func TestOutcomes(t *testing.T) {
	outcomes := map[int]retrysafe.State{404: retrysafe.Free, 402: retrysafe.UnknownAnswered, 429: retrysafe.Completed, 500: retrysafe.Free, 503: retrysafe.UnknownAnswered, 504: retrysafe.Completed}
	for _, tt := range []struct {
		status int
		runs   int64  // after a retry
		said   string // of the retry
	}{
		{402, 1, "unknown"}, {404, 2, ""}, {429, 1, ""}, {500, 2, ""}, {503, 1, "unknown"}, {504, 1, ""},
		{403, 2, ""}, {409, 1, ""}, {502, 1, "unknown"}, // by the table
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			l := newLab(t, setup{guard: idemhttp.Options{Outcomes: outcomes}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(tt.status)
			})
			wantStatus(t, "first", l.do(post("k")), tt.status, "")
			got := l.do(post("k"))
			wantStatus(t, "again", got, tt.status, tt.said)
			wantMarker(t, "again", got, tt.runs == 1)
			l.wantRuns(t, tt.runs)
		})
	}
}

func TestOutcomesAreRefused(t *testing.T) {
	l := newLab(t, setup{}, charged)
	for status, state := range map[int]retrysafe.State{
		200: retrysafe.Free, 302: retrysafe.Free, 199: retrysafe.Completed, 600: retrysafe.Completed, 404: retrysafe.Unknown, 500: retrysafe.InFlight, 501: retrysafe.Absent,
	} {
		if _, err := idemhttp.New(l.executor, idemhttp.SharedScope, &idemhttp.Options{Outcomes: map[int]retrysafe.State{status: state}}); err == nil {
			t.Errorf("%d as %v: taken", status, state)
		}
	}
}

// TN-7: an answer that must not lie in a store goes to its caller only.
func TestDropAnswers(t *testing.T) {
	l := newLab(t, setup{guard: idemhttp.Options{DropAnswers: true}}, charged)
	wantCharged(t, "first", l.do(post("k")), false)
	got := l.do(post("k"))
	wantStatus(t, "again", got, http.StatusCreated, "answer-not-kept")
	wantMarker(t, "again", got, true)
	if got.body != "" || got.header.Get("Location") == "" {
		t.Errorf("again: body %q, Location %q: want no body, and where it is", got.body, got.header.Get("Location"))
	}
	if dump := l.store.dump(t); strings.Contains(dump, `{"id"`) {
		t.Errorf("the store holds the body: %q", dump)
	}
	l.wantRuns(t, 1)
}
