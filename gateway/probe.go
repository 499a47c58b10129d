package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
)

// A Probe asks the upstream what became of an operation whose owner is gone, by a request that changes nothing. It
// takes the place of Guard.Recover, for a Policy that recovers. A probe is the gateway's own request: no header of the
// caller goes with it, and no credentials.
//
// A status that is not listed, a redirect (none is followed), an error or a time-out leave the outcome held; the next
// retry asks again. Absent releases the key only when the request cannot be on its way any more: when the former
// owner has not been heard of for UpstreamTimeout, a lease and a minute, and the upstream says so twice.
type Probe struct {
	Method string // GET or HEAD. Defaults to GET

	// Path, and query, to ask at: as callers write them, with {key} in place of the key as the upstream got it, and
	// {scope} of the scope. Each is encoded, to be one segment or one value. Where the keys of several scopes go
	// upstream as they are, {scope} must be there: one tenant would get the answer of another's operation.
	Path string

	Happened []int // statuses that mean that the operation was done
	Absent   []int // statuses that mean that it was not

	// DropAnswer records what happened as done and not kept. Off by default: the answer to the probe becomes that of
	// the operation. One to HEAD, or of more than MaxResponse, never does.
	DropAnswer bool

	Again time.Duration // between the two questions before a release. Defaults to 1 s
}

// onItsWay is what a request may take on its way to the upstream, beside the time-outs that are known.
const onItsWay = time.Minute

// fill puts defaults in place of zeros and refuses what makes no sense.
func (p *Probe) fill() error {
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	if p.Again == 0 {
		p.Again = time.Second
	}
	switch {
	case p.Method != http.MethodGet && p.Method != http.MethodHead:
		return errors.New("a probe must change nothing: want method GET or HEAD")
	case !strings.HasPrefix(p.Path, "/") || strings.HasPrefix(p.Path, "//") || strings.Contains(p.Path, "#"):
		return errors.New("a probe's path must begin with one slash and have no fragment")
	case !strings.Contains(p.Path, "{key}"):
		return errors.New("a probe must ask about the key: want {key} in its path")
	case p.Again < 0:
		return errors.New("times must not be negative")
	case len(p.Happened)+len(p.Absent) == 0:
		return errors.New("a probe needs a status that says what became of the operation: want Happened, Absent or both")
	}
	if _, ok := p.target(retrysafe.Key{Scope: "s", Name: "k"}); !ok {
		return errors.New("a probe's path must be one that can be asked at, without dot segments")
	}
	for _, status := range slices.Concat(p.Happened, p.Absent) {
		if status < 200 || status > 599 {
			return fmt.Errorf("%d is no status of a final answer: want 200 to 599", status)
		}
		if slices.Contains(p.Happened, status) && slices.Contains(p.Absent, status) {
			return fmt.Errorf("status %d cannot mean both happened and absent", status)
		}
	}
	return nil
}

// installProbe makes the gateway's probe, if it has one, the way to recover.
func (g *Gateway) installProbe(e *retrysafe.Executor) error {
	if g.o.Probe == nil {
		return nil
	}
	p, policy := *g.o.Probe, e.Policy()
	if g.o.Guard.Policy != nil {
		policy = *g.o.Guard.Policy
	}
	if g.o.Guard.Recover != nil || g.o.Guard.Resend {
		return errors.New("Probe, Guard.Recover and Guard.Resend are three ways to learn what happened: give one")
	}
	if policy.OnLeaseEnd != retrysafe.Recover {
		return errors.New("a Probe asks what happened, and the policy does not: want a Guard.Policy whose OnLeaseEnd is Recover")
	}
	g.lease, g.o.Probe, g.o.Guard.Recover = policy.Lease, &p, g.ask
	return p.fill() // of the copy
}

