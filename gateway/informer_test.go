package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"testing"
)

// An informational answer that comes when the final one is under way is dropped: it would fall into that one's middle,
// and its headers among that one's.
func TestInformerDropsWhatComesLate(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("X-Outer", "1")
	i := &informer{w: w}
	i.end()
	if err := i.pass(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</late.css>"}}); err != nil {
		t.Errorf("pass: %v", err)
	}
	if got := w.Result(); got.StatusCode != 200 || got.Header.Get("Link") != "" || got.Header.Get("X-Outer") != "1" {
		t.Errorf("got %d %v, want nothing of the late answer", got.StatusCode, got.Header)
	}
}
