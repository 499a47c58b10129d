package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The scenarios that both doors are asked, and the API behind each.

// A play is one request of a scenario: what is asked, and what the API is to do when it runs.
type play struct {
	method, target, body string
	chunked              bool
	keys                 []string // header lines
	tenant, media        string
	does                 string
	meanwhile            *play // asked while this one is being worked on
}

// String is the play as a failing test tells it.
func (p play) String() string {
	s := fmt.Sprintf("%s %s %q chunked=%v keys=%q tenant=%q media=%q does=%s", p.method, p.target, clipped(p.body), p.chunked, p.keys, p.tenant, p.media, p.does)
	if p.meanwhile != nil {
		s += " meanwhile: " + p.meanwhile.String()
	}
	return s
}

func clipped(s string) string { return s[:min(len(s), 40)] }

// of gives the keys of a play a name that only its scenario has.
func (p play) of(scenario string) play {
	p.keys = slices.Clone(p.keys)
	for i, k := range p.keys {
		if len(k) < 200 {
			p.keys[i] = string(bytes.ReplaceAll([]byte(k), []byte("1"), []byte("1-"+scenario)))
		}
	}
	if p.tenant != "" {
		p.tenant += "-" + scenario
	}
	if p.meanwhile != nil {
		m := p.meanwhile.of(scenario)
		p.meanwhile = &m
	}
	return p
}

// Small limits, so that bodies and answers beyond them are cheap.
const (
	playBody   = 2 << 10
	playAnswer = 1 << 10
)

// An api does what the request says, and counts.
type api struct {
	mu   sync.Mutex
	runs map[string]int           // by scenario
	held map[string]chan struct{} // by scenario: closed to let a held request go on
	came chan struct{}            // told when a held one is being worked on
}

func newAPI() *api {
	return &api{runs: map[string]int{}, held: map[string]chan struct{}{}, came: make(chan struct{}, 1)}
}

// next counts one run of a scenario, and returns what a held one waits for.
func (a *api) next(scenario string) (n int, until chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[scenario]++
	if a.held[scenario] == nil {
		a.held[scenario] = make(chan struct{})
	}
	return a.runs[scenario], a.held[scenario]
}

func (a *api) let(scenario string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.held[scenario])
	delete(a.held, scenario)
}

func (a *api) count(scenario string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[scenario]
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got, err := io.ReadAll(r.Body)
	n, until := a.next(r.Header.Get("X-Scenario"))
	h := w.Header()
	h.Set("Location", "/charges/"+strconv.Itoa(n))
	h.Add("Set-Cookie", "session=a,b")
	h.Set("X-Kept", "kept")
	h.Set("X-Dropped", "dropped")
	h.Set("Retry-After", "7")
	does := r.Header.Get("X-Does")
	answer := fmt.Sprintf(`{"id":"ch_%d","read":%d,"err":%v}`, n, len(got), err)
	switch does {
	case "hold":
		a.came <- struct{}{}
		<-until
	case "panic":
		panic(http.ErrAbortHandler)
	case "short":
		h.Set("Content-Length", "1000")
	case "large":
		answer = strings.Repeat("x", 4*playAnswer)
	case "flush": // as a stream of events: what else is flushed, the gateway holds back as long as it can be kept
		h.Set("Content-Type", "text/event-stream")
		io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
	case "inform":
		w.WriteHeader(http.StatusEarlyHints)
	case "bytes":
		h["Content-Type"] = nil
		answer = "\x00\xff\x80" + answer
	}
	if status, err := strconv.Atoi(does); err == nil {
		h.Set("Content-Type", "application/json")
		if status == 503 && n%2 == 0 {
			h.Del("Retry-After")
		}
		w.WriteHeader(status)
	}
	io.WriteString(w, answer) // refused where the status allows no body
}

var deeds = strings.Fields("200 201 201 201 202 204 302 400 401 402 403 404 408 409 413 421 422 425 429 500 502 503 503 504 hold hold panic short large flush inform bytes")

// compose makes up the plays of one scenario: mostly retries of what was asked before, some with a difference.
func compose(r *rand.Rand) []play {
	first := play{method: pick(r, "POST", "POST", "POST", "PATCH", "PUT", "GET", "DELETE", "post"), target: "/charges", body: `{"amount":1}`,
		keys: []string{`"k1"`}, tenant: "t1", media: "application/json", does: pick(r, deeds...)}
	plays := []play{altered(r, first, 4)}
	for range 2 + r.IntN(5) {
		p := plays[r.IntN(len(plays))]
		p.meanwhile = nil
		if r.IntN(3) == 0 {
			p = altered(r, p, 2)
		}
		plays = append(plays, p)
	}
	for i := range plays {
		if plays[i].does == "hold" {
			other := altered(r, plays[i], 3)
			other.does, other.meanwhile = "201", nil
			plays[i].meanwhile = &other
		}
	}
	return plays
}

// altered is p with a difference in one of n parts, or none.
func altered(r *rand.Rand, p play, n int) play {
	switch r.IntN(7 + n) {
	case 0:
		p.keys = []string{pick(r, `k1`, `"k1"`, `"k2"`, `"k1";v=1`, `K1`, ` "k1"`, `"k\"1"`)}
	case 1:
		p.keys = pick(r, nil, []string{""}, []string{"a,b"}, []string{`"a,b"`}, []string{`""`}, []string{`"k1"`, `"k1"`}, []string{`"k1`}, []string{strings.Repeat("k", 255)}, []string{strings.Repeat("k", 256)}, []string{"k\x80"})
	case 2:
		p.target = pick(r, "/charges?a=1", "/charges?a=1&b=2", "/charges?", "/refunds", "/ch%61rges", "/a%2Fb", "//charges", "/charges/../charges")
	case 3:
		p.body = pick(r, "", `{"amount":2}`, strings.Repeat("b", playBody), strings.Repeat("b", playBody+1), "\x00\xff")
	case 4:
		p.tenant = pick(r, "", "t2", "t 3")
	case 5:
		p.media = pick(r, "", "application/json; charset=utf-8", "text/plain", "APPLICATION/JSON", "multipart/form-data; boundary=x")
	case 6:
		p.does = pick(r, deeds...)
		p.chunked = r.IntN(2) == 0
	}
	return p
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
