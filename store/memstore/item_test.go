package memstore

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/retrysafe/retrysafe"
)

// TestItemsComeBack: what is kept comes back to the field, whatever its parts hold and wherever they meet.
func TestItemsComeBack(t *testing.T) {
	stamp := time.UnixMicro(1_700_000_000_000_001)
	full := entryIn(9)
	full.Fingerprint, full.State, full.Epoch = retrysafe.Fingerprint{0: 1, 31: 2}, retrysafe.UnknownAnswered, stamp.UnixMicro()
	full.Display, full.Due, full.TTL, full.Body, full.Stamp = "order-7", 24*time.Hour, 744*time.Hour, []byte("answer"), stamp
	tests := []struct {
		name   string
		change func(*retrysafe.Entry)
	}{
		{"all fields", func(*retrysafe.Entry) {}},
		{"nothing", func(e *retrysafe.Entry) { *e = retrysafe.Entry{Stamp: time.UnixMicro(0)} }},
		{"no scope", func(e *retrysafe.Entry) { e.Scope = "" }},
		{"no display", func(e *retrysafe.Entry) { e.Display = "" }},
		{"no body", func(e *retrysafe.Entry) { e.Body = nil }},
		{"body alone", func(e *retrysafe.Entry) { e.Scope, e.Display = "", "" }},
		{"text that is no text", func(e *retrysafe.Entry) { e.Scope, e.Display = "\x00\xff", "\xf0\x28\x8c" }},
		{"long texts", func(e *retrysafe.Entry) { e.Scope, e.Display = strings.Repeat("s", 300), strings.Repeat("d", 70_000) }},
		{"greatest numbers", func(e *retrysafe.Entry) {
			e.Epoch, e.Due, e.TTL, e.State = math.MaxInt64, math.MaxInt64, math.MaxInt64, 255
		}},
		{"least numbers", func(e *retrysafe.Entry) {
			e.Epoch, e.Due, e.TTL, e.Stamp = math.MinInt64, math.MinInt64, -1, time.UnixMicro(-1)
		}},
		{"times that are no whole microseconds", func(e *retrysafe.Entry) { e.Due, e.TTL = 1, 999 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := full
			tt.change(&e)
			it := itemOf(&e)
			got := it.entry(e.ID)
			got.Body, e.Body = append([]byte{}, got.Body...), append([]byte{}, e.Body...)
			if !reflect.DeepEqual(got, e) {
				t.Errorf("entry comes back as\n%+v, want\n%+v", got, e)
			}
			if it.rev() != e.Rev || it.state() != e.State || it.scope() != e.Scope || it.display() != e.Display || it.due() != e.Due || it.ttl() != e.TTL || !it.stamp().Equal(e.Stamp) {
				t.Errorf("fields of %+v: %v %v %q %q %v %v %v", e, it.rev(), it.state(), it.scope(), it.display(), it.due(), it.ttl(), it.stamp())
			}
			if len(it) != itemLen(&e) {
				t.Errorf("item has %d bytes, itemLen says %d", len(it), itemLen(&e))
			}
		})
	}
}

// TestItemsShareNoMemory: a key cut from a large request must not keep it, and whoever is given a body owns it.
func TestItemsShareNoMemory(t *testing.T) {
	e := entryIn(0)
	request := strings.Repeat("x", 1<<10)
	e.Scope, e.Display, e.Body = request[:3], request[3:9], []byte("body")
	it := itemOf(&e)
	begin := uintptr(unsafe.Pointer(unsafe.StringData(request)))
	for _, text := range []string{it.scope(), it.display()} {
		if at := uintptr(unsafe.Pointer(unsafe.StringData(text))); at >= begin && at < begin+uintptr(len(request)) {
			t.Errorf("%q is kept within the request that it was cut from", text)
		}
	}
	copy(e.Body, "????")
	copy(it.entry(e.ID).Body, "!!!!")
	if got := it.entry(e.ID).Body; !bytes.Equal(got, []byte("body")) {
		t.Errorf("body is kept as %q, want %q", got, "body")
	}
}
