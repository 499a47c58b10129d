package answer

import "strings"

// exchangeHeaders belong to one exchange or one caller: no kept answer holds them. Prefixes end in a star.
var exchangeHeaders = [...]string{"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Proxy-*", "Authentication-Info", "Authorization", "Date", "Age", "Via",
	"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Content-Length", "Server-Timing",
	"Retry-After", "Ratelimit*", "X-Ratelimit*", "X-Request-Id", "Traceparent", "Tracestate", "Access-Control-*", "Alt-Svc", "Clear-Site-Data",
	"Content-Security-Policy*", "Idempotent-Replayed", "Idempotency-Status"}

// OfOneExchange tells whether the header of that canonical name belongs to one exchange or one caller, and can
// never be replayed.
func OfOneExchange(name string) bool {
	for _, never := range exchangeHeaders {
		prefix, open := strings.CutSuffix(never, "*")
		if name == never || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Named tells whether one of the lines of a Connection header names a header: it is hop-by-hop then (RFC 9110,
// 7.6.1).
func Named(connection []string, header string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), header) {
				return true
			}
		}
	}
	return false
}
