package promobserver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observer/promobserver"
	"github.com/retrysafe/retrysafe/store/memstore"
)

func Example() {
	registry := prometheus.NewRegistry()
	observer, err := promobserver.New(registry)
	if err != nil {
		log.Fatal(err)
	}
	executor, err := retrysafe.New(memstore.New(nil), &retrysafe.Options{Observer: observer})
	if err != nil {
		log.Fatal(err)
	}
	charge := func(context.Context) ([]byte, error) { return []byte("paid"), nil }
	for range 3 { // one charge, two retries
		key := retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
		if _, err := executor.Do(context.Background(), key, retrysafe.FingerprintOf([]byte("10 EUR")), charge); err != nil {
			log.Fatal(err)
		}
	}
	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain, "retrysafe_claims_total")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))

	// Output:
	// # HELP retrysafe_claims_total Claims that the store answered, by verdict. won, took_over and recovering own the key and run; busy, replay, mismatch, outcome_unknown and expired met another attempt and ran nothing.
	// # TYPE retrysafe_claims_total counter
	// retrysafe_claims_total{verdict="busy"} 0
	// retrysafe_claims_total{verdict="expired"} 0
	// retrysafe_claims_total{verdict="mismatch"} 0
	// retrysafe_claims_total{verdict="outcome_unknown"} 0
	// retrysafe_claims_total{verdict="recovering"} 0
	// retrysafe_claims_total{verdict="replay"} 2
	// retrysafe_claims_total{verdict="took_over"} 0
	// retrysafe_claims_total{verdict="won"} 1
}
