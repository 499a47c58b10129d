//go:build race

package main

// Under the race detector a life takes several times as long.
const defaultKills = 30
