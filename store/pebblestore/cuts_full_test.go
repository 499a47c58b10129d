//go:build !race

package pebblestore

const defaultCuts = 500
