package retrysafe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
)

// A Codec turns values of T into bytes and back, such that Decode(Encode(v)) equals v.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(b []byte) (T, error)
}

// Do is [Executor.Do] for an operation that returns a T. The first caller gets the decoded answer too, so
// that first and replay are equal. A nil codec is [JSON]. A value that cannot be encoded is returned to the
// first caller, and marked as not kept: retries get [ErrAnswerNotKept], and the operation never runs again.
func Do[T any](ctx context.Context, e *Executor, key Key, fp Fingerprint, codec Codec[T], op func(ctx context.Context) (T, error)) (v T, r Result, err error) {
	if codec == nil {
		if codec, err = JSON[T](0); err != nil {
			return v, Result{}, err
		}
	}
	ran, encoded := false, false
	var failure error
	r, err = e.Execute(ctx, Request{Key: key, Fingerprint: fp, Wait: e.o.Wait}, func(ctx context.Context) Outcome {
		v, failure = op(ctx)
		ran = true
		if didNothing(failure) {
			return Outcome{State: Free}
		}
		if failure != nil {
			return Outcome{Reason: "the operation returned an error"}
		}
		b, err := codec.Encode(v)
		if err != nil {
			e.o.Logger.Error("answer cannot be encoded, it is not kept", "type", fmt.Sprintf("%T", err)) // its text may hold the answer
			return Outcome{State: Completed, NotKept: true}
		}
		encoded = true
		return Outcome{State: Completed, Answer: b}
	})
	if err = errors.Join(inner(failure), err); err == nil {
		err = r.err()
	}
	if ran && !encoded || !ran && err != nil {
		return v, r, err
	}
	decoded, derr := codec.Decode(r.Answer)
	if derr != nil {
		return v, r, errors.Join(err, derr)
	}
	return decoded, r, err
}

// jsonCodec is the Codec of JSON: version, checksum, encoding/json.
type jsonCodec[T any] struct{ version uint64 }

// JSON returns a Codec by encoding/json with a version and a checksum. A value stored under another version
// is an error, never a value with fields left zero. version 0 stands for the shape of T: any change of a
// field's name or type changes it. It refuses types whose values JSON does not bring back: interfaces,
// unexported fields, channels, functions, complex numbers.
func JSON[T any](version uint32) (Codec[T], error) {
	t := reflect.TypeFor[T]()
	if err := keepable(t, t.String(), map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	if version != 0 {
		return jsonCodec[T]{uint64(version)}, nil
	}
	var shape bytes.Buffer
	describe(&shape, t, map[reflect.Type]bool{})
	sum := sha256.Sum256(shape.Bytes())
	return jsonCodec[T]{binary.BigEndian.Uint64(sum[:]) | 1<<63}, nil // never a version that a person gives
}

const jsonFormat = 1

func (c jsonCodec[T]) Encode(v T) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	if replaced(text) {
		return nil, fmt.Errorf("encode answer: %w: a string of it is not UTF-8, which JSON does not bring back", ErrInvalid)
	}
	b := binary.BigEndian.AppendUint64([]byte{jsonFormat}, c.version)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(text, castagnoli))
	return append(b, text...), nil
}

func (c jsonCodec[T]) Decode(b []byte) (v T, err error) {
	const head = 1 + 8 + 4
	if len(b) < head || b[0] != jsonFormat {
		return v, fmt.Errorf("%w: the answer is of an unknown format", ErrUnreadable)
	}
	if binary.BigEndian.Uint64(b[1:]) != c.version {
		return v, fmt.Errorf("%w: the answer was stored as another version of %v: give JSON a version, or a Codec that reads both", ErrUnreadable, reflect.TypeFor[T]())
	}
	if binary.BigEndian.Uint32(b[9:]) != crc32.Checksum(b[head:], castagnoli) {
		return v, fmt.Errorf("%w: the answer has a bad checksum", ErrUnreadable)
	}
	if err := json.Unmarshal(b[head:], &v); err != nil {
		return v, fmt.Errorf("%w: the answer does not decode: %w", ErrUnreadable, err)
	}
	return v, nil
}

// replaced tells whether encoding/json put its escape for a broken character into text. It writes a U+FFFD
// that was really there as it is.
func replaced(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(text[i+1:], []byte("ufffd")) {
			return true
		}
		i++ // what follows a backslash is escaped, another backslash too
	}
	return false
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// selfCoded tells whether t says itself how it is written and read.
func selfCoded(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) && p.Implements(jsonUnmarshaler) || p.Implements(textMarshaler) && p.Implements(textUnmarshaler)
}

// keepable refuses types whose values would come back from JSON as something else, naming the part at fault.
func keepable(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	if seen[t] || selfCoded(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		if k := t.Elem().Kind(); !selfCoded(t.Elem()) && (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) {
			return notKeepable(path, "is a pointer to what may be nil, and would come back nil itself")
		}
		return keepable(t.Elem(), path+"[]", seen)
	case reflect.Slice, reflect.Array:
		return keepable(t.Elem(), path+"[]", seen)
	case reflect.Map:
		if k := t.Key(); !selfCoded(k) && k.Kind() != reflect.String && !(k.Kind() >= reflect.Int && k.Kind() <= reflect.Uint64) {
			return notKeepable(path+" key", "is a type that JSON cannot write there")
		}
		return keepable(t.Elem(), path+"[]", seen)
	case reflect.Struct:
		return keepableStruct(t, path, seen, map[string]bool{})
	case reflect.Interface, reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return notKeepable(path, "is a "+t.String()+", which JSON does not bring back")
	}
	return nil
}

func notKeepable(path, why string) error {
	return fmt.Errorf("%w: %s %s: give a Codec", ErrInvalid, path, why)
}

// keepableStruct checks the fields of t. names are those used so far on its level of JSON, where embedded
// structs put theirs too: of two equal ones encoding/json drops one or both without a word.
func keepableStruct(t reflect.Type, path string, seen map[reflect.Type]bool, names map[string]bool) error {
	for f := range fields(t) {
		at := path + "." + f.Name
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct && !selfCoded(f.Type)
		kind := f.Type.Kind()
		switch {
		case !f.IsExported() && !embedded, name == "-" && options == "":
			return notKeepable(at, "would be lost in JSON")
		case (kind == reflect.Slice || kind == reflect.Map) && strings.Contains(options, "omitempty"):
			return notKeepable(at, "is omitted when empty, and would come back nil")
		case embedded:
			if err := keepableStruct(f.Type, at, seen, names); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if names[name] {
			return notKeepable(at, "shares its JSON name with another field")
		}
		names[name] = true
		if err := keepable(f.Type, at, seen); err != nil {
			return err
		}
	}
	return nil
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// describe writes the shape of t: names, tags and kinds, down to the leaves.
func describe(b *bytes.Buffer, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(b, "%v %v;", t.Kind(), t)
	if seen[t] || selfCoded(t) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		describe(b, t.Elem(), seen)
	case reflect.Map:
		describe(b, t.Key(), seen)
		describe(b, t.Elem(), seen)
	case reflect.Struct:
		for f := range fields(t) {
			fmt.Fprintf(b, "%s %q ", f.Name, f.Tag)
			describe(b, f.Type, seen)
		}
	}
}
