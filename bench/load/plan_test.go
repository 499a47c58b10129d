package load

import (
	"strings"
	"testing"
	"time"
)

// testPlan is a plan that can be run, for tests to change.
func testPlan(url string) Plan {
	return Plan{
		URL:         url,
		Method:      "POST",
		Mode:        Unique,
		Keys:        10,
		BodySize:    64,
		Connections: 4,
		Duration:    50 * time.Millisecond,
		Timeout:     10 * time.Second,
	}
}

func TestBadPlansAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Plan)
		want   string
	}{
		{"no connections", func(p *Plan) { p.Connections = 0 }, "connections is 0"},
		{"too many connections", func(p *Plan) { p.Connections = MaxConnections + 1 }, "want 1 to 10000"},
		{"body shorter than a document", func(p *Plan) { p.BodySize = 9 }, "body size is 9"},
		{"body too long", func(p *Plan) { p.BodySize = MaxBodySize + 1 }, "body size is 16777217"},
		{"unknown mode", func(p *Plan) { p.Mode = "often" }, `mode is "often"`},
		{"no mode", func(p *Plan) { p.Mode = "" }, `mode is ""`},
		{"replay without keys", func(p *Plan) { p.Mode, p.Keys = Replay, 0 }, "keys is 0"},
		{"replay with too many keys", func(p *Plan) { p.Mode, p.Keys = Replay, MaxKeys+1 }, "keys is 1000001"},
		{"method in lower case", func(p *Plan) { p.Method = "post" }, `method is "post"`},
		{"method whose answer has no body", func(p *Plan) { p.Method = "HEAD" }, `method is "HEAD"`},
		{"key header with a line feed", func(p *Plan) { p.KeyHeader = "X\r\nY" }, "key header is"},
		{"negative warmup", func(p *Plan) { p.Warmup = -1 }, "want positive times"},
		{"no duration", func(p *Plan) { p.Duration = 0 }, "want positive times"},
		{"no timeout", func(p *Plan) { p.Timeout = 0 }, "want positive times"},
		{"no url", func(p *Plan) { p.URL = "" }, "want http://host:port/path"},
		{"url without scheme", func(p *Plan) { p.URL = "localhost:80/" }, "want http://host:port/path"},
		{"url without host", func(p *Plan) { p.URL = "http://:80/" }, "want http://host:port/path"},
		{"https", func(p *Plan) { p.URL = "https://localhost/" }, "want http://host:port/path"},
		{"url with line feed", func(p *Plan) { p.URL = "http://localhost/\r\nX: y" }, "parse url"},
		{"url with user", func(p *Plan) { p.URL = "http://u:secret@localhost/" }, "holds a user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPlan("http://localhost/")
			tt.change(&p)
			_, err := New(p)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("New(%+v): error %v; want one with %q", p, err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("New: error %q tells the password", err)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	tests := []struct {
		name, url string
		want      target
	}{
		{"whole", "http://localhost:8080/a/b?c=d", target{"localhost:8080", "localhost:8080", "/a/b?c=d"}},
		{"no port", "http://localhost/a", target{"localhost:80", "localhost", "/a"}},
		{"no path", "http://localhost:8080", target{"localhost:8080", "localhost:8080", "/"}},
		{"IPv6", "http://[::1]:8080/a", target{"[::1]:8080", "[::1]:8080", "/a"}},
		{"space in path", "http://localhost/a b", target{"localhost:80", "localhost", "/a%20b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseTarget(tt.url)
			if err != nil || got != tt.want {
				t.Errorf("parseTarget(%q) = %+v, %v; want %+v", tt.url, got, err, tt.want)
			}
		})
	}
}
