package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// An operator finds an outcome that is held, asks the bank, and decides.
func Example() {
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	const token = "5d41402abc4b2a76b9719d911017c592" // of a file, in earnest
	api, err := admin.New(executor, &admin.Options{Token: token})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(api) // a listener of its own, on loopback
	defer server.Close()

	ctx, key := context.Background(), retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
	_, err = executor.Do(ctx, key, retrysafe.FingerprintOf([]byte("charge 10 EUR")), func(context.Context) ([]byte, error) {
		return nil, errors.New("connection reset")
	})
	fmt.Println("charge:", err)

	client := admin.Client{URL: server.URL, Token: token}
	page, err := client.List(ctx, retrysafe.Filter{State: retrysafe.Unknown})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", page.Keys[0].Scope, page.Keys[0].Key)

	d, err := client.Resolve(ctx, key.ID(), admin.Resolution{Action: admin.Complete, By: "ana", Reason: "in the bank's list", Status: http.StatusCreated})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("now:", d.State, "by", d.History[0].By)

	// Output:
	// charge: connection reset
	// held: tenant-7 order-1001
	// now: completed by ana
}
