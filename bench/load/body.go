package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// skipBody consumes the body that h announces (RFC 9112, 6.3).
func skipBody(r *bufio.Reader, h head) error {
	if h.chunked && h.length >= 0 {
		return errors.New("both chunked and of known length") // 6.1: ought to be handled as an error
	}
	if h.status == 204 || h.status == 304 {
		return nil // no body, whatever the header says
	}
	if h.chunked {
		return skipChunks(r)
	}
	if h.length < 0 {
		return errors.New("neither chunked nor of known length")
	}
	_, err := r.Discard(int(h.length))
	return err
}

// skipChunks consumes chunks, the last one, and the trailer section (RFC 9112, 7.1).
func skipChunks(r *bufio.Reader) error {
	var total int64
	for {
		size, err := readChunkSize(r)
		if err != nil {
			return err
		}
		if size == 0 {
			return skipTrailer(r)
		}
		if total += size; total > maxBodySize {
			return fmt.Errorf("more than %d bytes in chunks", maxBodySize)
		}
		if _, err := r.Discard(int(size)); err != nil {
			return err
		}
		end, err := readLine(r)
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return errors.New("chunk is longer than its size")
		}
	}
}

// readChunkSize consumes the line before a chunk; extensions in it are ignored.
func readChunkSize(r *bufio.Reader) (int64, error) {
	line, err := readLine(r)
	if err != nil {
		return 0, err
	}
	digits, _, _ := bytes.Cut(line, []byte(";"))
	size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 31)
	if err != nil {
		return 0, errors.New("chunk size is not a hex number below 2 GiB")
	}
	return int64(size), nil
}

func skipTrailer(r *bufio.Reader) error {
	for range maxLines {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
	}
	return fmt.Errorf("more than %d trailer lines", maxLines)
}
