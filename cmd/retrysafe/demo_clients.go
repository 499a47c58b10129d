package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A client is one way to deal with an answer that did not come.
type client struct {
	name     string
	customer string
	target   string
	attempts int                                  // per order
	key      func(order int, first string) string // of an attempt; "" sends none
	believes []bool                               // by order: it was charged
	sent     atomic.Int64
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
		c.customer = fmt.Sprintf("client-%d", i+1)
		c.believes = make([]bool, len(d.plan))
		c.http = &http.Client{Timeout: patience, Transport: &line{next: &http.Transport{MaxIdleConnsPerHost: demoWorkers}, plan: d.plan}}
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
				c.believes[i] = c.charge(ctx, i)
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

// charge sends one order until an answer says how it ended, or the client's attempts are used up. It returns
// what the client believes then.
func (c *client) charge(ctx context.Context, order int) bool {
	body := fmt.Sprintf(`{"customer":%q,"amount":1000,"currency":"JPY","memo":%q}`, c.customer, orderName(order))
	first := rand.Text()
	var asked time.Duration // by the answer before
	for attempt := range c.attempts {
		if attempt > 0 && !pause(ctx, max(asked, min(10*time.Millisecond<<attempt, patience))) {
			return false
		}
		asked = 0
		r, err := http.NewRequestWithContext(withAttempt(ctx, order, attempt), http.MethodPost, c.target+"/charges", strings.NewReader(body))
		if err != nil {
			return false
		}
		r.GetBody = nil // net/http must not resend by itself
		r.Header.Set("Content-Type", "application/json")
		if c.key != nil {
			r.Header.Set("Idempotency-Key", c.key(order, first))
		}
		c.sent.Add(1)
		res, err := c.http.Do(r)
		if err != nil {
			continue
		}
		io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
		res.Body.Close()
		if res.StatusCode == http.StatusCreated {
			return true
		}
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // in flight still, on a slow machine
		asked = min(time.Duration(seconds)*time.Second, patience)
	}
	return false
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

// isTerminal tells whether w is a terminal, so that colours and progress belong there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
