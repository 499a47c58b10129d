//go:build unix

package main

import (
	"testing"
	"time"
)

// The rules find what they are there to find.
func TestKillRules(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	try := func(life, begin, end int, told told, answer string) attempt {
		return attempt{life, at(begin), at(end), told, answer}
	}
	ran := func(life int) effect { return effect{life, at(5), "a"} }
	tests := []struct {
		name string
		s    story
		want string
	}{
		{"nothing", story{}, ""},
		{"answered, replayed after a kill", story{attempts: []attempt{try(1, 0, 9, toldDone, "a"), try(2, 10, 11, toldReplay, "a")}, effects: []effect{ran(1)}}, ""},
		{"in flight beside another", story{attempts: []attempt{try(1, 2, 3, toldInFlight, ""), try(1, 0, 9, toldDone, "a")}, effects: []effect{ran(1)}}, ""},
		{"died before the claim, ran in the next life", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(2, 10, 19, toldDone, "a")}, effects: []effect{ran(2)}}, ""},
		{"died in flight, held", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(0, 10, 11, toldNothing, ""), try(2, 12, 13, toldUnknown, "")}, effects: []effect{ran(1)}}, ""},
		{"another request", story{twisted: true}, "the upstream got another request than was sent"},
		{"two effects", story{effects: []effect{ran(1), ran(2)}}, "it ran twice"},
		{"no effect", story{attempts: []attempt{try(1, 0, 9, toldReplay, "a")}}, "it was answered as done, and nothing ran"},
		{"another answer", story{attempts: []attempt{try(1, 0, 9, toldReplay, "b")}, effects: []effect{ran(1)}}, "it got another answer than the upstream gave"},
		{"forgotten", story{attempts: []attempt{try(1, 0, 9, toldDone, "a"), try(2, 10, 11, toldUnknown, "")}, effects: []effect{ran(1)}}, "it was answered, and told to be unknown"},
		{"unmarked twice", story{attempts: []attempt{try(1, 0, 9, toldDone, "a"), try(1, 10, 11, toldDone, "a")}, effects: []effect{ran(1)}}, "two attempts got the answer of the first"},
		{"unmarked in the next life", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(2, 10, 11, toldDone, "a")}, effects: []effect{ran(1)}}, "it got the answer of the first from a gateway that did not send it"},
		{"waiting for the lease of the dead", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(2, 10, 11, toldInFlight, "")}, effects: []effect{ran(1)}}, "it was told to be in flight, and nobody was on it"},
		{"waiting for it, two at once", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(2, 10, 12, toldInFlight, ""), try(2, 11, 13, toldInFlight, "")}}, "it was told to be in flight, and nobody was on it"},
		{"waiting for it, one cut off", story{attempts: []attempt{try(1, 0, 9, toldNothing, ""), try(2, 10, 12, toldInFlight, ""), try(2, 11, 13, toldNothing, "")}, effects: []effect{ran(1)}}, "it was told to be in flight after its gateway had died"},
		{"unknown for no reason", story{attempts: []attempt{try(0, 0, 1, toldNothing, ""), try(1, 2, 9, toldUnknown, "")}}, "it was told to be unknown, and no gateway had died on it"},
		{"something else", story{attempts: []attempt{try(1, 0, 9, toldOther, "500")}}, "it was told what nobody should be told: 500"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.flaw(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestKillOverlaps(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	try := func(life, begin, end int, told told) attempt { return attempt{life, at(begin), at(end), told, ""} }
	for _, tt := range []struct {
		name                string
		attempts            []attempt
		retries, overlapped int
	}{
		{"one", []attempt{try(1, 0, 9, toldDone)}, 0, 0},
		{"one after the other", []attempt{try(1, 0, 9, toldNothing), try(1, 10, 12, toldDone)}, 1, 0},
		{"at once", []attempt{try(1, 1, 8, toldReplay), try(1, 0, 9, toldDone)}, 1, 1},
		{"in flight", []attempt{try(1, 0, 9, toldNothing), try(1, 10, 11, toldInFlight), try(1, 12, 13, toldReplay)}, 2, 1},
		{"refused", []attempt{try(1, 0, 9, toldNothing), try(0, 1, 2, toldNothing), try(2, 10, 11, toldDone)}, 1, 0},
		{"asked again when it was settled", []attempt{try(1, 0, 9, toldDone), try(1, 10, 12, toldReplay), try(1, 11, 13, toldReplay)}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := story{attempts: tt.attempts}
			if retries, overlapped := s.overlaps(); retries != tt.retries || overlapped != tt.overlapped {
				t.Errorf("got %d retries, %d overlapped, want %d, %d", retries, overlapped, tt.retries, tt.overlapped)
			}
		})
	}
}
