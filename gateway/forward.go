package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

var (
	errUpstreamTimeout = errors.New("the upstream did not answer in time")
	errNoAnswer        = errors.New("the upstream sent no final status")
)

// forward sends a request to the upstream: once and under its claim if it is guarded, as a plain reverse
// proxy if it is not.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	if retrysafe.EpochOf(r.Context()) == 0 {
		g.plain.ServeHTTP(w, g.hurried(w, r))
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	idle := time.AfterFunc(g.o.UpstreamTimeout, func() { cancel(errUpstreamTimeout) })
	defer idle.Stop()
	sent := attempt{act: func() error { return retrysafe.Act(ctx) }}
	live := &informer{w: w}
	trace := sent.trace()
	if r.ProtoAtLeast(1, 1) { // an older caller would take it for the answer (RFC 9110, 15.2)
		trace.Got1xxResponse = live.pass
	}
	res, err := g.transport.RoundTrip(g.outgoing(httptrace.WithClientTrace(ctx, trace), r))
	live.end()
	idle.Stop()
	if err != nil {
		g.failed(ctx, w, &sent, err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode < 200 { // 101, which nobody asked for, or nonsense
		g.mayHaveActed(ctx, w, errNoAnswer)
		return
	}
	g.answer(ctx, w, res, &progress{res.Body, idle, g.o.UpstreamTimeout}, func() { cancel(errCallerGone) })
}

// An informer passes the upstream's informational answers on, live (RFC 9110, 15.2). They come from another
// goroutine, and none may come late.
type informer struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	ended bool
}

func (i *informer) pass(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended || code == http.StatusContinue { // we have the body already
		return nil
	}
	h := i.w.Header()
	before := maps.Clone(h)
	maps.Copy(h, http.Header(header))
	removeHopByHop(h)
	i.w.WriteHeader(code)
	clear(h) // what an informational answer says is not of the final one
	maps.Copy(h, before)
	return nil
}

func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
}

// answer passes the upstream's answer on. As long as it can be kept it is read whole first, so that one that
// breaks off is never taken for an answer. One that streams is recorded before its first byte goes out; gone ends
// it when nobody is there to read the rest.
func (g *Gateway) answer(ctx context.Context, w http.ResponseWriter, res *http.Response, body io.Reader, gone func()) {
	mediaType, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	streams := strings.EqualFold(strings.TrimSpace(mediaType), "text/event-stream")
	var whole bytes.Buffer
	if !streams {
		if _, err := io.CopyN(&whole, body, g.o.Guard.MaxResponse+1); err != nil && err != io.EOF {
			g.mayHaveActed(ctx, w, err)
			return
		}
	}
	removeHopByHop(res.Header)
	maps.Copy(w.Header(), res.Header)
	unguessed(w.Header())
	w.WriteHeader(res.StatusCode)
	w.Write(whole.Bytes())
	if int64(whole.Len()) <= g.o.Guard.MaxResponse && !streams {
		return
	}
	err := copyFlushing(w, body, gone)
	switch {
	case err == nil:
		return
	case err == errCallerGone, context.Cause(ctx) == errCallerGone:
		g.o.Logger.Debug("caller left an answer that was being streamed", "err", errCallerGone)
	default:
		g.o.Logger.Error("upstream broke off an answer that was being streamed", "err", errorKind(ctx, err))
	}
	panic(http.ErrAbortHandler) // cut the caller's connection: the answer is not whole
}

// failed answers where there is no answer, by what has left.
func (g *Gateway) failed(ctx context.Context, w http.ResponseWriter, sent *attempt, err error) {
	if !sent.nothingSent() {
		g.mayHaveActed(ctx, w, err)
		return
	}
	idemhttp.DidNothing(ctx)
	id, _ := retrysafe.IDOf(ctx)
	if unmarked := sent.unmarked.Load(); unmarked != nil {
		g.o.Logger.Error("claim could not be marked before the request left, nothing was sent", "id", id.String(), "err", *unmarked)
		problem.Write(w, g.o.Guard.DocsBase, problem.Answer{Code: problem.StoreUnavailable, RetryAfter: time.Second})
		return
	}
	g.o.Logger.Error("upstream could not be reached, nothing was sent", "id", id.String(), "err", errorKind(ctx, err))
	problem.Write(w, g.o.Guard.DocsBase, problem.Answer{Code: problem.UpstreamUnreachable, RetryAfter: time.Second})
}

// mayHaveActed answers the first caller where the upstream may have acted; the key is held.
func (g *Gateway) mayHaveActed(ctx context.Context, w http.ResponseWriter, err error) {
	idemhttp.MayHaveActed(ctx, errorKind(ctx, err))
	id, _ := retrysafe.IDOf(ctx)
	a := problem.Answer{Code: problem.OutcomeUnknown, Status: http.StatusBadGateway, Instance: "urn:retrysafe:key:" + id.String()}
	if errors.Is(context.Cause(ctx), errUpstreamTimeout) {
		a.Status = http.StatusGatewayTimeout
	}
	g.o.Logger.Error("upstream may have acted, its answer is lost", "id", id.String(), "status", a.Status, "err", errorKind(ctx, err))
	problem.Write(w, g.o.Guard.DocsBase, a)
}

