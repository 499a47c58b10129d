package idemhttp_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
)

func sum(s string) retrysafe.Fingerprint { return sha256.Sum256([]byte(s)) }

// form writes a form of parts, each given by parameters of its Content-Disposition, further header lines and content.
func form(boundary string, parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 3 {
		b.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; " + parts[i] + "\r\n" + parts[i+1] + "\r\n" + parts[i+2] + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n"
}

func TestMultipart(t *testing.T) {
	const file = "name=f; filename=a.txt"
	whole := form("X", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi")
	for _, tt := range []struct {
		name   string
		second string // with the boundary Y
		same   bool
	}{
		{"FP-16 another boundary", form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), true},
		{"FP-16 another byte of a file", form("Y", file, "Content-Type: text/plain\r\n", "abd", "name=memo", "", "hi"), false},
		{"another name", form("Y", "name=g; filename=a.txt", "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"another file name", form("Y", "name=f; filename=b.txt", "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"no file name", form("Y", "name=f", "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"another type of a part", form("Y", file, "Content-Type: text/html\r\n", "abc", "name=memo", "", "hi"), false},
		{"no type of a part", form("Y", file, "", "abc", "name=memo", "", "hi"), false},
		{"a type that moves to the part behind", form("Y", file, "", "abc", "name=memo", "Content-Type: text/plain\r\n", "hi"), false},
		{"a part that is encoded", form("Y", file, "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n", "abc", "name=memo", "", "hi"), false},
		{"a type that moves to another line", form("Y", file, "Content-Transfer-Encoding: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"another line of a part that says nothing of it", form("Y", file, "Content-Type: text/plain\r\nX-Trace: 7\r\n", "abc", "name=memo", "", "hi"), true},
		{"parts in another order", form("Y", "name=memo", "", "hi", file, "Content-Type: text/plain\r\n", "abc"), false},
		{"contents that change places", form("Y", file, "Content-Type: text/plain\r\n", "hi", "name=memo", "", "abc"), false},
		{"a part less", form("Y", file, "Content-Type: text/plain\r\n", "abc"), false},
		{"a part more", form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi", "name=memo", "", "hi"), false},
		{"an empty part more", form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi", "name=x", "", ""), false},
		{"a line end more", form("Y", file, "Content-Type: text/plain\r\n", "abc\r\n", "name=memo", "", "hi"), false},
		{"something before the parts", "?\r\n" + form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"a line before the parts that is nearly a delimiter", "--Y?\r\n" + form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), false},
		{"something behind the parts", form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi") + "?", false},
		{"a form behind the form", form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi") + form("Y", "name=x", "", ""), false},
		{"the end is missing", strings.TrimSuffix(form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), "--\r\n"), false},
		{"the last line end is missing", strings.TrimSuffix(form("Y", file, "Content-Type: text/plain\r\n", "abc", "name=memo", "", "hi"), "\r\n"), true},
		{"nothing", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantRetry(t, idemhttp.Multipart(), asked("POST", "/a", "multipart/form-data; boundary=X", whole),
				asked("POST", "/a", "multipart/form-data; boundary=Y", tt.second), tt.same)
		})
	}
}

// What is no form that can be read in one way counts byte for byte.
func TestMultipartByteForByte(t *testing.T) {
	one := func(boundary string) string { return form(boundary, "name=a", "", "1") }
	content := sum("1")
	digested := strings.Repeat("\x00", 3*8) + string(content[:]) // no lines of three names, and the digest of the content
	parts := func(boundary string, n int) string {
		return strings.Repeat("--"+boundary+"\r\n\r\n\r\n", n) + "--" + boundary + "--"
	}
	for _, tt := range []struct {
		name          string
		first, second func() *http.Request
		same          bool
	}{
		{"as many parts as may be", asked("POST", "/a", "multipart/form-data; boundary=X", parts("X", 1000)), asked("POST", "/a", "multipart/form-data; boundary=Y", parts("Y", 1000)), true},
		{"one part more", asked("POST", "/a", "multipart/form-data; boundary=X", parts("X", 1001)), asked("POST", "/a", "multipart/form-data; boundary=Y", parts("Y", 1001)), false},
		{"no part", asked("POST", "/a", "multipart/form-data; boundary=X", "--X--"), asked("POST", "/a", "multipart/form-data; boundary=Y", "--Y--"), false},
		{"what is no form looks like what is digested of one", asked("POST", "/a", "multipart/form-data; boundary=X", "--X\r\n\r\n1\r\n--X--"), asked("POST", "/a", "multipart/form-data; boundary=X", digested), false},
		{"another kind of multipart", asked("POST", "/a", "multipart/mixed; boundary=X", one("X")), asked("POST", "/a", "multipart/mixed; boundary=Y", one("Y")), false},
		{"no boundary", asked("POST", "/a", "multipart/form-data", one("")), asked("POST", "/a", "multipart/form-data", one("")+" "), false},
		{"another boundary than is said", asked("POST", "/a", "multipart/form-data; boundary=Z", one("X")), asked("POST", "/a", "multipart/form-data; boundary=Z", one("Y")), false},
		{"a boundary that is too long", asked("POST", "/a", "multipart/form-data; boundary="+strings.Repeat("X", 71), one(strings.Repeat("X", 71))), asked("POST", "/a", "multipart/form-data; boundary="+strings.Repeat("Y", 71), one(strings.Repeat("Y", 71))), false},
		{"it says that it is compressed", asked("POST", "/a", "multipart/form-data; boundary=X", one("X"), "Content-Encoding", "gzip"), asked("POST", "/a", "multipart/form-data; boundary=Y", one("Y"), "Content-Encoding", "gzip"), false},
		{"a part's head is none", asked("POST", "/a", "multipart/form-data; boundary=X", "--X\r\n?\r\n\r\n1\r\n--X--"), asked("POST", "/a", "multipart/form-data; boundary=Y", "--Y\r\n?\r\n\r\n1\r\n--Y--"), false},
		{"JSON", asked("POST", "/a", "application/json", `{"a":1}`), asked("POST", "/a", "application/json", `{"a": 1}`), false},
		{"FP-8 another path", asked("POST", "/a", "multipart/form-data; boundary=X", one("X")), asked("POST", "/b", "multipart/form-data; boundary=X", one("X")), false},
		{"FP-10 another query", asked("POST", "/a", "multipart/form-data; boundary=X", one("X")), asked("POST", "/a?q", "multipart/form-data; boundary=X", one("X")), false},
	} {
		t.Run(tt.name, func(t *testing.T) { wantRetry(t, idemhttp.Multipart(), tt.first, tt.second, tt.same) })
	}
}
