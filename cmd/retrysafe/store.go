package main

import (
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// openStore is the one place that knows the stores there are.
func openStore(url string) (retrysafe.Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "memory" && rest == "":
		return memstore.New(nil), nil
	case scheme == "memory":
		return nil, usage("--store: memory: takes nothing behind the colon")
	}
	return nil, usage("--store: %q is no store this build knows: want memory:", scheme) // what follows may hold a password
}
