package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The lifelines of a sequence picture, from left to right. A client that goes to the API directly has no gateway.
const (
	lifeClient  = "client"
	lifeLine    = "line"
	lifeGateway = "gateway"
	lifeAPI     = "API"
)

// The kinds of messages. A note stands on one lifeline: From and To are the same.
const (
	kindRequest     = "request"
	kindAnswer      = "answer"
	kindReplay      = "replay"       // an answer that was recorded before
	kindLostRequest = "lost-request" // never arrives
	kindLostAnswer  = "lost-answer"  // never arrives
	kindReset       = "reset"        // the connection breaks, which is all that the client sees
	kindSilence     = "silence"      // note: the client waited in vain
	kindCharge      = "charge"       // note: the API has charged
	kindBelief      = "belief"       // note: what the client takes for the outcome in the end
)

// A message is one arrow of a sequence picture, or a note.
type message struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Kind    string `json:"kind"`
	Attempt int    `json:"attempt"` // from 1
	Text    string `json:"text"`
}

// A trace is what became of one client's orders, told by those who saw it: the client, the line, the gateway and
// the API. A nil trace takes no messages.
type trace struct {
	lifelines []string

	mu       sync.Mutex
	messages map[int][]message // in the order in which they happened; only of watched orders
	sent     int
	charges  []int  // by order: how many the API made
	ended    []bool // by order: the client is done with it
	believes []bool // by order: it was charged, says the client
}

func newTrace(orders int, watched []int, lifelines ...string) *trace {
	t := &trace{lifelines: lifelines, messages: map[int][]message{}, charges: make([]int, orders), ended: make([]bool, orders), believes: make([]bool, orders)}
	for _, order := range watched {
		t.messages[order] = []message{}
	}
	return t
}

// newTraces has a trace for each client of the demo, in their order.
func newTraces(p plan) []*trace {
	watched := slices.Collect(maps.Values(p.firsts()))
	var list []*trace
	for range 3 {
		list = append(list, newTrace(len(p), watched, lifeClient, lifeLine, lifeAPI))
	}
	return append(list, newTrace(len(p), watched, lifeClient, lifeLine, lifeGateway, lifeAPI))
}

// tell adds a message of an attempt, if somebody watches its order.
func (t *trace) tell(id attemptID, from, to, kind, format string, args ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if list, watched := t.messages[id.order]; watched {
		t.messages[id.order] = append(list, message{from, to, kind, id.attempt + 1, fmt.Sprintf(format, args...)})
	}
}

// beside returns the lifeline that is by places to the right of another.
func (t *trace) beside(lifeline string, by int) string {
	if t == nil {
		return ""
	}
	return t.lifelines[slices.Index(t.lifelines, lifeline)+by]
}

// send counts a request that leaves.
func (t *trace) send(id attemptID, key string) {
	t.mu.Lock()
	t.sent++
	t.mu.Unlock()
	t.tell(id, lifeClient, lifeLine, kindRequest, "POST, %s", key)
}

// charge counts what the API has made.
func (t *trace) charge(id attemptID) {
	t.mu.Lock()
	t.charges[id.order]++
	n := t.charges[id.order]
	t.mu.Unlock()
	t.tell(id, lifeAPI, lifeAPI, kindCharge, "charge %d", n)
}

// end is the client's last word on an order.
func (t *trace) end(id attemptID, charged bool) {
	t.mu.Lock()
	t.ended[id.order], t.believes[id.order] = true, charged
	t.mu.Unlock()
	belief := "believes: not charged"
	if charged {
		belief = "believes: charged"
	}
	t.tell(id, lifeClient, lifeClient, kindBelief, "%s", belief)
}

// The marks of one order, as the page draws them.
const (
	markOpen     = '.'
	markMissing  = '0' // no charge
	markOnce     = '1'
	markDouble   = '2' // more than one charge
	markDeceived = '?' // charged, and its client believes it was not
)

// tally is the row of the orders that have ended, and a mark for each order.
func (t *trace) tally() (r row, marks string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.sent = t.sent
	drawn := make([]byte, len(t.charges))
	for i, n := range t.charges {
		r.charges += n
		if drawn[i] = markOpen; t.ended[i] {
			drawn[i] = r.add(n, t.believes[i])
		}
	}
	return r, string(drawn)
}

// story is a copy of what was told of one order.
func (t *trace) story(order int) []message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]message{}, t.messages[order]...)
}

// attemptHeader carries an attemptID from the line to the taps. Neither the gateway nor the API looks at it.
const attemptHeader = "Demo-Attempt"

func (id attemptID) String() string { return fmt.Sprintf("%d/%d/%d", id.client, id.order, id.attempt) }

// parseAttempt reads an attempt of one of the clients: whatever else reaches a tap is none of the demo's.
func parseAttempt(s string, clients, orders int) (id attemptID, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return id, false
	}
	for i, field := range []struct {
		at    *int
		limit int
	}{{&id.client, clients}, {&id.order, orders}, {&id.attempt, stubborn}} {
		n, err := strconv.ParseUint(parts[i], 10, 31)
		if err != nil || int(n) >= field.limit {
			return attemptID{}, false
		}
		*field.at = int(n)
	}
	return id, true
}

// A tap stands before the gateway or the API and tells what arrives there, and what is answered.
type tap struct {
	lifeline string
	traces   []*trace
	orders   int
	next     http.Handler
}

func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, ok := parseAttempt(r.Header.Get(attemptHeader), len(p.traces), p.orders)
	if !ok || r.Method != http.MethodPost {
		p.next.ServeHTTP(w, r)
		return
	}
	t := p.traces[id.client]
	before := t.beside(p.lifeline, -1)
	t.tell(id, before, p.lifeline, kindRequest, "POST")
	p.next.ServeHTTP(&tappedWriter{ResponseWriter: w, answered: func(status int) {
		if p.lifeline == lifeAPI && status == http.StatusCreated {
			t.charge(id)
		}
		kind, text := describeAnswer(status, w.Header())
		t.tell(id, p.lifeline, before, kind, "%s", text)
	}}, r)
}

func describeAnswer(status int, h http.Header) (kind, text string) {
	if h.Get("Idempotent-Replayed") == "true" {
		return kindReplay, fmt.Sprintf("%d, replayed", status)
	}
	return kindAnswer, strconv.Itoa(status)
}

// A tappedWriter tells the status before it leaves, so that nobody can have seen the answer earlier.
type tappedWriter struct {
	http.ResponseWriter
	answered func(status int)
	told     bool
}

func (w *tappedWriter) WriteHeader(status int) {
	if !w.told && status >= 200 {
		w.told = true
		w.answered(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *tappedWriter) Write(p []byte) (int, error) {
	if !w.told {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is below.
func (w *tappedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
