package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A client is one way to deal with an answer that did not come.
type client struct {
	name     string
	number   int
	customer string
	target   string
	attempts int                                  // per order
	key      func(order int, first string) string // of an attempt; "" sends none
	trace    *trace
	http     *http.Client
}

// patience is how long a client waits for one answer, stubborn how often it sends. The line spoils two attempts
// of an order at most; the others are for a machine that is slow.
const (
	patience = time.Second
	stubborn = 12
)

// clients are the four that the demo compares: same orders, same line, same patience.
func (d *demo) clients() []*client {
	list := []*client{
		{name: "gives up", target: d.direct, attempts: 1},
		{name: "resends bare", target: d.direct, attempts: stubborn},
		{name: "resends with a new key each time", target: d.direct, attempts: stubborn, key: func(int, string) string { return rand.Text() }},
		{name: "resends with one key, through retrysafe", target: d.guarded, attempts: stubborn, key: func(_ int, first string) string { return first }},
	}
	for i, c := range list {
		c.number, c.trace = i, d.traces[i]
		c.customer = fmt.Sprintf("client-%d", i+1)
		c.http = &http.Client{Timeout: patience, Transport: &line{next: &http.Transport{MaxIdleConnsPerHost: demoWorkers}, plan: d.plan, trace: c.trace}}
	}
	return list
}

// demoWorkers is how many orders a client has under way at once.
const demoWorkers = 6

// drive charges all orders of the plan through one client.
func (d *demo) drive(ctx context.Context, c *client, done *atomic.Int64) error {
	orders := make(chan int)
	var wg sync.WaitGroup
	for range demoWorkers {
		wg.Go(func() {
			for i := range orders {
				if pause(ctx, d.breath) {
					c.charge(ctx, i)
				}
				done.Add(1)
			}
		})
	}
	for i := range d.plan {
		if ctx.Err() != nil {
			break
		}
		orders <- i
	}
	close(orders)
	wg.Wait()
	c.http.CloseIdleConnections()
	return context.Cause(ctx)
}

func orderName(i int) string { return fmt.Sprintf("order-%05d", i) }

// charge sends one order until an answer says how it ended, or the client's attempts are used up, and ends with
// what the client believes then.
func (c *client) charge(ctx context.Context, order int) {
	body := fmt.Sprintf(`{"customer":%q,"amount":1000,"currency":"JPY","memo":%q}`, c.customer, orderName(order))
	keys := keyring{first: rand.Text()}
	id := attemptID{client: c.number, order: order}
	charged := false
	var asked time.Duration // by the answer before
	for attempt := 0; attempt < c.attempts && !charged; attempt++ {
		id.attempt = attempt
		if id.attempt > 0 && !pause(ctx, max(asked, min(10*time.Millisecond<<id.attempt, patience))) {
			return
		}
		r, err := http.NewRequestWithContext(withAttempt(ctx, id), http.MethodPost, c.target+"/charges", strings.NewReader(body))
		if err != nil {
			return
		}
		r.GetBody = nil // net/http must not resend by itself
		r.Header.Set("Content-Type", "application/json")
		if c.key != nil {
			r.Header.Set("Idempotency-Key", keys.take(c.key(order, keys.first)))
		}
		c.trace.send(id, keys.name())
		charged, asked = c.send(id, r)
	}
	c.trace.end(id, charged)
}

// send sends one attempt. It returns whether the answer says that the order is charged, and how long the answer
// asks to wait.
func (c *client) send(id attemptID, r *http.Request) (charged bool, asked time.Duration) {
	res, err := c.http.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok && e.Timeout() {
		c.trace.tell(id, lifeClient, lifeClient, kindSilence, "no answer in %v", patience)
		return false, 0
	}
	if err != nil {
		c.trace.tell(id, lifeLine, lifeClient, kindReset, "reset")
		return false, 0
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	res.Body.Close()
	kind, text := describeAnswer(res.StatusCode, res.Header)
	c.trace.tell(id, lifeLine, lifeClient, kind, "%s", text)
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // in flight still, on a slow machine
	return res.StatusCode == http.StatusCreated, min(time.Duration(seconds)*time.Second, patience)
}

// A keyring names the keys of one order A, B, C in the order in which they are used: the keys themselves are
// nobody's business.
type keyring struct {
	first string
	used  []string
}

func (k *keyring) take(key string) string {
	if !slices.Contains(k.used, key) {
		k.used = append(k.used, key)
	}
	return key
}

// name is that of the key taken last: a key that was used before is only ever the last one.
func (k *keyring) name() string {
	if k.used == nil {
		return "no key"
	}
	return "key " + string(rune('A'+len(k.used)-1))
}

// pause waits; it returns false if ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// charges counts a customer's charges by order.
func charges(ctx context.Context, api, customer string) (map[string]int, error) {
	count := map[string]int{}
	for after := 0; ; {
		var page struct {
			Charges []struct {
				Slip int    `json:"slip"`
				Memo string `json:"memo"`
			} `json:"charges"`
		}
		q := url.Values{"customer": {customer}, "limit": {"100"}, "after": {fmt.Sprint(after)}}
		if err := getJSON(ctx, api+"/charges?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		if len(page.Charges) == 0 {
			return count, nil
		}
		for _, charge := range page.Charges {
			count[charge.Memo]++
			after = charge.Slip
		}
	}
}

func getJSON(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: status %s", url, res.Status)
	}
	return json.NewDecoder(io.LimitReader(res.Body, 16<<20)).Decode(into)
}

// isTerminal tells whether w is a terminal: somebody may be there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isLively tells whether colours and progress belong on w.
func isLively(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}
