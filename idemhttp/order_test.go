package idemhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What stands outside of the guard, and what inside.

// A time-out outside tells its caller that it took too long; the handler runs on, and its answer is kept.
func TestTimeoutHandlerOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
			advance(3 * time.Second)
			charged(w, r)
		})
		outside := http.TimeoutHandler(l, time.Second, "too slow")
		wantStatus(t, "first", answered(outside, post("k")), http.StatusServiceUnavailable, "")
		wantStatus(t, "while it runs on", answered(outside, post("k")), http.StatusConflict, "")
		advance(5 * time.Second)
		wantCharged(t, "again", answered(outside, post("k")), true)
		l.wantRuns(t, 1)
	})
}

func TestTimeoutHandlerInsideIsRefused(t *testing.T) {
	l := newLab(t, setup{}, charged)
	defer func() {
		if why, _ := recover().(string); !strings.Contains(why, "TimeoutHandler") {
			t.Errorf("Handler panics with %q, want it to refuse the TimeoutHandler", why)
		}
	}()
	l.guard.Handler(http.TimeoutHandler(http.HandlerFunc(charged), time.Second, ""))
}

// HR-8: compression inside is told of, once.
func TestCompressionInsideIsTold(t *testing.T) {
	l := newLab(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		charged(w, r)
	})
	l.do(post("1"))
	l.do(post("2", "X-Another", "request"))
	if n := strings.Count(l.log.String(), "put compression outside"); n != 1 {
		t.Errorf("the log says it %d times, want once: %s", n, l.log)
	}
}
