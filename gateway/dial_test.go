package gateway_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// resolving returns a resolver for which every name has one address.
func resolving(t *testing.T, to string) *net.Resolver {
	addr := netip.MustParseAddr(to)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe() // no packets: the resolver speaks as over TCP (RFC 1035, 4.2.2)
		go nameServer(far, addr)
		t.Cleanup(func() { far.Close() })
		return near, nil
	}}
}

// nameServer answers questions for the kind of address that addr is (RFC 1035, 4).
func nameServer(c net.Conn, addr netip.Addr) {
	defer c.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		name := query[12:]
		for end := 0; ; end += int(name[end]) + 1 {
			if name[end] == 0 {
				name = name[:end+5] // with type and class
				break
			}
		}
		kind, rdata := binary.BigEndian.Uint16(name[len(name)-4:]), addr.AsSlice()
		answers := byte(0)
		if kind == 1 && len(rdata) == 4 || kind == 28 && len(rdata) == 16 { // A, AAAA
			answers = 1
		}
		m := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0}, name...)
		if answers == 1 {
			m = append(m, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 1, 0, byte(len(rdata)))
			m = append(m, rdata...)
		}
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
	}
}

// S17: whoever can change what the upstream's name resolves to cannot lead the gateway to where this machine's
// cloud tells credentials.
func TestNamesLeadToNoMetadata(t *testing.T) {
	for _, to := range []string{"169.254.169.254", "169.254.0.1", "169.254.255.255", "fe80::1", "febf::1", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "::ffff:169.254.169.254"} {
		t.Run(to, func(t *testing.T) {
			l := newLab(t, "http://upstream.example", gateway.Options{DialTimeout: time.Second})
			l.ResolveBy(resolving(t, to))
			wantProblem(t, "request", l.do(post("k", "body")), 502, problem.UpstreamUnreachable, "")
			l.wantState(t, "k", retrysafe.Absent)
			if !strings.Contains(l.log.String(), "leads to a link-local or metadata address") {
				t.Errorf("the log does not say why: %s", l.log)
			}
		})
	}
	t.Run("127.0.0.1", func(t *testing.T) {
		up := newUpstream(t, charging)
		l := newLab(t, strings.Replace(up.url(), "127.0.0.1", "upstream.example", 1), gateway.Options{})
		l.ResolveBy(resolving(t, "127.0.0.1"))
		wantCreated(t, "request", l.do(post("k", "body")), false)
	})
}

// An upstream that is given by such an address is meant.
func TestMetadataThatIsMeant(t *testing.T) {
	for upstream, want := range map[string]bool{"http://169.254.0.1": false, "https://169.254.169.254:80": false, "http://[fe80::1%25eth0]:80": false, "http://[fd00:ec2::254]": false,
		"http://upstream.example": true, "https://localhost:1": true, "http://2852039166": true, "http://0xa9fea9fe": true} {
		if got := newLab(t, upstream, gateway.Options{}).LooksAtAddresses(); got != want {
			t.Errorf("%s: its addresses are looked at: %v, want %v", upstream, got, want)
		}
	}
}

// A redirect is the upstream's answer, for the caller to follow or not.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := newUpstream(t, charging)
	for _, way := range forwardings {
		for _, status := range []string{"301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"} {
			t.Run(way.name+", "+status, func(t *testing.T) {
				up := newUpstream(t, answering("HTTP/1.1 "+status+"\r\nLocation: "+elsewhere.url()+"/\r\nContent-Length: 0\r\n\r\n"))
				got := newLab(t, up.url(), gateway.Options{}).do(request(way.method, "/", "body", way.lines...))
				if !strings.HasPrefix(status, strconv.Itoa(got.status)) || got.header.Get("Location") != elsewhere.url()+"/" {
					t.Errorf("got %d %v, want the upstream's redirect", got.status, got.header)
				}
				elsewhere.wantRequests(t, 0)
			})
		}
	}
}
