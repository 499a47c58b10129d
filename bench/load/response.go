package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of an answer.
const (
	maxLine     = 16 << 10 // bytes of one line of the head; the size of the reader's buffer
	maxLines    = 128      // lines of a header or trailer section
	maxBodySize = 1 << 30
)

// An answer is what is kept of a response.
type answer struct {
	status   int
	replayed bool // it says Idempotent-Replayed: true
}

// A head is what the lines before the body say.
type head struct {
	answer
	length  int64 // -1 when not said
	chunked bool
	closing bool // the connection ends with this answer
}

var (
	errClosing = errors.New("server closes the connection after its answer, want keep-alive")
	errEarly   = errors.New("server sent bytes after its answer that nobody asked for")
)

// readAnswer consumes one response, which must be all that r has. It knows final
// HTTP/1.1 responses on a connection that stays open, with a Content-Length or in
// chunks. After an error the connection is of no more use.
func readAnswer(r *bufio.Reader) (answer, error) {
	h, err := readHead(r)
	if err != nil {
		return answer{}, fmt.Errorf("read head of answer: %w", err)
	}
	if err := skipBody(r, h); err != nil {
		return answer{}, fmt.Errorf("read body of answer with status %d: %w", h.status, noEOF(err))
	}
	if h.closing {
		return answer{}, errClosing
	}
	if r.Buffered() > 0 {
		return answer{}, errEarly
	}
	return h.answer, nil
}

func readHead(r *bufio.Reader) (head, error) {
	h := head{length: -1}
	line, err := readLine(r)
	if err != nil {
		return h, err // io.EOF: closed instead of answering
	}
	if h.status, err = parseStatusLine(line); err != nil {
		return h, err
	}
	for range maxLines {
		line, err := readLine(r)
		if err != nil {
			return h, noEOF(err)
		}
		if len(line) == 0 {
			return h, nil
		}
		if err := h.add(line); err != nil {
			return h, err
		}
	}
	return h, fmt.Errorf("more than %d header lines", maxLines)
}

// readLine consumes a line and returns it without its CRLF. The line is valid
// until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("line has more than %d bytes", maxLine)
	}
	if err != nil {
		return nil, err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, errors.New("line does not end in CRLF")
	}
	return line, nil
}

// parseStatusLine takes "HTTP/1.1 200 OK" apart (RFC 9112, 4).
func parseStatusLine(line []byte) (int, error) {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok {
		return 0, errors.New("status line is not HTTP/1.1")
	}
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	code, err := strconv.ParseUint(string(digits), 10, 16)
	if err != nil || len(digits) != 3 || code < 100 || code > 599 {
		return 0, errors.New("status code is not 100 to 599")
	}
	if code < 200 {
		return 0, fmt.Errorf("interim answer %d, want a final one", code)
	}
	return int(code), nil
}

// add takes in one header line. Those that tell neither the body's end nor the
// connection's nor a replay are not looked at.
func (h *head) add(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' {
		return errors.New("header line has no name")
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	switch {
	case is(name, "content-length"):
		return h.setLength(value)
	case is(name, "transfer-encoding"):
		if h.chunked || !is(value, "chunked") {
			return errors.New("transfer coding is not chunked alone")
		}
		h.chunked = true
	case is(name, "connection"):
		h.closing = h.closing || hasClose(value)
	case is(name, "idempotent-replayed"):
		h.replayed = h.replayed || is(value, "true")
	}
	return nil
}

func (h *head) setLength(value []byte) error {
	if h.length >= 0 {
		return errors.New("two Content-Length lines")
	}
	n, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil {
		return errors.New("Content-Length is not a number")
	}
	if n > maxBodySize {
		return fmt.Errorf("body has %d bytes, want at most %d", n, maxBodySize)
	}
	h.length = int64(n)
	return nil
}

// is compares an ASCII token regardless of case. Most lines differ in length.
func is(token []byte, lower string) bool {
	return len(token) == len(lower) && bytes.EqualFold(token, []byte(lower))
}

// hasClose reports whether a Connection field lists "close" (RFC 9110, 7.6.1).
func hasClose(list []byte) bool {
	for more := true; more; {
		var option []byte
		option, list, more = bytes.Cut(list, []byte(","))
		if is(bytes.Trim(option, " \t"), "close") {
			return true
		}
	}
	return false
}

// noEOF turns an end where something must follow into an error that says so.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
