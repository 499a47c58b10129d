package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

var errUpstreamTimeout = errors.New("the upstream did not answer in time")

// forward sends a request to the upstream: once and under its claim if it is guarded, as a plain reverse
// proxy if it is not.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	if retrysafe.EpochOf(r.Context()) == 0 {
		g.plain.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	idle := time.AfterFunc(g.o.UpstreamTimeout, func() { cancel(errUpstreamTimeout) })
	defer idle.Stop()
	var sent attempt
	res, err := g.transport.RoundTrip(g.outgoing(httptrace.WithClientTrace(ctx, sent.trace()), r))
	if err != nil {
		g.failed(ctx, w, &sent, err)
		return
	}
	defer res.Body.Close()
	g.answer(ctx, w, res, &progress{res.Body, idle, g.o.UpstreamTimeout})
}

// answer passes the upstream's answer on. As long as it can be kept it is read whole first, so that one that
// breaks off is never taken for an answer.
func (g *Gateway) answer(ctx context.Context, w http.ResponseWriter, res *http.Response, body io.Reader) {
	streams := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	var whole bytes.Buffer
	if !streams {
		if _, err := io.CopyN(&whole, body, g.o.Guard.MaxResponse+1); err != nil && err != io.EOF {
			g.mayHaveActed(ctx, w, err)
			return
		}
	}
	removeHopByHop(res.Header)
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	w.Write(whole.Bytes())
	if int64(whole.Len()) <= g.o.Guard.MaxResponse && !streams {
		return
	}
	if err := copyFlushing(w, body); err != nil {
		g.o.Logger.Error("upstream broke off an answer that was being streamed", "err", errorKind(ctx, err))
		panic(http.ErrAbortHandler) // cut the caller's connection: the answer is not whole
	}
}

// copyFlushing passes on what comes when it comes.
func copyFlushing(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	control.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			w.Write(buf[:n]) // a caller who hung up changes nothing
			control.Flush()
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// failed answers where there is no answer, by what has left.
func (g *Gateway) failed(ctx context.Context, w http.ResponseWriter, sent *attempt, err error) {
	if !sent.nothingSent() {
		g.mayHaveActed(ctx, w, err)
		return
	}
	idemhttp.DidNothing(ctx)
	g.o.Logger.Error("upstream could not be reached, nothing was sent", "err", errorKind(ctx, err))
	problem.Write(w, g.o.Guard.DocsBase, problem.Answer{Code: problem.UpstreamUnreachable, RetryAfter: time.Second})
}

// mayHaveActed answers the first caller where the upstream may have acted; the key is held.
func (g *Gateway) mayHaveActed(ctx context.Context, w http.ResponseWriter, err error) {
	idemhttp.MayHaveActed(ctx)
	a := problem.Answer{Code: problem.OutcomeUnknown, Status: http.StatusBadGateway}
	if errors.Is(context.Cause(ctx), errUpstreamTimeout) {
		a.Status = http.StatusGatewayTimeout
	}
	g.o.Logger.Error("upstream may have acted, its answer is lost", "status", a.Status, "err", errorKind(ctx, err))
	problem.Write(w, g.o.Guard.DocsBase, a)
}

// errorKind is an error as it may be logged: without the URL that net/http puts into it.
func errorKind(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// progress is a body whose reader must not wait too long for the next byte.
type progress struct {
	io.Reader
	idle    *time.Timer
	timeout time.Duration
}

func (p *progress) Read(b []byte) (int, error) {
	p.idle.Reset(p.timeout)
	return p.Reader.Read(b)
}

// once is a request body that net/http cannot rewind, and does not recognise as empty: together with the
// disguised key it keeps the transport from sending a request a second time by itself.
type once struct{ io.ReadCloser }

// outgoing is the request as it goes upstream.
func (g *Gateway) outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := &http.Request{
		Method: r.Method, URL: g.target(r.URL), Host: g.upstream.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header.Clone(), Body: once{r.Body}, ContentLength: max(r.ContentLength, 0),
	}
	if r.ContentLength < 0 {
		out.ContentLength = -1
	}
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
	key := h[g.keyHeader()]
	removeHopByHop(h)
	h.Del("Expect") // the body is here already
	forwarded(h, r, fromTrusted(r, g.o.TrustProxy))
	if len(key) > 0 {
		h[g.keyHeader()] = key // also where the Connection header named it
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

func (g *Gateway) keyHeader() string {
	if g.o.Guard.Header == "" {
		return "Idempotency-Key"
	}
	return http.CanonicalHeaderKey(g.o.Guard.Header)
}

// forwarded says who asked, and for what. What a peer that is not trusted says of others is dropped.
func forwarded(h http.Header, r *http.Request, trusted bool) {
	if !trusted {
		for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip"} {
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

// connectionNames tells whether the Connection header names a header.
func connectionNames(h http.Header, name string) bool {
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
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
			g.rewriteHeader(p.Out.Header, p.In)
			if upgrade != nil {
				p.Out.Header["Upgrade"], p.Out.Header["Connection"] = upgrade, connection
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.o.Logger.Error("upstream failed on a request that is not guarded", "err", errorKind(r.Context(), err))
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprintln(w, `{"type":"about:blank","title":"Bad Gateway","status":502}`)
		},
	}
}