// target is where to ask about a key. It is false for a key that would lead elsewhere: a dot segment stays one
// however it is encoded, and some servers take an encoded slash for a slash (RFC 3986, 3.3 and 6.2.2.3).
func (p *Probe) target(key retrysafe.Key) (*url.URL, bool) {
	path, query, asks := strings.Cut(p.Path, "?")
	fill := strings.NewReplacer("{key}", encoded(key.Name), "{scope}", encoded(key.Scope))
	path, query = fill.Replace(path), fill.Replace(query)
	decoded, err := url.PathUnescape(path)
	if err != nil || dotted(decoded) || strings.ContainsFunc(path+query, notInURL) {
		return nil, false
	}
	return &url.URL{Path: decoded, RawPath: path, RawQuery: query, ForceQuery: asks && query == ""}, true
}

// encoded is text as one path segment or one value of a query: all but the unreserved is encoded (RFC 3986, 2.3).
func encoded(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// dotted tells whether a server could read a dot segment in text.
func dotted(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), func(s string) bool { return s == "." || s == ".." })
}

func notInURL(r rune) bool { return r <= ' ' || r > '~' }

// ask is the RecoverFunc of the gateway's probe.
func (g *Gateway) ask(ctx context.Context, key retrysafe.Key) (retrysafe.Outcome, error) {
	out, why := g.learn(ctx, key)
	if why != "" {
		id, _ := retrysafe.IDOf(ctx)
		g.o.Logger.Error("probe did not tell what happened, the key is held", "id", id.String(), "why", why)
		return retrysafe.Outcome{Reason: "probe: " + why}, nil
	}
	return out, nil
}

// learn asks what became of the operation of key, twice before a release. why says that it is not known.
func (g *Gateway) learn(ctx context.Context, key retrysafe.Key) (out retrysafe.Outcome, why string) {
	quiet := retrysafe.QuietOf(ctx) // before the first question: what it finds absent may come while it is answered
	to, ok := g.o.Probe.target(retrysafe.Key{Scope: key.Scope, Name: g.upstreamKey(key)})
	if !ok {
		return out, "the key cannot stand in the path"
	}
	a, why := g.question(ctx, to)
	switch {
	case why != "":
		return out, why
	case slices.Contains(g.o.Probe.Happened, a.Status):
		return g.happened(a), ""
	case !slices.Contains(g.o.Probe.Absent, a.Status):
		return out, fmt.Sprintf("status %d says nothing", a.Status)
	case quiet-onItsWay-g.lease < g.o.UpstreamTimeout: // this way round nothing overflows
		return out, "it is absent, and may still be on its way"
	}
	if !pause(ctx, g.o.Probe.Again) {
		return out, "there was no time to ask again"
	}
	again, why := g.question(ctx, to)
	if why == "" && again.Status != a.Status {
		why = fmt.Sprintf("status %d at first, then %d", a.Status, again.Status)
	}
	return retrysafe.Outcome{State: retrysafe.Free}, why
}

// pause waits for d. It is false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// happened is the outcome of an operation that was done, with the answer to the probe for its own.
func (g *Gateway) happened(a answer.Answer) retrysafe.Outcome {
	if g.o.Probe.DropAnswer || g.o.Probe.Method == http.MethodHead {
		return retrysafe.Outcome{State: retrysafe.Completed, NotKept: true}
	}
	return g.middleware.Done(a.Status, a.Header, a.Body)
}

// question is one request of a probe, answered whole: a body that does not fit is cut one byte too late.
func (g *Gateway) question(ctx context.Context, to *url.URL) (a answer.Answer, why string) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.o.UpstreamTimeout, errUpstreamTimeout)
	defer cancel()
	out := &http.Request{Method: g.o.Probe.Method, URL: g.target(to), Host: g.upstream.Host, Close: !g.o.KeepAlive, Header: http.Header{
		"Accept-Encoding": {"identity"}, "User-Agent": nil, "Via": {"1.1 " + g.pseudonym},
	}}
	res, err := g.transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		return a, errorKind(ctx, err)
	}
	defer res.Body.Close()
	a = answer.Answer{Status: res.StatusCode, Header: res.Header}
	if res.StatusCode < 200 {
		return a, errNoAnswer.Error()
	}
	if a.Body, err = io.ReadAll(io.LimitReader(res.Body, g.o.Guard.MaxResponse+1)); err != nil {
		return a, errorKind(ctx, err)
	}
	return a, ""
}
