//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The two sides of the gateway in TestKill: callers who retry until they are told, and an upstream whose effects
// can be counted.

// kept are the headers that a replay must bear as the first answer did.
var kept = []string{"Content-Type", "Location", "Etag", "Link", "Cache-Control"}

// text is all of an answer that a replay must repeat.
func (a answer) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range kept {
		for _, value := range a.header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	b.WriteString(a.body)
	return b.String()
}

// requestBody is the one that belongs to a key.
func requestBody(key string) string { return `{"memo":"zq-body of ` + key + `"}` }

// A counter is the upstream: it counts effects by key, and knows from the path which life of the gateway asks. What
// it began it ends, also when its caller is gone.
type counter struct {
	*httptest.Server
	past  *chronicle
	made  atomic.Int64
	noise string
}

// slow bounds the two moments in which the upstream holds a request: before its effect and between effect and answer.
const slow = 8 * time.Millisecond

func startCounter(t *testing.T, past *chronicle) *counter {
	t.Helper()
	var noise strings.Builder
	for noise.Len() < 1<<17 {
		fmt.Fprintf(&noise, "%016x", rand.Uint64())
	}
	u := &counter{past: past, noise: noise.String()}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(r.Body)
	if err != nil { // it broke off: what did not arrive whole has no effect
		return
	}
	life, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/charges"))
	<-time.After(rand.N(slow / 2))
	a := u.answer()
	u.past.happened(key, effect{life, time.Now(), a.text()}, err != nil || string(body) != requestBody(key))
	<-time.After(rand.N(slow))
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

// answer is one that was never given before. Some are longer than a block of the store's log.
func (u *counter) answer() answer {
	n := u.made.Add(1)
	size := 64 + rand.IntN(400)
	if rand.IntN(64) == 0 {
		size = rand.IntN(100_000)
	}
	from := rand.IntN(len(u.noise) - size)
	return answer{201, http.Header{
		"Content-Type":  {"application/json"},
		"Location":      {fmt.Sprintf("/charges/%d", n)},
		"Etag":          {fmt.Sprintf(`"%x"`, rand.Uint32())},
		"Link":          {"</a>; rel=a", "</b>; rel=b"},
		"Cache-Control": {"private"},
	}, fmt.Sprintf(`{"slip":%d,"memo":"zq-body %s"}`, n, u.noise[from:from+size])}
}

// A crowd is the callers. Each sends key after key, and each key until it is told what became of it.
type crowd struct {
	t      *testing.T
	url    string
	life   *atomic.Int64 // of the gateway
	past   *chronicle
	client *http.Client
	gate   sync.RWMutex // read-locked by every attempt, so that none is under way while it is locked
	stop   chan struct{}
	all    sync.WaitGroup
}

const callers = 12

// startCrowd starts the callers, who end when stop is closed and their last keys are settled.
func startCrowd(t *testing.T, url string, life *atomic.Int64, past *chronicle) *crowd {
	t.Helper()
	c := &crowd{t: t, url: url, life: life, past: past, stop: make(chan struct{})}
	c.client = &http.Client{Transport: &http.Transport{DialContext: c.dial, MaxIdleConnsPerHost: 4 * callers}, Timeout: deadline}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { // after a failure as well
		cancel()
		c.all.Wait()
		c.client.CloseIdleConnections()
	})
	for who := range callers {
		c.all.Go(func() { c.call(ctx, who) })
	}
	return c
}

// A lived connection knows to which life of the gateway it leads.
type lived struct {
	net.Conn
	life int
}

// dial connects to the gateway. The number of its life changes only while none runs, so that a connection under
// one number leads to it.
func (c *crowd) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	life := c.life.Load()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if c.life.Load() != life {
		return nil, errors.Join(errors.New("the gateway was replaced meanwhile"), conn.Close())
	}
	return &lived{conn, int(life)}, nil
}

// call is one caller: new keys, of which some are sent twice at once, and some hung up upon first; and between them
// keys that were settled.
func (c *crowd) call(ctx context.Context, who int) {
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-c.stop:
			return
		default:
		}
		key, double := fmt.Sprintf("zq-key-%d-%d", who, n), n%3 == 0
		if again := c.past.anySettled(); again != "" && rand.IntN(4) == 0 {
			key, double = again, false
		}
		if rand.IntN(8) == 0 {
			c.hangUp(ctx, key)
		}
		var twins sync.WaitGroup
		if double {
			twins.Go(func() { c.settle(ctx, key) })
		}
		c.settle(ctx, key)
		twins.Wait()
	}
}

func (c *chronicle) anySettled() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.settled) == 0 {
		return ""
	}
	return c.settled[rand.IntN(len(c.settled))]
}

// settling bounds the time that a key takes to be settled. No lease ends in it.
const settling = time.Minute

// settle sends key until it is told what became of it.
func (c *crowd) settle(ctx context.Context, key string) {
	late := time.After(settling)
	for {
		if c.attempt(ctx, key).settles() {
			return
		}
		select {
		case <-time.After(time.Millisecond + rand.N(8*time.Millisecond)):
		case <-ctx.Done():
			return
		case <-late:
			c.t.Errorf("key %s was told nothing in %v", key, settling)
			return
		}
	}
}

// hangUp sends key and does not wait for long.
func (c *crowd) hangUp(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(slow))
	defer cancel()
	c.attempt(ctx, key)
}

// attempt sends key once, and has it on record before the gate can be locked.
func (c *crowd) attempt(ctx context.Context, key string) told {
	c.gate.RLock()
	defer c.gate.RUnlock()
	a := c.send(ctx, key)
	c.past.attempted(key, a)
	return a.told
}

func (c *crowd) send(ctx context.Context, key string) (a attempt) {
	a.begin, a.told = time.Now(), toldNothing
	got, err := do(c.client, c.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		a.life = info.Conn.(*lived).life
	}}), key))
	a.end = time.Now()
	if err == nil {
		a.told, a.answer = got.tells()
	}
	return a
}

// request is one that net/http does not send twice by itself: its body cannot be rewound.
func (c *crowd) request(ctx context.Context, key string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/charges", io.NopCloser(strings.NewReader(requestBody(key))))
	if err != nil {
		panic(err) // the URL is the gateway's own
	}
	r.ContentLength = int64(len(requestBody(key)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return r
}

// tells reads what an answer of the gateway means to its caller.
func (a answer) tells() (told, string) {
	replayed, status := a.header.Get("Idempotent-Replayed"), a.header.Get("Idempotency-Status")
	problem := func(code string) bool {
		return a.header.Get("Content-Type") == "application/problem+json" && strings.Contains(a.body, `"code":"`+code+`"`)
	}
	switch {
	case a.status == 201 && replayed == "" && status == "":
		return toldDone, a.text()
	case a.status == 201 && replayed == "true" && status == "":
		return toldReplay, a.text()
	case a.status == 409 && problem("in-flight"):
		return toldInFlight, ""
	case a.status == 409 && problem("outcome-unknown"):
		return toldUnknown, ""
	case a.status == 503 && problem("store-unavailable"):
		return toldLater, ""
	}
	return toldOther, a.String()
}

// askAll asks for the keys once more, each until it is told.
func (c *crowd) askAll(ctx context.Context, keys []string) {
	var all sync.WaitGroup
	for part := range slices.Chunk(keys, max(1, (len(keys)+callers-1)/callers)) {
		all.Go(func() {
			for _, key := range part {
				c.settle(ctx, key)
			}
		})
	}
	all.Wait()
}
