package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// The guard over HTTP/2, with Go's own client. What a client would not send is in http2_attack_test.go.

// A client2 speaks HTTP/2 over a connection of its own.
type client2 struct{ *http.Client }

func newClient(t *testing.T, config *tls.Config) client2 {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{TLSClientConfig: config, Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return client2{&http.Client{Transport: transport, Timeout: patience}}
}

// do returns what a caller was told; a zero reply if the stream was reset.
func (c client2) do(t *testing.T, r *http.Request) reply {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		return reply{cut: true}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.ProtoMajor != 2 {
		t.Errorf("answered in %s, want HTTP/2", res.Proto)
	}
	return reply{res.StatusCode, res.Header, string(body), err != nil}
}

func newPost(t *testing.T, addr, key, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// lab2 is a lab behind a TLS listener, and a client of it.
func lab2(t *testing.T, upstream string, o gateway.Options) (l *lab, addr string, c client2) {
	t.Helper()
	root := newAuthority(t)
	l = newLab(t, upstream, o)
	addr = serveTLS(t, l, serverTLS(t, root.files(t, nil), l.log))
	return l, addr, newClient(t, &tls.Config{RootCAs: root.pool()})
}

func TestGuardOverHTTP2(t *testing.T) {
	up := newUpstream(t, func(p *peer) {
		for r, ok := p.request(); ok; r, ok = p.request() {
			head, _, _ := strings.Cut(created, "{")
			if p.answer(head); strings.HasPrefix(r.line, "POST") {
				p.answer(strings.TrimPrefix(created, head))
			}
		}
	})
	l, addr, c := lab2(t, up.url(), gateway.Options{})
	wantCreated(t, "first", c.do(t, newPost(t, addr, "k", "body")), false)
	wantCreated(t, "again", c.do(t, newPost(t, addr, "k", "body")), true)
	wantProblem(t, "another body", c.do(t, newPost(t, addr, "k", "other")), 422, problem.KeyReused, "")

	trailing := newPost(t, addr, "trailers", "body")
	trailing.Trailer = http.Header{"Checksum": {"trailer-secret"}}
	trailing.ContentLength = -1
	wantCreated(t, "with trailers", c.do(t, trailing), false)

	head := newPost(t, addr, "", "")
	head.Method, head.Body, head.ContentLength = http.MethodHead, nil, 0
	if got := c.do(t, head); got.status != 201 || got.body != "" {
		t.Errorf("HEAD: got %d %q, want the status alone", got.status, got.body)
	}
	up.wantRequests(t, 3)
	if got := up.requests()[1]; len(got.header("Checksum"))+len(got.header("Trailer")) > 0 || string(got.body) != "body" {
		t.Errorf("of a request with trailers the upstream got %q %q", got.lines, got.body)
	}
	l.wantSilentLog(t)
}

func TestInformationalAnswersOverHTTP2(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+created))
	_, addr, c := lab2(t, up.url(), gateway.Options{})
	var informed atomic.Int32
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == 103 && h.Get("Link") == "</a>" {
			informed.Add(1)
		}
		return nil
	}}
	r := newPost(t, addr, "k", "body")
	wantCreated(t, "first", c.do(t, r.WithContext(httptrace.WithClientTrace(r.Context(), trace))), false)
	if informed.Load() != 1 {
		t.Errorf("got %d informational answers, want 1", informed.Load())
	}
}

// A caller who resets its stream changes nothing: the operation ends, its answer is kept, and nothing is taken for a
// failure of the store.
func TestStreamIsReset(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, asked(func(p *peer) {
		<-release
		p.answer(created)
	}))
	root := newAuthority(t)
	l := newLab(t, up.url(), gateway.Options{})
	gone, ended := make(chan struct{}, 2), make(chan struct{}, 2) // of the request, and of the retry
	addr := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		context.AfterFunc(r.Context(), func() { gone <- struct{}{} })
		l.ServeHTTP(w, r)
	}), serverTLS(t, root.files(t, nil), l.log))
	c := newClient(t, &tls.Config{RootCAs: root.pool()})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-up.told
		hangUp()
	}()
	if _, err := c.Do(newPost(t, addr, "k", "body").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller gone", err)
	}
	recv(t, "the reset", gone)
	close(release)
	recv(t, "the end of the request", ended)
	wantCreated(t, "again", c.do(t, newPost(t, addr, "k", "body")), true)
	up.wantRequests(t, 1)
	if log := l.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
		t.Errorf("a caller who hangs up is no failure: %s", log)
	}
}

// A body that stops coming over HTTP/2 is refused, and never holds a key.
func TestBodyThatStopsComingOverHTTP2(t *testing.T) {
	up := newUpstream(t, charging)
	l, addr, c := lab2(t, up.url(), gateway.Options{Guard: idemhttp.Options{BodyTimeout: 100 * time.Millisecond}})
	for name, want := range map[string]int{"k": 400, "": 408} {
		body, rest := io.Pipe()
		go io.WriteString(rest, "body-secret")
		r := newPost(t, addr, name, "")
		r.Body, r.ContentLength, r.GetBody = body, 100, nil
		if got := c.do(t, r); got.status != want {
			t.Errorf("key %q: got %d %q, want %d", name, got.status, got.body, want)
		}
		rest.Close()
	}
	l.wantState(t, "k", retrysafe.Absent)
	up.wantRequests(t, 0)
	l.wantSilentLog(t)
}

// A caller who opens no window for its answer holds nothing for long.
func TestCallerWhoNeverReadsOverHTTP2(t *testing.T) {
	up := newUpstream(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n"+strings.Repeat("x", 16<<20)))
	root := newAuthority(t)
	l := newLab(t, up.url(), gateway.Options{WriteTimeout: 100 * time.Millisecond, Guard: idemhttp.Options{MaxResponse: 16 << 20}})
	ended := make(chan struct{}, 1)
	addr := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		l.ServeHTTP(w, r)
	}), serverTLS(t, root.files(t, nil), l.log))
	res, err := newClient(t, &tls.Config{RootCAs: root.pool()}).Do(newPost(t, addr, "k", "body"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	recv(t, "the end of the request", ended)
	l.wantDrained(t)
	l.wantState(t, "k", retrysafe.Completed)
}
