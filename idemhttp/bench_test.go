package idemhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// What the guard costs beside the handler, over the store in memory and without a network: the difference to Bare.
//
//	go test -run '^$' -bench . -benchmem -count 10 ./idemhttp | tee new.txt && benchstat old.txt new.txt

// benchKeys bounds the entries of one store, and so what the garbage collector has to look at.
const benchKeys = 1 << 14

// A nowhere is a ResponseWriter that keeps nothing but what is asked of it: the status.
type nowhere struct {
	h      http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.h }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(status int)      { w.status = status }

// till answers as a small API does.
func till() http.Handler {
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"ch_%d","amount":1000,"currency":"JPY"}`, n)
	})
}

// guarded is till behind a Middleware on an empty store.
func guarded(b *testing.B) http.Handler {
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	guard, err := idemhttp.New(e, idemhttp.SharedScope, nil)
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	return guard.Handler(till())
}

// order is the body of a request: 100 bytes.
const order = `{"amount":1000,"currency":"JPY","source":"tok_visa","description":"ten tickets to the night train" }`

// pay sends api one request with that key. Making it is a good part of what Bare costs.
func pay(b *testing.B, api http.Handler, key, replayed string) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://api.example/charges", strings.NewReader(order))
	if err != nil {
		b.Fatalf("NewRequest: %v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := &nowhere{h: http.Header{}}
	api.ServeHTTP(w, r)
	if got := w.h.Get("Idempotent-Replayed"); w.status != http.StatusCreated || got != replayed {
		b.Fatalf("POST with key %s: status %d, replayed %q; want 201, %q", key, w.status, got, replayed)
	}
}

func keyOf(i int) string { return "key-" + strconv.Itoa(i) }

func BenchmarkBare(b *testing.B) {
	api := till()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pay(b, api, keyOf(i), "")
	}
}

func BenchmarkGuarded(b *testing.B) {
	api := guarded(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%benchKeys == benchKeys-1 {
			b.StopTimer()
			api = guarded(b)
			b.StartTimer()
		}
		pay(b, api, keyOf(i), "")
	}
}

func BenchmarkReplayed(b *testing.B) {
	const keys = 500
	api := guarded(b)
	for i := range keys {
		pay(b, api, keyOf(i), "")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pay(b, api, keyOf(i%keys), "true")
	}
}
