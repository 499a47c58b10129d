package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// A keeper is an open store, and what this build can do with it beyond the Store interface.
type keeper struct {
	retrysafe.Store
	backup func(ctx context.Context, dir string) error // nil: it cannot
	close  func() error
}

// checkStore refuses a URL that names no store, before anything is opened. What stands behind the scheme may hold a
// password: it is not repeated.
func checkStore(url string) error {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "memory" && rest != "":
		return usage("--store: memory: takes nothing behind the colon")
	case scheme == "pebble" && rest == "":
		return usage("--store: pebble: wants a folder behind the colon, like pebble:./retrysafe-data")
	case scheme != "memory" && scheme != "pebble":
		return usage("--store: %q is no store this build knows: want pebble:DIR or memory:", scheme)
	}
	return nil
}

// openStore is the one place that knows the stores there are.
func openStore(url string, log *slog.Logger) (*keeper, error) {
	if err := checkStore(url); err != nil {
		return nil, err
	}
	if scheme, rest, _ := strings.Cut(url, ":"); scheme == "pebble" {
		return openPebble(rest, log)
	}
	return &keeper{Store: memstore.New(nil), close: func() error { return nil }}, nil
}

func openPebble(dir string, log *slog.Logger) (*keeper, error) {
	s, err := pebblestore.Open(dir, &pebblestore.Options{Logger: log})
	switch {
	case errors.Is(err, pebblestore.ErrInUse), errors.Is(err, pebblestore.ErrNewer), errors.Is(err, retrysafe.ErrInvalid):
		return nil, usage("--store: %v", err)
	case err != nil:
		return nil, err
	}
	return &keeper{Store: s, backup: s.Backup, close: s.Close}, nil
}
