package retrysafe_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
)

// An answer outlives the program that stored it (SV-7). A later program reads it as it was, or says that it cannot;
// it never sees fields left zero.

// codecOf returns the Codec of JSON, which T must allow.
func codecOf[T any](t testing.TB, version uint32) retrysafe.Codec[T] {
	t.Helper()
	c, err := retrysafe.JSON[T](version)
	if err != nil {
		t.Fatalf("JSON[%v](%d): %v", reflect.TypeFor[T](), version, err)
	}
	return c
}

// across encodes v with one codec and decodes it with another.
func across[A, B any](t *testing.T, from retrysafe.Codec[A], v A, to retrysafe.Codec[B]) (B, error) {
	t.Helper()
	b, err := from.Encode(v)
	if err != nil {
		t.Fatalf("Encode(%v): %v", v, err)
	}
	return to.Decode(b)
}

func TestChangedTypeIsAnotherVersion(t *testing.T) {
	type receipt struct{ ID, Note string }
	base := codecOf[receipt](t, 0)
	v := receipt{"ch_1", "thanks"}
	if got, err := across(t, base, v, base); err != nil || got != v {
		t.Errorf("the same type: %v, %v, want %v", got, err, v)
	}
	changed := map[string]func() (any, error){
		"field added": func() (any, error) {
			type receipt struct {
				ID, Note string
				Cents    int
			}
			return across(t, base, v, codecOf[receipt](t, 0))
		},
		"field gone": func() (any, error) {
			type receipt struct{ ID string }
			return across(t, base, v, codecOf[receipt](t, 0))
		},
		"field renamed": func() (any, error) {
			type receipt struct{ ID, Memo string }
			return across(t, base, v, codecOf[receipt](t, 0))
		},
		"name in JSON changed": func() (any, error) {
			type receipt struct {
				ID   string
				Note string `json:"memo"`
			}
			return across(t, base, v, codecOf[receipt](t, 0))
		},
		"type of a field changed": func() (any, error) {
			type receipt struct {
				ID   string
				Note *string
			}
			return across(t, base, v, codecOf[receipt](t, 0))
		},
		"a list of it":      func() (any, error) { return across(t, base, v, codecOf[[]receipt](t, 0)) },
		"something else":    func() (any, error) { return across(t, base, v, codecOf[string](t, 0)) },
		"a version given":   func() (any, error) { return across(t, base, v, codecOf[receipt](t, 1)) },
		"version not given": func() (any, error) { return across(t, codecOf[receipt](t, 1), v, base) },
		"another version given": func() (any, error) {
			return across(t, codecOf[receipt](t, 1), v, codecOf[receipt](t, 2))
		},
	}
	for name, decode := range changed {
		got, err := decode()
		wantErr(t, name, err, retrysafe.ErrUnreadable)
		if err != nil && !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v, want it to say that the version is another", name, err)
		}
		if !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s: value %v beside the error", name, got)
		}
	}
}

// TestChangeDeepInside a type is found too.
func TestChangeDeepInside(t *testing.T) {
	old, b := func() (string, []byte) {
		type line struct{ Cents int }
		type bill struct{ Lines map[string][]*line }
		b, err := codecOf[bill](t, 0).Encode(bill{map[string][]*line{"a": {{1}}}})
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		return reflect.TypeFor[bill]().String(), b
	}()
	type line struct{ Cents int64 }
	type bill struct{ Lines map[string][]*line }
	if now := reflect.TypeFor[bill]().String(); now != old {
		t.Fatalf("types are %s and %s, want them to differ in nothing but a field deep inside", old, now)
	}
	_, err := codecOf[bill](t, 0).Decode(b)
	wantErr(t, "Decode", err, retrysafe.ErrUnreadable)
}

// TestVersionOfOnesOwn: who gives a version answers for it, and may read with one type what another wrote.
func TestVersionOfOnesOwn(t *testing.T) {
	type before struct{ ID string }
	type after struct {
		ID   string
		Note string
	}
	got, err := across(t, codecOf[before](t, 3), before{"ch_1"}, codecOf[after](t, 3))
	if err != nil || got != (after{ID: "ch_1"}) {
		t.Errorf("Decode: %v, %v, want what was written", got, err)
	}
}

