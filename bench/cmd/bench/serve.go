package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// serve serves one server on a free port, tells its URL, and ends when standard input does.
func serve(name string) error {
	var executed atomic.Uint64
	var api http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := executed.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"ch_%d","amount":1000,"currency":"JPY"}`, n)
	})
	api, err := guarded(name, api)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", api)
	mux.HandleFunc("GET /executed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, executed.Load()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	fmt.Printf("http://%s\n", l.Addr())
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func guarded(name string, api http.Handler) (http.Handler, error) {
	switch name {
	case "bare":
		return api, nil
	case "memory":
		executor, err := retrysafe.New(memstore.New(&memstore.Options{MaxEntries: 1 << 30, MaxBytes: 1 << 40}), nil)
		if err != nil {
			return nil, err
		}
		guard, err := idemhttp.New(executor, idemhttp.SharedScope, nil)
		if err != nil {
			return nil, err
		}
		return guard.Handler(api), nil
	}
	return nil, fmt.Errorf("no server is called %q: want bare or memory", name)
}
