package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrysafe/retrysafe"
)

// A row is believed only when it is what was written, to the bit.

func anyRow(t *rapid.T) row {
	micros := rapid.Int64Range(-1<<52, 1<<52)
	length := func(label string) time.Duration { return time.Duration(micros.Draw(t, label)) * time.Microsecond }
	r := row{Entry: retrysafe.Entry{
		State:   retrysafe.State(rapid.Byte().Draw(t, "state")),
		Epoch:   rapid.Int64().Draw(t, "epoch"),
		Due:     length("due"),
		TTL:     length("ttl"),
		Stamp:   time.UnixMicro(micros.Draw(t, "stamp")),
		Scope:   rapid.String().Draw(t, "scope"),
		Display: string(rapid.SliceOf(rapid.Byte()).Draw(t, "display")),
		Body:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
	}}
	for _, field := range [][]byte{r.ID[:], r.Rev[:], r.Fingerprint[:], r.boot[:]} {
		copy(field, rapid.SliceOfN(rapid.Byte(), len(field), len(field)).Draw(t, "bytes"))
	}
	return r
}

func TestRowsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRow(t)
		b := want.encode()
		got, err := decode(want.ID, b)
		if err != nil || got.boot != want.boot || !got.Stamp.Equal(want.Stamp) {
			t.Fatalf("decode: boot %x, stamp %v, %v; want %x, %v", got.boot, got.Stamp, err, want.boot, want.Stamp)
		}
		if diff := differs(got.Entry, want.Entry); diff != "" {
			t.Fatalf("decode of encode (-want +got):\n%s", diff)
		}
		clear(b)
		if !bytes.Equal(got.Body, want.Body) {
			t.Fatalf("the row shares its memory with the bytes it was read from")
		}
	})
}

// TestEveryFlippedBitIsFound flips each bit of a row, and of the ID that it stands under.
func TestEveryFlippedBitIsFound(t *testing.T) {
	r := row{Entry: numbered(idOf(1), 3, retrysafe.Completed), boot: newBoot()}
	r.Stamp = time.Now()
	b := r.encode()
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if got, err := decode(r.ID, b); !errors.Is(err, retrysafe.ErrUnreadable) || got.State != retrysafe.Absent {
			t.Fatalf("decode with bit %d flipped: state %v, %v; want ErrUnreadable, and nothing believed", i, got.State, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for i := range 8 * len(r.ID) {
		id := r.ID
		id[i/8] ^= 1 << (i % 8)
		if _, err := decode(id, b); !errors.Is(err, retrysafe.ErrUnreadable) {
			t.Fatalf("decode under an ID with bit %d flipped: %v, want ErrUnreadable", i, err)
		}
	}
	for n := range b {
		if _, err := decode(r.ID, b[:n]); !errors.Is(err, retrysafe.ErrUnreadable) {
			t.Fatalf("decode of the first %d of %d bytes: %v, want ErrUnreadable", n, len(b), err)
		}
	}
}

// FuzzDecode reads whatever bytes: it never panics, and what it reads it writes and reads again. The checksum is put
// right, or nothing would come past it.
func FuzzDecode(f *testing.F) {
	r := row{Entry: numbered(idOf(1), 3, retrysafe.Completed)}
	f.Add(r.encode())
	f.Add(row{}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		id := idOf(1)
		if _, err := decode(id, b); err != nil && !errors.Is(err, retrysafe.ErrUnreadable) {
			t.Fatalf("decode: %v, want ErrUnreadable", err)
		}
		if len(b) < 5 {
			return
		}
		b[0] = rowVersion
		binary.BigEndian.PutUint32(b[1:], row{Entry: retrysafe.Entry{ID: id}}.sum(b[5:]))
		got, err := decode(id, b)
		if err != nil {
			return
		}
		again, err := decode(id, got.encode())
		if err != nil || again.boot != got.boot || !again.Stamp.Equal(got.Stamp) || differs(again.Entry, got.Entry) != "" {
			t.Fatalf("decode of what was decoded and encoded: %+v, %v; want %+v", again, err, got)
		}
	})
}