// errorKind is an error as it may be logged. net/http's own texts quote the URL, and of a malformed answer what
// the upstream sent, so that only errors that are known to quote nothing are told as they are.
func errorKind(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return cert.Error()
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed early"
	case errors.Is(err, errNoAnswer), errors.Is(err, errSealed):
		return err.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "time-out"
	}
	return fmt.Sprintf("no HTTP answer (%T)", err)
}

// progress is a body whose reader must not wait too long for the next byte. The timer runs only while the
// upstream is waited for, not while a slow caller is written to.
type progress struct {
	io.Reader
	idle    *time.Timer
	timeout time.Duration
}

func (p *progress) Read(b []byte) (int, error) {
	p.idle.Reset(p.timeout)
	defer p.idle.Stop()
	return p.Reader.Read(b)
}

// once is a request body that net/http cannot rewind: together with the disguised key it keeps the transport
// from sending a request a second time by itself.
type once struct{ io.ReadCloser }

// outgoing is the request as it goes upstream. An empty body stays an empty body: hidden in once it would go out
// as chunked. Without a key that it knows, the transport sends a POST again only if nothing of it left.
func (g *Gateway) outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := &http.Request{
		Method: r.Method, URL: g.target(r.URL), Host: g.upstream.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header.Clone(), Body: once{r.Body}, ContentLength: r.ContentLength,
	}
	if r.ContentLength == 0 {
		out.Body = g.onceOver2(r.Method, http.NoBody)
	}
	out.Close = !g.o.KeepAlive
	g.rewriteHeader(out.Header, r)
	out.Header.Set("Accept-Encoding", "identity") // an answer is kept for callers that may not read another coding
	return out.WithContext(ctx)
}

// target is the URL upstream, with path and query as they came (RFC 9110, 7.7: a proxy does not change them).
func (g *Gateway) target(in *url.URL) *url.URL {
	u := &url.URL{Scheme: g.upstream.Scheme, Host: g.upstream.Host, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	base, raw := strings.TrimSuffix(g.upstream.Path, "/"), strings.TrimSuffix(g.upstream.EscapedPath(), "/")
	u.Path, u.RawPath = base+in.Path, raw+in.EscapedPath()
	return u
}

// rewriteHeader makes h, a copy of r's header, fit to go upstream.
func (g *Gateway) rewriteHeader(h http.Header, r *http.Request) {
	g.replaceKey(h, r)
	var room [4][]string
	keys := room[:0]
	for _, name := range g.keyHeaders {
		keys = append(keys, h[name])
	}
	g.dropLookAlikes(h, r.Header)
	removeHopByHop(h)
	h.Del("Expect") // the body is here already
	forwarded(h, r, fromTrusted(r, g.o.TrustProxy))
	g.via(h, r)
	for i, name := range g.keyHeaders {
		if len(keys[i]) > 0 {
			h[name] = keys[i] // also where the Connection header named it
		}
	}
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if lines, ok := h[name]; ok { // net/http looks for these names in these letters
			delete(h, name)
			h[strings.ToLower(name)] = lines
		}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // else the transport would add its own
	}
}

// forwarded says who asked, and for what. What a peer that is not trusted says of others is dropped.
func forwarded(h http.Header, r *http.Request, trusted bool) {
	if !trusted {
		for _, name := range forwardedNames {
			h.Del(name)
		}
	}
	if peer, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", strings.Join(append(h["X-Forwarded-For"], peer), ", "))
	}
	if h.Get("X-Forwarded-Host") == "" {
		h.Set("X-Forwarded-Host", r.Host)
	}
	if h.Get("X-Forwarded-Proto") == "" {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		h.Set("X-Forwarded-Proto", proto)
	}
}

// removeHopByHop removes what belongs to one connection (RFC 9110, 7.6.1).
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(token))
		}
	}
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// reverseProxy passes on what is not guarded, upgrades and streams too.
func (g *Gateway) reverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: g.transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = g.target(p.In.URL), g.upstream.Host
			upgrade, connection := p.Out.Header["Upgrade"], p.Out.Header["Connection"]
			for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if lines, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = lines // Rewrite dropped them; forwarded decides
				}
			}
			p.Out.Body = g.onceOver2(p.In.Method, p.Out.Body)
			g.rewriteHeader(p.Out.Header, p.In)
			if upgrade != nil {
				p.Out.Header["Upgrade"], p.Out.Header["Connection"] = upgrade, connection
			}
		},
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // its texts quote what the upstream sent
		ErrorHandler: g.plainFailed,
	}
}

// plainFailed answers a request that is not guarded and got no answer. No row of the protocol is about it.
func (g *Gateway) plainFailed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if stoppedSending(w) {
		status = http.StatusRequestTimeout
		w.Header().Set("Connection", "close") // RFC 9110, 15.5.9
	} else {
		g.o.Logger.Error("upstream failed on a request that is not guarded", "err", errorKind(r.Context(), err))
	}
	writeBlank(w, status)
}

// writeBlank answers with a problem that is all in its status (RFC 9457, 4.2.1).
func writeBlank(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d}`+"\n", http.StatusText(status), status)
}
