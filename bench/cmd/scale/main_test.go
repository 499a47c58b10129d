package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/sample"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// TestMain makes this binary the process that writes and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "write" {
		if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// All parts run on a small folder, the real binary included.
func TestEveryPartIsMeasured(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-keys", "6000", "-rounds", "1", "-window", "20ms", "-load", "200ms", "-json", "-dir", dir}, &out, io.Discard)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	var figures []figure
	if err := json.Unmarshal(out.Bytes(), &figures); err != nil {
		t.Fatalf("output %q: %v", &out, err)
	}
	found := map[string]figure{}
	for _, f := range figures {
		none := f.Unit == "keys/s" // so short a sweep may not come to its first key
		if f.How == "" || len(f.Values) == 0 || f.Values.Median() <= 0 && !none {
			t.Errorf("figure %+v: want a value above 0, and how it was taken", f)
		}
		found[f.Name] = f
	}
	for _, want := range []string{
		"fill of a folder, from 0 to 2000 keys", "fill of a folder, from 2000 to 6000 keys", "size of a folder of 6000 keys",
		"claims in an empty folder", "claims among 6000 keys", "open of 6000 keys, closed before", "open of 6000 keys after kill -9",
		"start of the gateway with 6000 keys", "memory of the gateway with 2000 keys, after start", "memory of the gateway with 2000 keys, after load",
		"memory of the gateway with 2000 keys, after a listing", "claims during the sweep", "keys swept without claims",
	} {
		if _, ok := found[want]; !ok {
			t.Errorf("no figure %q in %s", want, &out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v; want nothing", left, err)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-keys", "2"}, {"-rounds", "0"}, {"-window", "0s"}, {"-load", "-1s"}, {"-only", "("}, {"now"}, {"-dir", "/no/such/folder"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, io.Discard); err == nil || out.Len() > 0 {
			t.Errorf("run(%q): %v, output %q; want an error alone", args, err, &out)
		}
	}
}

// What a press makes is what the core would have stored: a store takes it, and the entry can be read.
func TestPressedClaimsAreTheCoresOwn(t *testing.T) {
	claims, err := pressed(t.Context(), 50)
	if err != nil || len(claims) != 50 {
		t.Fatalf("pressed: %d claims, %v; want 50", len(claims), err)
	}
	store := memstore.New(nil)
	n, err := create(t.Context(), store, claims, time.Hour)
	if err != nil || n != 50 {
		t.Fatalf("create: %d, %v; want all 50", n, err)
	}
	for _, e := range claims {
		if err := e.Check(); err != nil || e.State != retrysafe.InFlight || e.Scope != tenant {
			t.Errorf("claim %+v: %v", e, err)
		}
	}
	again := slices.Clone(claims)
	for i := range again { // with the Rev of its first sending, a store would know the write again
		again[i].Rev = retrysafe.NewRev()
	}
	if _, err := create(t.Context(), store, again, time.Hour); err == nil {
		t.Error("keys that are taken were claimed again, and counted")
	}
	s := &scale{window: 50 * time.Millisecond}
	if err := s.undo(t.Context(), store, claims); err != nil {
		t.Fatalf("undo: %v", err)
	}
	if entries, _, err := store.Get(t.Context(), claims[0].ID, claims[49].ID); err != nil || len(entries) > 0 {
		t.Errorf("after undo: %v, %v; want nothing", entries, err)
	}
}

func TestClaimsEndWithTheirWindow(t *testing.T) {
	claims, err := pressed(t.Context(), 5)
	if err != nil {
		t.Fatalf("pressed: %v", err)
	}
	if n, err := create(t.Context(), memstore.New(nil), claims, -time.Second); n != 0 || err != nil {
		t.Errorf("create in a window that is over: %d, %v; want none", n, err)
	}
}

func TestParallelEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	err := parallel(t.Context(), 8, func(ctx context.Context) (bool, error) {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		default:
			return false, broken
		}
	})
	if err != broken {
		t.Errorf("parallel: %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := parallel(ctx, 8, func(context.Context) (bool, error) { return true, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("parallel under a context that has ended: %v", err)
	}
}

// A sweep that runs out of keys measures nothing.
func TestSweepThatRunsDryIsAnError(t *testing.T) {
	err := run(t.Context(), []string{"-keys", "3", "-rounds", "1", "-window", "200ms", "-only", "sweep", "-dir", t.TempDir()}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "ran out") {
		t.Errorf("run: %v, want that the expired keys ran out", err)
	}
}

func TestTableTellsHowFiguresWereTaken(t *testing.T) {
	var out bytes.Buffer
	err := printTable(&out, []figure{
		{Name: "claims", Unit: "claims/s", Values: sample.Sample{3000, 1000, 2000}, Goal: ">= 9", How: "64 at once"},
		{Name: "size", Unit: "MiB", Values: sample.Sample{1.234}, How: "sum"},
	})
	if err != nil {
		t.Fatalf("printTable: %v", err)
	}
	for _, want := range []string{"| claims | 2000 (1000 to 3000) | claims/s | >= 9 | 64 at once |\n", "| size | 1.23 | MiB |  | sum |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row\n%sin\n%s", want, &out)
		}
	}
}
