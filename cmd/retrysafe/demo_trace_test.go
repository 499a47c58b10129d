package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// What is told of an order is what happened: each message once, by whoever saw it, in the order of time.
func TestStories(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		fault  fault
		client int
		want   string
	}{
		{"a lost request, given up", lostRequest, 0, `
			1 client>line request POST, no key
			1 line>API lost-request lost
			1 line>client reset reset
			1 client>client belief believes: not charged`},
		{"a lost answer, given up", lostAnswer, 0, `
			1 client>line request POST, no key
			1 line>API request POST
			1 API>API charge charge 1
			1 API>line answer 201
			1 line>client lost-answer 201, lost
			1 line>client reset reset
			1 client>client belief believes: not charged`},
		{"a lost answer, sent again bare", lostAnswer, 1, `
			1 client>line request POST, no key
			1 line>API request POST
			1 API>API charge charge 1
			1 API>line answer 201
			1 line>client lost-answer 201, lost
			1 line>client reset reset
			2 client>line request POST, no key
			2 line>API request POST
			2 API>API charge charge 2
			2 API>line answer 201
			2 line>client answer 201
			2 client>client belief believes: charged`},
		{"504, sent again with a new key", timedOut, 2, `
			1 client>line request POST, key A
			1 line>API request POST
			1 API>API charge charge 1
			1 API>line answer 201
			1 line>client lost-answer 201, lost
			1 line>client answer 504
			2 client>line request POST, key B
			2 line>API request POST
			2 API>API charge charge 2
			2 API>line answer 201
			2 line>client answer 201
			2 client>client belief believes: charged`},
		{"a lost answer, sent again with the key", lostAnswer, 3, `
			1 client>line request POST, key A
			1 line>gateway request POST
			1 gateway>API request POST
			1 API>API charge charge 1
			1 API>gateway answer 201
			1 gateway>line answer 201
			1 line>client lost-answer 201, lost
			1 line>client reset reset
			2 client>line request POST, key A
			2 line>gateway request POST
			2 gateway>line replay 201, replayed
			2 line>client replay 201, replayed
			2 client>client belief believes: charged`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan{{tt.fault}}
			d, err := newDemo(t.Context(), p, newTraces(p))
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			c := d.clients()[tt.client]
			c.http.Timeout = deadline // a busy machine is no fault of the line
			c.charge(t.Context(), 0)
			var got strings.Builder
			for _, m := range c.trace.story(0) {
				fmt.Fprintf(&got, "\n\t\t\t%d %s>%s %s %s", m.Attempt, m.From, m.To, m.Kind, m.Text)
			}
			if got.String() != tt.want {
				t.Errorf("got%s\nwant%s", &got, tt.want)
			}
		})
	}
}

// Marks and counts say the same of an order.
func TestTally(t *testing.T) {
	tests := []struct {
		name     string
		charges  int
		believed bool
		mark     byte
		want     row
	}{
		{"charged once", 1, true, markOnce, row{charges: 1}},
		{"not charged", 0, false, markMissing, row{missing: 1}},
		{"not charged, believed charged", 0, true, markMissing, row{missing: 1}},
		{"charged twice", 2, true, markDouble, row{charges: 2, double: 1}},
		{"charged thrice", 3, true, markDouble, row{charges: 3, double: 2}},
		{"charged, nobody knows", 1, false, markDeceived, row{charges: 1, deceived: 1}},
		{"charged twice, nobody knows", 2, false, markDeceived, row{charges: 2, double: 1, deceived: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace := newTrace(2, nil, lifeClient, lifeAPI)
			for range tt.charges {
				trace.charge(attemptID{order: 1})
			}
			if r, marks := trace.tally(); marks != ".." || r != (row{charges: tt.charges}) {
				t.Errorf("under way: got %q, %+v, want both open", marks, r)
			}
			trace.end(attemptID{order: 1}, tt.believed)
			if r, marks := trace.tally(); marks != "."+string(tt.mark) || r != tt.want {
				t.Errorf("at the end: got %q, %+v, want .%c, %+v", marks, r, tt.mark, tt.want)
			}
			if story := trace.story(1); len(story) > 0 {
				t.Errorf("nobody watches the order: got %v", story)
			}
		})
	}
}

// The same seed makes the same plan; another seed lets the same faults meet other orders.
func TestShuffledPlans(t *testing.T) {
	const orders = 120
	plain := newPlan(orders)
	if got := newPlan(orders).shuffled(0); !reflect.DeepEqual(got, plain) {
		t.Errorf("seed 0: got %v, want the plan as it is", got)
	}
	first, again, other := newPlan(orders).shuffled(1), newPlan(orders).shuffled(1), newPlan(orders).shuffled(2)
	if !reflect.DeepEqual(first, again) {
		t.Error("the same seed made two plans")
	}
	if reflect.DeepEqual(first, other) || reflect.DeepEqual(first, plain) {
		t.Error("two seeds made one plan")
	}
	for _, p := range []plan{first, other} {
		if p.summary() != plain.summary() || p.faulty() != plain.faulty() || len(p.firsts()) != len(faults) {
			t.Errorf("shuffled: got %s, want the faults of the plan: %s", p.summary(), plain.summary())
		}
	}
	for f, order := range first.firsts() {
		for i := range order {
			if first.at(i, 0) == f {
				t.Errorf("order %d meets %q before order %d", i, faultNames[f], order)
			}
		}
	}
}

// A tap believes no request that is none of the demo's: a number too high would be an index too high.
func FuzzParseAttempt(f *testing.F) {
	for _, s := range []string{"", "0/0/0", "3/119/11", "4/0/0", "0/120/0", "0/0/12", "-1/0/0", "0/0", "0/0/0/0", "+1/0/0", "99999999999/0/0", " 1/1/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseAttempt(s, 4, 120)
		if !ok {
			if id != (attemptID{}) {
				t.Errorf("parseAttempt(%q): refused, got %v", s, id)
			}
			return
		}
		if id.client < 0 || id.client >= 4 || id.order < 0 || id.order >= 120 || id.attempt < 0 || id.attempt >= stubborn {
			t.Errorf("parseAttempt(%q): got %v, out of bounds", s, id)
		}
		if again, ok := parseAttempt(id.String(), 4, 120); !ok || again != id {
			t.Errorf("parseAttempt(%q): got %v, %t, want %v", id, again, ok, id)
		}
	})
}

// What passes a tap arrives as it was, also when it is none of the demo's, and only the demo's is told.
func TestTap(t *testing.T) {
	hop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "hello") // without a status of its own: 200
	})
	for header, told := range map[string]int{"": 0, "0/1/0": 0, "0/0/0": 2} {
		traces := newTraces(plan{{lostAnswer}})
		server := httptest.NewServer(&tap{lifeAPI, traces, 1, hop})
		defer server.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(attemptHeader, header)
		if a, err := do(server.Client(), r); err != nil || a.status != http.StatusOK || a.body != "hello" {
			t.Errorf("%q: got %v, %v, want what was answered", header, a, err)
		}
		want := []message{{lifeLine, lifeAPI, kindRequest, 1, "POST"}, {lifeAPI, lifeLine, kindAnswer, 1, "200"}}[:told]
		if got := traces[0].story(0); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: told %v, want %v", header, got, want)
		}
	}
}
