package gateway

import (
	"cmp"
	"io"
	"net/http"
	"time"
)

// EnableHTTP2 bounds what HTTP/2 lets the callers of s do, and has it spoken over TLS only. A caller who resets its streams
// as soon as they are open ends no operation: while maxStreams of a connection are under way further ones wait, and
// when too many wait net/http closes the connection (CVE-2023-39325). stuck is how long a connection may take nothing.
func EnableHTTP2(s *http.Server, stuck time.Duration) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxDecoderHeaderTableSize:     4 << 10,
		MaxReadFrameSize:              16 << 10,
		MaxReceiveBufferPerConnection: 1 << 20, // what a connection may hold of bodies that nobody has read yet
		MaxReceiveBufferPerStream:     256 << 10,
		WriteByteTimeout:              cmp.Or(stuck, 30*time.Second),
	}
}

const maxStreams = 100

// onceOver2 hides an empty body where a request may go over HTTP/2. Its client sends a request without a body a second
// time when the upstream resets the stream with REFUSED_STREAM or PROTOCOL_ERROR; the latter says nothing of what the
// upstream did before. GET and HEAD it may send again.
func (g *Gateway) onceOver2(method string, body io.ReadCloser) io.ReadCloser {
	empty := body == nil || body == http.NoBody
	if !g.o.UpstreamHTTP2 || !empty || method == http.MethodGet || method == http.MethodHead {
		return body
	}
	return once{http.NoBody}
}
