package idemhttp_test

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// tenantOf reads what an authentication layer in front has found out.
func tenantOf(r *http.Request) (string, error) {
	user, _, ok := r.BasicAuth()
	if !ok {
		return "", errors.New("not signed in")
	}
	return user, nil
}

func charge(w http.ResponseWriter, r *http.Request) {
	fmt.Println("charged")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"id":"ch_1"}`)
}

func ExampleNew() {
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	guard, err := idemhttp.New(executor, tenantOf, &idemhttp.Options{Required: true, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/charges", guard.Handler(http.HandlerFunc(charge)))

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"amount":1000}`))
		r.SetBasicAuth("tenant-7", "secret")
		r.Header.Set("Idempotency-Key", `"order-1001"`)
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, r)
		fmt.Printf("%d %s replayed: %q\n", w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// charged
	// 201 {"id":"ch_1"} replayed: ""
	// 201 {"id":"ch_1"} replayed: "true"
}
