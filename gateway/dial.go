package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// This file is how the gateway reaches its upstream, and which addresses it never does.

// newTransport returns the client to the upstream: HTTP/1.1, HTTP/2 if asked for, connections that count what they write, no
// decompression, no proxy from the environment. It follows no redirect: nothing of the gateway's own does.
func newTransport(o *Options, upstream *url.URL) *http.Transport {
	dialer := newDialer(o, upstream)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(o.UpstreamHTTP2)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: c}, nil
		},
		Protocols:              protocols,
		TLSClientConfig:        o.UpstreamTLS.Clone(),
		TLSHandshakeTimeout:    o.DialTimeout,
		IdleConnTimeout:        o.UpstreamIdle,
		MaxIdleConnsPerHost:    1024,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// newDialer returns what connects to the upstream. What a name resolves to is looked at when it is connected to, so
// that no later answer of the resolver can differ. An upstream that is given by its address is what it says.
func newDialer(o *Options, upstream *url.URL) *net.Dialer {
	d := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 15 * time.Second}
	if _, err := netip.ParseAddr(upstream.Hostname()); err != nil {
		d.Control = refuseMetadata
	}
	return d
}

var errMetadata = errors.New("the upstream's name leads to a link-local or metadata address: name the address itself in the upstream's URL if that is meant")

// metadata are addresses outside of the link-local networks where clouds tell a machine its credentials.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
}

// refuseMetadata keeps whoever can change what a name resolves to from having the gateway ask this machine's cloud for
// its credentials.
func refuseMetadata(_, address string, _ syscall.RawConn) error {
	peer, err := netip.ParseAddrPort(address)
	if err != nil {
		return errMetadata // no address of IP: none that we dial
	}
	addr := peer.Addr().Unmap().WithZone("")
	if addr.IsLinkLocalUnicast() || slices.Contains(metadata, addr) { // 169.254.0.0/16, fe80::/10
		return errMetadata
	}
	return nil
}
