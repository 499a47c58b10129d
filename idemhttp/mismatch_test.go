package idemhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/problem"
)

// FP-20: who changed a request and sent it again is told what became of the first, and nothing of what was in it.
func TestMismatchSaysWhatBecameOfTheFirst(t *testing.T) {
	original := func(got reply) string {
		wantProblem(t, "another request", got, 422, problem.KeyReused)
		_, after, _ := strings.Cut(got.body, `"original":"`)
		word, _, _ := strings.Cut(after, `"`)
		return word
	}
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := newLab(t, setup{}, h)
		first := l.start(post("k"))
		<-running
		other := func() reply { return l.do(post("k", "Content-Type", "text/plain")) }
		if got := original(other()); got != "in-flight" {
			t.Errorf("while it runs: %q", got)
		}
		letGo <- struct{}{}
		<-first
		if got := original(other()); got != "completed" {
			t.Errorf("when it is done: %q", got)
		}
		advance(25 * time.Hour)
		if got := original(other()); got != "completed" {
			t.Errorf("when its answer is gone: %q", got)
		}
		l.wantRuns(t, 1)
	})
	l := newLab(t, setup{}, func(http.ResponseWriter, *http.Request) { panic("answer-secret") })
	l.do(post("k"))
	if got := original(l.do(post("k", "Content-Type", "text/plain"))); got != "unknown" {
		t.Errorf("when nobody knows: %q", got)
	}
}
