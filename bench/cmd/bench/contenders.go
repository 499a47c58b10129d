package main

import (
	"regexp"
	"slices"

	"github.com/retrysafe/retrysafe/bench/load"
)

// keys is how many keys are replayed.
const keys = 500

// A contender is a server under one kind of load.
type contender struct {
	name  string
	kind  string // what `bench serve` serves
	mode  load.Mode
	base  string          // the contender that its rate is divided by
	goal  map[int]float64 // of that ratio, by connections
	peer  bool            // not ours: it executes as often as it does
	bare  string          // header that carries the key without quotes; "": Idempotency-Key, with them
	after bool            // it stands before a bare handler in another process
}

// The bases. A bare handler does not look at keys, so one load is as good as another.
const (
	bareHandler = "bare handler"
	plainProxy  = "plain httputil.ReverseProxy, shares upstream connections"
	bareFiber   = "bare fiber handler"
)

// fiberKey is where fiber's middleware looks for the key by default.
const fiberKey = "X-Idempotency-Key"

// fiberIdempotency says with which settings the peer runs.
const fiberIdempotency = "fiber idempotency (defaults: storage and lock in memory, lifetime 30 min, all headers kept)"

func goals(at32, at128 float64) map[int]float64 { return map[int]float64{32: at32, 128: at128} }

// contenders are what the table compares, in its order.
var contenders = []contender{
	{name: bareHandler, kind: "bare", mode: load.Unique},
	{name: "middleware on memory, unique keys", kind: "memory", mode: load.Unique, base: bareHandler},
	{name: "middleware on pebble, unique keys, both writes synced", kind: "pebble", mode: load.Unique, base: bareHandler, goal: goals(0.35, 0.50)},
	{name: "middleware on memory, replays of 500 keys", kind: "memory", mode: load.Replay, base: bareHandler, goal: goals(0.90, 0.90)},
	{name: "middleware on pebble, replays of 500 keys", kind: "pebble", mode: load.Replay, base: bareHandler, goal: goals(0.90, 0.90)},

	{name: plainProxy, kind: "proxy", mode: load.Unique, after: true},
	{name: "gateway on pebble, a connection upstream for each request (default), unique keys", kind: "gateway", mode: load.Unique, base: plainProxy, goal: goals(0.65, 0.80), after: true},
	{name: "gateway on pebble, shares upstream connections (KeepAlive), unique keys", kind: "gateway-keepalive", mode: load.Unique, base: plainProxy, goal: goals(0.65, 0.80), after: true},
	{name: "gateway on pebble, a connection upstream for each request (default), replays of 500 keys", kind: "gateway", mode: load.Replay, base: plainProxy, goal: goals(2, 2), after: true},
	{name: "gateway on pebble, shares upstream connections (KeepAlive), replays of 500 keys", kind: "gateway-keepalive", mode: load.Replay, base: plainProxy, goal: goals(2, 2), after: true},

	{name: bareFiber, kind: "fiber", mode: load.Unique, bare: fiberKey},
	{name: fiberIdempotency + ", unique keys", kind: "fiber-idempotency", mode: load.Unique, base: bareFiber, peer: true, bare: fiberKey},
	{name: fiberIdempotency + ", replays of 500 keys", kind: "fiber-idempotency", mode: load.Replay, base: bareFiber, peer: true, bare: fiberKey},
}

// guards tells whether the server is to execute once a key.
func (c contender) guards() bool { return c.base != "" }

// expected is how often the server has to execute.
func (c contender) expected(sent uint64) uint64 {
	if c.guards() && c.mode == load.Replay {
		return keys
	}
	return sent
}

// choose returns the contenders whose names match, and their bases.
func choose(only *regexp.Regexp) (chosen []contender) {
	var bases []string
	for _, c := range contenders {
		if only.MatchString(c.name) {
			bases = append(bases, c.base)
		}
	}
	for _, c := range contenders {
		if only.MatchString(c.name) || slices.Contains(bases, c.name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

func names(of []contender) (names []string) {
	for _, c := range of {
		names = append(names, c.name)
	}
	return names
}
