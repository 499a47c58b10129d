package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// A fault is what the line does to one attempt.
type fault int

const (
	fine        fault = iota
	lostRequest       // the request never arrives
	lostAnswer        // the request arrives, the answer is lost
	timedOut          // the request arrives, an intermediary answers 504 in place of the answer
	hangs             // the request arrives, nothing ever comes back
)

var faults = [...]fault{lostRequest, lostAnswer, timedOut, hangs}

var faultNames = [...]string{"fine", "request lost", "answer lost", "504 from an intermediary after the effect", "answer never comes"}

// A plan says what the line does to each attempt of each order. It is the same for every client.
type plan [][]fault

// newPlan lets the first attempt of every third order go wrong, each kind in turn, and of every ninth the
// second too. Hanging costs time, so few orders hang.
func newPlan(orders int) plan {
	p := make(plan, orders)
	n := 0
	for i := range p {
		if i%3 != 0 {
			continue
		}
		f := faults[n%len(faults)]
		if f == hangs && n >= 4*len(faults) {
			f = lostAnswer
		}
		p[i] = []fault{f}
		if i%9 == 0 {
			p[i] = append(p[i], faults[(n+1)%(len(faults)-1)])
		}
		n++
	}
	return p
}

// shuffled lets the same faults meet other orders. Seed 0 leaves the plan as it is.
func (p plan) shuffled(seed uint64) plan {
	if seed != 0 {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
	return p
}

// firsts are, by fault, the first order whose first attempt meets it.
func (p plan) firsts() map[fault]int {
	firsts := map[fault]int{}
	for i := len(p) - 1; i >= 0; i-- {
		if f := p.at(i, 0); f != fine {
			firsts[f] = i
		}
	}
	return firsts
}

func (p plan) faulty() (n int) {
	for _, attempts := range p {
		n += min(len(attempts), 1)
	}
	return n
}

// summary counts the first faults by kind.
func (p plan) summary() string {
	var count [len(faultNames)]int
	for _, attempts := range p {
		if len(attempts) > 0 {
			count[attempts[0]]++
		}
	}
	var parts []string
	for _, f := range faults {
		parts = append(parts, fmt.Sprintf("%d x %s", count[f], faultNames[f]))
	}
	return strings.Join(parts, ", ")
}

// at returns what happens to an attempt, counted from 0.
func (p plan) at(order, attempt int) fault {
	if attempt < len(p[order]) {
		return p[order][attempt]
	}
	return fine
}

// A line is the way from a client to its next hop: an http.RoundTripper that loses things. What a client sees
// of a lost request and of a lost answer is the same, to the byte.
type line struct {
	next  http.RoundTripper
	plan  plan
	trace *trace
}

type attemptKey struct{}

// An attemptID says which attempt of which order a request is, for the line's eyes only.
type attemptID struct{ client, order, attempt int }

func withAttempt(ctx context.Context, id attemptID) context.Context {
	return context.WithValue(ctx, attemptKey{}, id)
}

// errBroken is all that a client learns when something was lost.
type errBroken struct{}

func (errBroken) Error() string { return "connection reset by peer" }

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	id, _ := r.Context().Value(attemptKey{}).(attemptID)
	f := l.plan.at(id.order, id.attempt)
	if f == lostRequest {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		l.trace.tell(id, lifeLine, l.trace.beside(lifeLine, 1), kindLostRequest, "lost")
		return nil, errBroken{}
	}
	res, err := l.carry(r, id)
	if f == fine || err != nil {
		return res, err
	}
	l.trace.tell(id, lifeLine, lifeClient, kindLostAnswer, "%d, lost", res.StatusCode)
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	switch f {
	case timedOut:
		return gatewayTimeout(r), nil
	case hangs:
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return nil, errBroken{}
}

// carry takes the request to the next hop. It arrives even if the client stops waiting for its answer.
func (l *line) carry(r *http.Request, id attemptID) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), demoLimit)
	context.AfterFunc(r.Context(), func() { time.AfterFunc(time.Second, cancel) })
	r = r.Clone(ctx) // a RoundTripper leaves its request as it is
	r.Header.Set(attemptHeader, id.String())
	return l.next.RoundTrip(r)
}

func gatewayTimeout(r *http.Request) *http.Response {
	const page = "<html><h1>504 Gateway Time-out</h1></html>"
	return &http.Response{
		StatusCode: http.StatusGatewayTimeout, Status: "504 Gateway Timeout", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, ContentLength: int64(len(page)), Body: io.NopCloser(strings.NewReader(page)), Request: r,
	}
}
