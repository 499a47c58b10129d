package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// stuck is a reader of the log that takes nothing until it is let.
type stuck struct {
	let chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.let
	return s.Buffer.Write(p)
}

// gone is a reader of the log that went away.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestLogReaderIsStuck(t *testing.T) {
	s := &stuck{let: make(chan struct{})}
	l := newLogWriter(s)
	for range logLines + 10 {
		l.Write([]byte("line\n")) // never blocks
	}
	close(s.let)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(s.String(), "line\n"); got < logLines {
		t.Errorf("%d lines were read, want at least the %d that fit", got, logLines)
	}
	if !strings.Contains(s.String(), "log lines were dropped") {
		t.Error("the log does not say that lines were dropped")
	}
}

func TestLogReaderIsGone(t *testing.T) {
	l := newLogWriter(gone{})
	for range 10 {
		if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A request that was cut off by the end of the gateway may still log: that must not end the process.
func TestLogAfterTheEnd(t *testing.T) {
	var b bytes.Buffer
	l := newLogWriter(&b)
	l.Write([]byte("before\n"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range logLines + 1 {
		if n, err := l.Write([]byte("after\n")); n != 6 || err != nil {
			t.Fatalf("write after the end: got %d, %v", n, err)
		}
	}
	if got, want := b.String(), "before\n"; got != want {
		t.Errorf("what was read: got %q, want %q", got, want)
	}
}
