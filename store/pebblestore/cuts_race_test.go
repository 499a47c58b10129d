//go:build race

package pebblestore

// Under the race detector a cut takes several times as long.
const defaultCuts = 100
