package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/examples/payments"
)

// A payAPI is the example API behind a gateway. While cut is set it reads requests and closes the connection
// without a byte.
type payAPI struct {
	url string
	api http.Handler
	mu  sync.Mutex
	cut bool
}

func startPayments(t *testing.T) *payAPI {
	t.Helper()
	api, err := payments.Open(t.Context(), filepath.Join(t.TempDir(), "payments.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &payAPI{api: api.Handler()}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		server.Close()
		if err := api.Close(); err != nil {
			t.Errorf("close the payment API: %v", err)
		}
	})
	p.url = server.URL
	return p
}

func (p *payAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	if cut {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}
	p.api.ServeHTTP(w, r)
}

func (p *payAPI) breakOff(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = on
}

// count returns how many charges stand.
func (p *payAPI) count(t *testing.T) int {
	t.Helper()
	n, err := charges(t.Context(), p.url, "zq-body-c1")
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, of := range slices.Collect(maps.Values(n)) {
		all += of
	}
	return all
}

// charge is the body of a charge.
func charge(amount int) string {
	return fmt.Sprintf(`{"customer":"zq-body-c1","amount":%d,"currency":"JPY","memo":"zq-body"}`, amount)
}

// An upstream that answers, fails, breaks off or takes its time, by path.
func startStates(t *testing.T) (url string, arrived <-chan string, release func()) {
	t.Helper()
	arrivals, gate := make(chan string, 16), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrivals <- r.URL.Path
		switch r.URL.Path {
		case "/fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/block":
			<-gate
		}
		io.WriteString(w, "zq-body")
	}))
	var once bool
	release = func() {
		if !once {
			close(gate)
		}
		once = true
	}
	t.Cleanup(func() {
		release()
		server.Close()
	})
	return server.URL, arrivals, release
}
