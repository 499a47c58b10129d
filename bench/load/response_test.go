package load

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func read(in string) (answer, error) {
	return readAnswer(bufio.NewReaderSize(strings.NewReader(in), maxLine))
}

func TestAnswersAreRead(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine)
	tests := []struct {
		name, in string
		want     answer
	}{
		{"length", ok + "Content-Length: 5\r\n\r\nhello", answer{status: 200}},
		{"no body", ok + "Content-Length: 0\r\n\r\n", answer{status: 200}},
		{"names in lower case", ok + "content-length:5\r\n\r\nhello", answer{status: 200}},
		{"body longer than the buffer", ok + "Content-Length: " + strconv.Itoa(len(long)) + "\r\n\r\n" + long, answer{status: 200}},
		{"other status", "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}", answer{status: 409}},
		{"no reason", "HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", answer{status: 503}},
		{"no reason and no space", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", answer{status: 503}},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", answer{status: 204}},
		{"not modified with length of another", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", answer{status: 304}},
		{"replayed", ok + "Idempotent-Replayed: true\r\nContent-Length: 0\r\n\r\n", answer{status: 200, replayed: true}},
		{"not replayed", ok + "Idempotent-Replayed: false\r\nContent-Length: 0\r\n\r\n", answer{status: 200}},
		{"explicit keep-alive", ok + "Connection: keep-alive\r\nContent-Length: 0\r\n\r\n", answer{status: 200}},
		{"chunks", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", answer{status: 200}},
		{"chunk with extension", ok + "Transfer-Encoding: Chunked\r\n\r\n5 ;a=b\r\nhello\r\n0\r\n\r\n", answer{status: 200}},
		{"chunks with trailer", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\nZ: 1\r\n\r\n", answer{status: 200}},
		{"chunk longer than the buffer", ok + "Transfer-Encoding: chunked\r\n\r\nc000\r\n" + long + "\r\n0\r\n\r\n", answer{status: 200}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("readAnswer(%.60q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
			}
		})
	}
}

// A refusal is an input and a part of the error it must give.
type refusal struct{ name, in, want string }

func (r refusal) check(t *testing.T) {
	got, err := read(r.in)
	if err == nil || !strings.Contains(err.Error(), r.want) {
		t.Errorf("readAnswer(%.60q) = %+v, %v; want an error with %q", r.in, got, err, r.want)
	}
}

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
)

func TestOtherHeadsAreErrors(t *testing.T) {
	for _, tt := range []refusal{
		{"nothing", "", "read head of answer: EOF"},
		{"half a status line", "HTTP/1.1 20", "read head of answer: EOF"},
		{"half a header", ok + "Content-Le", "read head of answer: unexpected EOF"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP/1.1"},
		{"other protocol", "SSH-2.0-x\r\n", "not HTTP/1.1"},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "not 100 to 599"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", "not 100 to 599"},
		{"status 600", "HTTP/1.1 600 Odd\r\n\r\n", "not 100 to 599"},
		{"status with sign", "HTTP/1.1 +20 OK\r\n\r\n", "not 100 to 599"},
		{"status in letters", "HTTP/1.1 abc OK\r\n\r\n", "not 100 to 599"},
		{"interim answer", "HTTP/1.1 103 Early Hints\r\n\r\n", "interim answer 103"},
		{"bare line feed", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "line does not end in CRLF"},
		{"line too long", ok + "X: " + strings.Repeat("x", maxLine) + "\r\n\r\n", "more than 16384 bytes"},
		{"too many lines", ok + strings.Repeat("X: y\r\n", maxLines) + "\r\n", "more than 128 header lines"},
		{"header without colon", ok + "what\r\n\r\n", "header line has no name"},
		{"header without name", ok + ": x\r\n\r\n", "header line has no name"},
		{"folded header", ok + "X: y\r\n z: 1\r\n\r\n", "header line has no name"},
		{"space before colon", ok + "Content-Length : 5\r\n\r\nhello", "header line has no name"},
		{"close", ok + "Connection: close\r\nContent-Length: 0\r\n\r\n", "want keep-alive"},
		{"close in a list", ok + "Connection: x, Close\r\nContent-Length: 0\r\n\r\n", "want keep-alive"},
		{"two answers", strings.Repeat(ok+"Content-Length: 0\r\n\r\n", 2), "nobody asked for"},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestOtherBodiesAreErrors(t *testing.T) {
	for _, tt := range []refusal{
		{"half a body", ok + "Content-Length: 5\r\n\r\nhel", "status 200: unexpected EOF"},
		{"half a chunk", chunked + "5\r\nhel", "status 200: unexpected EOF"},
		{"no last chunk", chunked + "5\r\nhello\r\n", "status 200: unexpected EOF"},
		{"half a trailer", chunked + "0\r\nX: y\r\n", "status 200: unexpected EOF"},
		{"until the connection ends", ok + "\r\nhello", "neither chunked nor of known length"},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "two Content-Length lines"},
		{"length with sign", ok + "Content-Length: +5\r\n\r\nhello", "not a number"},
		{"list of lengths", ok + "Content-Length: 5, 5\r\n\r\nhello", "not a number"},
		{"empty length", ok + "Content-Length:\r\n\r\n", "not a number"},
		{"length over the limit", ok + "Content-Length: 1073741825\r\n\r\n", "body has 1073741825 bytes"},
		{"length over all limits", ok + "Content-Length: 99999999999999999999\r\n\r\n", "not a number"},
		{"chunked and a length", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "both chunked and of known length"},
		{"other coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "not chunked alone"},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "not chunked alone"},
		{"chunk size missing", chunked + "\r\n", "not a hex number"},
		{"chunk size not hex", chunked + "5x\r\nhello\r\n", "not a hex number"},
		{"chunk size with sign", chunked + "-5\r\nhello\r\n", "not a hex number"},
		{"chunk size with prefix", chunked + "0x5\r\nhello\r\n", "not a hex number"},
		{"chunk over all limits", chunked + "ffffffffffffffffff\r\n", "not a hex number"},
		{"chunk over the limit", chunked + "40000001\r\n", "more than 1073741824 bytes"},
		{"chunk longer than its size", chunked + "5\r\nhello!\r\n0\r\n\r\n", "chunk is longer than its size"},
		{"too many trailers", chunked + "0\r\n" + strings.Repeat("X: y\r\n", maxLines) + "\r\n", "more than 128 trailer lines"},
		{"body longer than its length", ok + "Content-Length: 4\r\n\r\nhello", "nobody asked for"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// FuzzReadAnswer holds readAnswer against net/http: what both accept they must
// understand alike, and both must find its end in the same place.
func FuzzReadAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readAnswer(bufio.NewReaderSize(bytes.NewReader(in), maxLine))
		if err != nil || len(in) > maxLine {
			return // longer input leaves bytes that readAnswer has not seen yet
		}
		reader := bufio.NewReader(bytes.NewReader(in))
		response, err := http.ReadResponse(reader, &http.Request{Method: "POST"})
		if err != nil {
			return // stricter about lines that readAnswer does not look at
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return // stricter about trailers
		}
		isTrue := func(s string) bool { return strings.EqualFold(s, "true") }
		want := answer{
			status:   response.StatusCode,
			replayed: slices.ContainsFunc(response.Header.Values("Idempotent-Replayed"), isTrue),
		}
		if rest, _ := io.Copy(io.Discard, reader); got != want || rest > 0 || response.Close {
			t.Errorf("readAnswer(%q) = %+v; net/http has %+v, %d bytes left, close %t", in, got, want, rest, response.Close)
		}
	})
}
