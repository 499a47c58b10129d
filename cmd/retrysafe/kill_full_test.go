//go:build !race

package main

const defaultKills = 200
