package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"log"

	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
)

// Requests that two servers in a row could read differently (S9 to S12 of the threats; RFC 9112, 11.2). The gateway
// reads each in one way or refuses it, and never splices: what it forwards it writes anew. So no byte that a caller
// sent as the body of one request can be another request upstream, and no answer can reach another's caller.

// A probe of the corpus. NONCE stands for a text of its own in the first request, and NEXT in the one behind it.
type smuggled struct {
	name string
	raw  string
	most int  // requests that may reach the upstream
	want int  // status of the first answer; 0: an answer or a closed connection, whatever it says
	cut  bool // the caller ends the connection behind it
}

const (
	front  = "POST /charges?nonce=NONCE HTTP/1.1\r\nHost: api\r\nIdempotency-Key: NONCE\r\n"
	hidden = "POST /charges?nonce=HIDDEN HTTP/1.1\r\nHost: api\r\nIdempotency-Key: HIDDEN\r\nContent-Length: 0\r\n\r\n"
)

// corpus is every probe: rows that stand alone, and products of ways to write one header line.
func corpus() (all []smuggled) {
	add := func(name string, most, want int, raw string) {
		all = append(all, smuggled{name, raw, most, want, false})
	}

	// Two lengths (RFC 9112, 6.1 and 6.3). Go takes Transfer-Encoding and drops Content-Length; the body is then what the
	// chunks say, and the upstream is sent one framing only.
	for _, cl := range []string{"0", "3", "4", "5", "6", "100"} {
		add("CL.TE, length "+cl, 1, 0, front+"Content-Length: "+cl+"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		add("TE.CL, length "+cl, 1, 0, front+"Transfer-Encoding: chunked\r\nContent-Length: "+cl+"\r\n\r\n0\r\n\r\n")
	}
	// A coding that is none, or not chunked alone, is refused.
	for _, te := range []string{"identity", "gzip", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked", "xchunked", "chunkedx", "chunked;q=1", "\"chunked\"", "chunk", "chu\x00nked", "\x0bchunked", "chunked\x0c", ", chunked", "chunked,"} {
		add(fmt.Sprintf("coding %q", te), 0, 0, front+"Transfer-Encoding: "+te+"\r\n\r\n0\r\n\r\n"+hidden)
		add(fmt.Sprintf("coding %q with a length", te), 0, 0, front+"Content-Length: 5\r\nTransfer-Encoding: "+te+"\r\n\r\n0\r\n\r\n"+hidden)
	}
	for _, lines := range []string{"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\ntransfer-encoding: x\r\n"} {
		add(fmt.Sprintf("codings %q", lines), 0, 0, front+lines+"\r\n0\r\n\r\n"+hidden)
	}
	// Lines that some servers take for headers and others do not (RFC 9112, 5.1 and 5.2).
	for _, line := range []string{
		"Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked",
		"Transfer-Encoding", ": chunked", "Transfer\x00-Encoding: chunked", "Transfer-Encoding: chunked\x00", "Transfer-Encoding\x0b: chunked", "Content-Length : 5",
		"Idempotency-Key : other", "Idempotency-Key\t: other", "X: a\rb", "X: a\x00b", "X\x00: a", "X Y: a", "X\xe9: a", "(X): a", "X: a\r\r\n", "Host: other",
		"Host : other", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 6", "Content-Length: +5", "Content-Length: -5", "Content-Length: 0x5", "Content-Length: 5 5", "Content-Length: 5,", "Content-Length: ,5", "Content-Length: 5.0", "Content-Length: 5e0",
		"Content-Length: five", "Content-Length: 99999999999999999999", "Content-Length: 1_0", "Content-Length: \xb25", "Content-Length: 5\x00", "Content-Length: '5'", "Idempotency-Key: other", "Idempotency-Key: ", "idempotency-key: other",
	} {
		add(fmt.Sprintf("line %q", line), 0, 0, front+line+"\r\n\r\n0\r\n\r\n"+hidden)
	}
	// A folded line is read as one, and goes upstream as one (RFC 9112, 5.2).
	for _, line := range []string{" Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\r\n\tchunked", " Content-Length: 5", "Content-Length:\r\n 5", " Idempotency-Key: other", "X: a\r\n b"} {
		add(fmt.Sprintf("folded %q", line), 1, 0, front+line+"\r\n\r\n0\r\n\r\n")
	}
	add("a fold before the colon", 0, 400, front+"Content-Length\r\n : 5\r\n\r\nhello"+hidden)
	add("a second key that is folded", 0, 400, front+"Idempotency-Key:\r\n other\r\n\r\n")
	// Chunks (RFC 9112, 7.1). CVE-2025-22871 is the bare LF behind a size.
	for _, body := range []string{
		"5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\n0\n\r\n", "5;x\nhello\r\n0\r\n\r\n", "5;a=b\n\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5 5\r\nhello\r\n0\r\n\r\n",
		"g\r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n", "5_0\r\nhello\r\n0\r\n\r\n", "\xd9\xa5\r\nhello\r\n0\r\n\r\n",
	} {
		add(fmt.Sprintf("chunks %q", body), 0, 0, front+"Transfer-Encoding: chunked\r\n\r\n"+body+hidden)
	}
	add("chunks with an extension", 1, 201, front+"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5;a=b\r\nhello\r\n0;c\r\n\r\n")
	add("chunks with a trailer that names a key", 1, 201, front+"Transfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\nIdempotency-Key: HIDDEN\r\n\r\n")
	add("chunks with a trailer that is a length", 1, 0, front+"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n")
	all = append(all, smuggled{"chunks without the last", front + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 0, 400, true})
	all = append(all, smuggled{"a chunk that never ends", front + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n" + hidden, 0, 0, true})
	all = append(all, smuggled{"a body that is cut", front + "Content-Length: 100\r\n\r\nhello", 0, 400, true})

	// What follows a request is the next request, and has an answer of its own.
	add("pipelined behind a length", 2, 201, front+"Content-Length: 5\r\n\r\nhello"+strings.ReplaceAll(hidden, "HIDDEN", "NEXT"))
	add("pipelined behind chunks", 2, 201, front+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+strings.ReplaceAll(hidden, "HIDDEN", "NEXT"))
	add("a request in a body", 1, 201, front+fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n", len(hidden))+hidden)
	add("a request in a chunk", 1, 201, front+fmt.Sprintf("Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden))
	add("the same length twice", 1, 201, front+"Connection: close\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello")

	// Request lines and versions.
	key := "Idempotency-Key: NONCE\r\n"
	for _, line := range []string{"POST  /?nonce=NONCE HTTP/1.1", "POST /?nonce=NONCE HTTP/1.1 HTTP/1.1", "POST /?nonce=NONCE\tHTTP/1.1", "POST /?nonce=NONCE HTTP/9.9", "POST /?nonce=NONCE http/1.1", "POST /?nonce=NONCE HTTP/1.1x", "POST /?nonce=NONCE", "POST nonce=NONCE HTTP/1.1",
		"PO ST /?nonce=NONCE HTTP/1.1", "P\x00ST /?nonce=NONCE HTTP/1.1", "POST /\x00?nonce=NONCE HTTP/1.1", "POST /?nonce=NONCE\r HTTP/1.1", " POST /?nonce=NONCE HTTP/1.1", "POST /%zz?nonce=NONCE HTTP/1.1", "PRI * HTTP/2.0", "POST /?nonce=NONCE HTTP/0.9", "POST /?nonce=NONCE HTTP/2.0"} {
		add(fmt.Sprintf("request line %q", line), 0, 0, line+"\r\nHost: api\r\n"+key+"Content-Length: 0\r\n\r\n"+hidden)
	}
	for _, host := range []string{"", "Host: a\r\nHost: b\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: \x00\r\n", "Host: a@b/\r\n"} {
		add(fmt.Sprintf("host %q", host), 0, 0, "POST /?nonce=NONCE HTTP/1.1\r\n"+host+key+"Content-Length: 0\r\n\r\n"+hidden)
	}
	add("an absolute target and another host", 1, 201, "POST http://elsewhere.example/?nonce=NONCE HTTP/1.1\r\nHost: api\r\nConnection: close\r\n"+key+"Content-Length: 0\r\n\r\n")
	add("HTTP/1.0 with chunks", 1, 0, "POST /?nonce=NONCE HTTP/1.0\r\n"+key+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+hidden)
	add("HTTP/1.0 with chunks and a length", 1, 0, "POST /?nonce=NONCE HTTP/1.0\r\n"+key+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+hidden)
	add("HTTP/1.0 kept alive", 1, 201, "POST /?nonce=NONCE HTTP/1.0\r\n"+key+"Content-Length: 5\r\n\r\nhello")
	add("bare LF for line ends", 1, 0, "POST /?nonce=NONCE HTTP/1.1\nHost: api\nConnection: close\n"+strings.ReplaceAll(key, "\r", "")+"Content-Length: 5\n\nhello")

	// What is not a request to guard.
	add("a header that is too large", 0, 431, front+"X: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
	add("a key in a header with an underscore", 1, 0, "POST /?nonce=NONCE HTTP/1.1\r\nHost: api\r\nConnection: close\r\nIdempotency_Key: other\r\n"+key+"Content-Length: 0\r\n\r\n")
	for _, upgrade := range []string{"h2c", "websocket", "HTTP/2.0", "TLS/1.0"} {
		add("upgrade to "+upgrade, 0, 400, front+"Connection: Upgrade\r\nUpgrade: "+upgrade+"\r\nContent-Length: 0\r\n\r\n")
	}
	add("CONNECT", 0, 0, "CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example:443\r\n"+key+"\r\n"+hidden)
	add("TRACE", 0, 0, "TRACE /?nonce=NONCE HTTP/1.1\r\nHost: api\r\n"+key+"Cookie: secret\r\n\r\n"+hidden)
	return all
}

// An echo is a real upstream that says of each request which it was.
type echo struct {
	mu     sync.Mutex
	nonces []string
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	nonce := r.URL.Query().Get("nonce")
	e.mu.Lock()
	if nonce != "last" {
		e.nonces = append(e.nonces, nonce)
	}
	e.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(201)
	io.WriteString(w, nonce)
}

func TestSmuggling(t *testing.T) {
	up := &echo{}
	l := newLab(t, "http://"+serve(t, up), gateway.Options{})
	s := httptest.NewUnstartedServer(l)
	s.Config.ErrorLog, s.Config.MaxHeaderBytes = log.New(io.Discard, "", 0), 64<<10
	s.Start()
	defer s.Close()
	probes := corpus()
	if len(probes) < 140 {
		t.Errorf("the corpus has %d probes", len(probes))
	}
	for i, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			up.mu.Lock()
			up.nonces = nil
			up.mu.Unlock()
			nonce, next := fmt.Sprintf("n%d-first", i), fmt.Sprintf("n%d-next", i)
			told := exchange(t, s.Listener.Addr().String(), strings.NewReplacer("NONCE", nonce, "NEXT", next, "HIDDEN", "hidden").Replace(p.raw), p.cut)
			up.mu.Lock()
			got := up.nonces
			up.mu.Unlock()
			if len(got) > p.most {
				t.Errorf("%d requests reached the upstream, want at most %d: %q", len(got), p.most, got)
			}
			wantOwnAnswers(t, told, got, []string{nonce, next})
			if p.want != 0 && (len(told) == 0 || told[0].status != p.want) {
				t.Errorf("answers %v, want %d first", told, p.want)
			}
			for _, key := range []string{"hidden", "other", nonce} {
				if state := l.stands(t, key).State; state != retrysafe.Absent && (len(got) == 0 || key != nonce) {
					t.Errorf("key %s stands as %v, and nothing was done", key, state)
				}
			}
		})
	}
}

// wantOwnAnswers expects every answer of the upstream to be that to the request in whose place it came.
func wantOwnAnswers(t *testing.T, told []reply, got, nonces []string) {
	t.Helper()
	for i, nonce := range got {
		if i >= len(nonces) || nonce != nonces[i] {
			t.Errorf("request %d upstream was %q: it is no request of this caller", i+1, nonce)
		}
	}
	for i, a := range told {
		if a.status == 201 && (i >= len(nonces) || a.body != nonces[i]) {
			t.Errorf("answer %d is %q: it is another's", i+1, a.body)
		}
	}
}

// last ends a connection on which nothing was amiss.
const last = "GET /?nonce=last HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n"

// exchange sends raw, and last behind it or, if raw is cut, the end of the connection. It returns all answers but that
// to last until the gateway closes, as it must.
func exchange(t *testing.T, addr, raw string, cut bool) (told []reply) {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if cut {
			io.WriteString(c, raw)
			c.CloseWrite()
			return
		}
		io.WriteString(c, raw+last) // it may be cut off: an early refusal
	}()
	defer func() { <-sent }()
	for {
		res, err := http.ReadResponse(c.r, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stays open")
		}
		if err != nil {
			return told
		}
		body, _ := io.ReadAll(res.Body)
		if string(body) == "last" {
			continue
		}
		told = append(told, reply{status: res.StatusCode, header: res.Header, body: string(body)})
	}
}
