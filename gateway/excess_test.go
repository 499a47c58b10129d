package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// TestExcessBytesReachNobody: an upstream that sends more than its answer, here a whole second one, must not
// answer a request of another key with it.
func TestExcessBytesReachNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go answerTwice(c)
		}
	}()
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(e, &url.URL{Scheme: "http", Host: l.Addr().String()}, idemhttp.SharedScope, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != http.StatusNoContent {
			t.Fatalf("request %d: status %d, body %q: that is the excess of another answer", i, w.Code, w.Body)
		}
	}
}

// answerTwice answers each request of a connection with a 204, and with bytes behind it.
func answerTwice(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET")
	}
}
