package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A logWriter stands between the log and who reads it. A reader that is slow, stuck or gone must not stop a
// request or a drain: what does not fit into the buffer is dropped, and counted.
type logWriter struct {
	lines   chan []byte
	closing chan struct{} // lines stays open: a request that was cut off may log after the end
	done    chan struct{}
	dropped atomic.Int64
}

// logLines bounds the lines that wait for their reader.
const logLines = 4096

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{lines: make(chan []byte, logLines), closing: make(chan struct{}), done: make(chan struct{})}
	go l.pass(w)
	return l
}

// pass writes what comes until Close, then what is left.
func (l *logWriter) pass(w io.Writer) {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			l.put(w, line)
		case <-l.closing:
			for range len(l.lines) {
				l.put(w, <-l.lines)
			}
			return
		}
	}
}

// put writes one line. An error of w loses the line only.
func (l *logWriter) put(w io.Writer, line []byte) {
	w.Write(line)
	if n := l.dropped.Swap(0); n > 0 {
		fmt.Fprintf(w, "retrysafe: %d log lines were dropped: nobody read them in time\n", n)
	}
}

// Write keeps a copy of p for the reader, or drops it. It never blocks and never fails.
func (l *logWriter) Write(p []byte) (int, error) {
	select {
	case l.lines <- append([]byte(nil), p...):
	default:
		l.dropped.Add(1)
	}
	return len(p), nil
}

// Close lets what is kept be written, for at most a second. What is written after it is lost.
func (l *logWriter) Close() error {
	close(l.closing)
	select {
	case <-l.done:
		return nil
	case <-time.After(time.Second):
		return fmt.Errorf("log: %d lines were not read in time", len(l.lines))
	}
}
