package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// startHop starts a next hop that counts what arrives whole.
func startHop(t *testing.T) (url string, arrived *atomic.Int64) {
	t.Helper()
	arrived = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil && string(b) == "order" {
			arrived.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "charged")
	}))
	t.Cleanup(server.Close)
	return server.URL, arrived
}

// over sends one order over a line that does f to it, and returns what the client sees.
func over(ctx context.Context, target string, f fault) (answer, error) {
	l := &line{next: &http.Transport{DisableKeepAlives: true}, plan: plan{{f}}}
	r, err := http.NewRequestWithContext(withAttempt(ctx, attemptID{}), http.MethodPost, target, strings.NewReader("order"))
	if err != nil {
		return answer{}, err
	}
	r.GetBody = nil
	return do(&http.Client{Transport: l}, r)
}

// Every fault does what its name says, to the next hop and to the client.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault   fault
		arrives int64
		status  int // 0: an error
		body    string
	}{
		{fine, 1, 201, "charged"},
		{lostRequest, 0, 0, ""},
		{lostAnswer, 1, 0, ""},
		{timedOut, 1, 504, "<html><h1>504 Gateway Time-out</h1></html>"},
	}
	for _, tt := range tests {
		t.Run(faultNames[tt.fault], func(t *testing.T) {
			url, arrived := startHop(t)
			got, err := over(t.Context(), url, tt.fault)
			if (err != nil) != (tt.status == 0) || got.status != tt.status || got.body != tt.body {
				t.Errorf("the client sees %v, %v, want %d %q", got, err, tt.status, tt.body)
			}
			if n := arrived.Load(); n != tt.arrives {
				t.Errorf("%d requests arrived, want %d", n, tt.arrives)
			}
		})
	}
}

// A request that hangs arrives, and nothing comes back however long its client waits.
func TestFaultHangs(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		defer close(answered)
		return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader("charged"))}, nil
	})
	ctx, impatient := context.WithCancelCause(withAttempt(t.Context(), attemptID{}))
	tired := errors.New("tired of waiting")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:9", strings.NewReader("order"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan error, 1)
	go func() {
		_, err := (&line{next: next, plan: plan{{hangs}}}).RoundTrip(r)
		seen <- err
	}()
	<-answered
	select {
	case err := <-seen:
		t.Fatalf("before the client gave up: it saw %v", err)
	default:
	}
	impatient(tired)
	if err := <-seen; err != tired {
		t.Errorf("the client sees %v, want %v", err, tired)
	}
}

// A client cannot tell a lost request from a lost answer: same type, same text, not a byte more.
func TestLostRequestLooksLikeLostAnswer(t *testing.T) {
	t.Parallel()
	hop, arrived := startHop(t)
	type view struct {
		answer answer
		err    error
	}
	var views []view
	for _, f := range []fault{lostRequest, lostAnswer} {
		a, err := over(t.Context(), hop, f)
		views = append(views, view{a, err})
	}
	if got := arrived.Load(); got != 1 {
		t.Fatalf("%d requests arrived, want one of the two", got)
	}
	for _, v := range views {
		if _, ok := errors.AsType[*url.Error](v.err); !ok || !errors.Is(v.err, errBroken{}) {
			t.Fatalf("the client sees %v, want a broken connection", v.err)
		}
	}
	if !reflect.DeepEqual(views[0], views[1]) || views[0].err.Error() != views[1].err.Error() {
		t.Errorf("a lost request looks like %#v, a lost answer like %#v, want the same", views[0], views[1])
	}
}

// What has left for the next hop arrives also when its client stops waiting.
func TestRequestArrivesWithoutItsClient(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(withAttempt(t.Context(), attemptID{}))
	var alive error
	next := roundTripper(func(r *http.Request) (*http.Response, error) {
		hangUp()
		alive = r.Context().Err()
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:9", strings.NewReader("order"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := (&line{next: next, plan: plan{nil}}).RoundTrip(r); err != nil || alive != nil {
		t.Errorf("after its client hung up the request on its way: got %v, %v, context %v, want it to go on", res, err, alive)
	}
}

// Every plan that --orders allows holds every fault, first and foremost in the attempt that decides.
func TestPlan(t *testing.T) {
	for orders := minOrders; orders <= maxOrders; orders++ {
		p := newPlan(orders)
		first := map[fault]int{}
		faulty := 0
		for _, attempts := range p {
			if len(attempts) > 0 {
				first[attempts[0]]++
				faulty++
			}
			if len(attempts) > 2 {
				t.Fatalf("%d orders: %d attempts of one go wrong, want two at most", orders, len(attempts))
			}
		}
		for _, f := range faults {
			if first[f] == 0 {
				t.Fatalf("%d orders: no first attempt meets %q", orders, faultNames[f])
			}
		}
		if first[hangs] > 4 || first[fine] != 0 || len(p) != orders || p.faulty() != faulty {
			t.Fatalf("%d orders: got plan of %d with %d faulty, %v", orders, len(p), p.faulty(), first)
		}
	}
	if got, want := newPlan(minOrders).summary(), "1 x request lost, 1 x answer lost, 1 x 504 from an intermediary after the effect, 1 x answer never comes"; got != want {
		t.Errorf("summary: got %q, want %q", got, want)
	}
	p := plan{{lostAnswer, timedOut}, nil}
	for _, tt := range []struct {
		order, attempt int
		want           fault
	}{{0, 0, lostAnswer}, {0, 1, timedOut}, {0, 2, fine}, {1, 0, fine}} {
		if got := p.at(tt.order, tt.attempt); got != tt.want {
			t.Errorf("attempt %d of order %d: got %q, want %q", tt.attempt, tt.order, faultNames[got], faultNames[tt.want])
		}
	}
}

// All clients of the demo meet the same line with the same patience, each with its own customer; they differ in
// what they do next.
func TestClientsMeetTheSameLine(t *testing.T) {
	p := newPlan(minOrders)
	d := &demo{plan: p, traces: newTraces(p), direct: "http://direct", guarded: "http://guarded"}
	clients := d.clients()
	customers := map[string]bool{}
	for i, c := range clients {
		l, ok := c.http.Transport.(*line)
		if !ok || !reflect.DeepEqual(l.plan, d.plan) || c.http.Timeout != patience {
			t.Errorf("client %q: got line %+v and patience %v, want the plan of all", c.name, l, c.http.Timeout)
		}
		if guarded := c.target == d.guarded; guarded != (i == 3) || !guarded && c.target != d.direct {
			t.Errorf("client %q: got target %s", c.name, c.target)
		}
		customers[c.customer] = true
	}
	if len(clients) != 4 || len(customers) != 4 {
		t.Fatalf("got %d clients, %d customers, want 4", len(clients), len(customers))
	}
	if clients[0].attempts != 1 || clients[0].key != nil || clients[1].key != nil || clients[1].attempts <= 2 {
		t.Errorf("the first two: got attempts %d and %d, or keys, want one, and more than the line spoils, without keys", clients[0].attempts, clients[1].attempts)
	}
	if a, b := clients[2].key(0, "first"), clients[2].key(0, "first"); a == b || a == "first" {
		t.Errorf("a new key each time: got %q and %q", a, b)
	}
	if a, b := clients[3].key(0, "first"), clients[3].key(0, "first"); a != "first" || b != "first" {
		t.Errorf("one key: got %q and %q, want the first", a, b)
	}
}
