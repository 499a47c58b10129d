package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/observer/promobserver"
	"github.com/retrysafe/retrysafe/store/memstore"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

// reverseProxy is what Go has to offer, with as many idle connections as our gateway keeps: by default it keeps two
// and dials for all else.
func reverseProxy(upstream *url.URL) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(upstream)
			p.SetXForwarded()
		},
	}
}

// guarded puts us before api, or before upstream. end ends what runs beside it and closes the store.
func guarded(kind, dir string, upstream *url.URL, api http.Handler) (h http.Handler, end func() error, err error) {
	store, closeStore, err := openStore(kind, dir)
	if err != nil {
		return nil, nil, err
	}
	o := &retrysafe.Options{}
	isGateway := kind == "gateway" || kind == "gateway-keepalive"
	if isGateway { // as the program puts it together
		if o.Observer, err = promobserver.New(prometheus.NewRegistry()); err != nil {
			return nil, nil, errors.Join(err, closeStore())
		}
	}
	executor, err := retrysafe.New(store, o)
	if err != nil {
		return nil, nil, errors.Join(err, closeStore())
	}
	if isGateway {
		h, err = gateway.New(executor, upstream, idemhttp.SharedScope, &gateway.Options{KeepAlive: kind == "gateway-keepalive"})
	} else {
		h, err = middleware(executor, api)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeStore())
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- executor.Run(ctx) }()
	return h, func() error {
		cancel()
		return errors.Join(<-ran, closeStore())
	}, nil
}

func middleware(executor *retrysafe.Executor, api http.Handler) (http.Handler, error) {
	m, err := idemhttp.New(executor, idemhttp.SharedScope, nil)
	if err != nil {
		return nil, err
	}
	return m.Handler(api), nil
}

func openStore(kind, dir string) (retrysafe.Store, func() error, error) {
	if kind == "memory" { // room for all that a run may send
		return memstore.New(&memstore.Options{MaxEntries: 1 << 30, MaxBytes: 1 << 40}), func() error { return nil }, nil
	}
	s, err := pebblestore.Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}