// TestRetryByALaterProgram: the retry is told, and nothing runs.
func TestRetryByALaterProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, nil)
		type before struct{ ID string }
		type after struct{ ID, Note string }
		_, _, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (before, error) { return before{"ch_1"}, nil })
		wantErr(t, "first", err, nil)
		v, r, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (after, error) {
			t.Error("it ran again")
			return after{}, nil
		})
		wantErr(t, "retry", err, retrysafe.ErrUnreadable)
		if v != (after{}) || r.Verdict != retrysafe.Replay {
			t.Errorf("retry: %v, %v; want no value, replay", v, r.Verdict)
		}
		// The answer is sound: the earlier program still reads it.
		old, _, err := retrysafe.Do(t.Context(), l.Executor, order, payload, nil, func(context.Context) (before, error) { return before{}, nil })
		if err != nil || old.ID != "ch_1" {
			t.Errorf("retry by the earlier program: %v, %v", old, err)
		}
	})
}

// lineCodec is a Codec of a user's own, with a flaw or none.
type lineCodec struct{ encode, decode error }

func (c lineCodec) Encode(n int) ([]byte, error) { return fmt.Appendf(nil, "line %d", n), c.encode }

func (c lineCodec) Decode(b []byte) (n int, err error) {
	if c.decode != nil {
		return 0, c.decode
	}
	_, err = fmt.Sscanf(string(b), "line %d", &n)
	return n, err
}

func TestCodecOfOnesOwn(t *testing.T) {
	tests := []struct {
		name        string
		codec       lineCodec
		first, next error
	}{
		{"sound", lineCodec{}, nil, nil},
		{"cannot encode", lineCodec{encode: errBlip}, nil, retrysafe.ErrAnswerNotKept},
		{"cannot decode", lineCodec{decode: errBlip}, errBlip, errBlip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil)
				for i, want := range []error{tt.first, tt.next} {
					n, r, err := retrysafe.Do(t.Context(), l.Executor, order, payload, tt.codec, func(context.Context) (int, error) {
						if i > 0 {
							t.Error("it ran again")
						}
						return 7, nil
					})
					wantErr(t, fmt.Sprint("attempt ", i+1), err, want)
					if err == nil && n != 7 || r.State != retrysafe.Completed {
						t.Errorf("attempt %d: %d, %v; want 7, completed", i+1, n, r.State)
					}
				}
			})
		})
	}
}

func TestDamagedAnswer(t *testing.T) {
	c := codecOf[map[string]int](t, 0)
	sound, err := c.Encode(map[string]int{"a": 1})
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	for i := range sound {
		bad := append([]byte(nil), sound...)
		bad[i] ^= 1
		if v, err := c.Decode(bad); err == nil {
			t.Errorf("Decode with byte %d changed: %v, want an error", i, v)
		} else {
			wantErr(t, "Decode", err, retrysafe.ErrUnreadable)
		}
		if v, err := c.Decode(sound[:i]); err == nil {
			t.Errorf("Decode of %d bytes: %v, want an error", i, v)
		}
	}
	if v, err := c.Decode(append(sound[:len(sound):len(sound)], ' ')); err == nil {
		t.Errorf("Decode with a byte more: %v, want an error", v)
	}
}

// FuzzJSONDecode: no bytes make it panic, and what it accepts is a value that it brings back. The fuzzer cannot
// guess a checksum, so the version and the sum are put in front of its text.
func FuzzJSONDecode(f *testing.F) {
	c := codecOf[tree](f, 1)
	for _, v := range []tree{{}, {1.5, []tree{{Children: []tree{}}}, map[string][]byte{"a": nil, "b": {0}}}} {
		b, err := c.Encode(v)
		if err != nil {
			f.Fatalf("Encode: %v", err)
		}
		f.Add(b[jsonHead:])
	}
	f.Add([]byte(`{"Value":1e999}`))
	f.Add([]byte(`{"value":1,"VALUE":2,"Children":[null],"other":[]} `))
	f.Fuzz(func(t *testing.T, text []byte) {
		c.Decode(text)
		v, err := c.Decode(sealedJSON(text))
		if err != nil {
			return
		}
		b, err := c.Encode(v)
		if err != nil {
			return // text that is not UTF-8 is accepted by encoding/json and refused by us
		}
		again, err := c.Decode(b)
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%#v came back as %#v, %v", v, again, err)
		}
	})
}

// jsonHead is the bytes before the text: format, version, checksum.
const jsonHead = 1 + 8 + 4

func sealedJSON(text []byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{1}, 1)
	return append(binary.BigEndian.AppendUint32(b, retrysafe.Checksum(text)), text...)
}
