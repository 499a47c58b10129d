package idemhttp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// What canonical JSON costs: at most twice what encoding/json takes to check the same body.
//
//	go test -run '^$' -bench 'CanonicalJSON|JSONValid' -benchmem -count 10 ./idemhttp

// eachSize runs f with orders of 200 B, 4 KiB and 256 KiB.
func eachSize(b *testing.B, f func(b *testing.B, body []byte)) {
	for _, size := range []int{200, 4 << 10, 256 << 10} {
		body := orderOf(size)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			f(b, body)
		})
	}
}

// orderOf is an order of about so many bytes, as programs write them: members out of order, an escape.
func orderOf(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"amount":1000,"currency":"JPY","source":"tok_visa","metadata":{"order":"6735","customer":"c_99","note":"night train \u00e9"},"items":[`)
	for i := 0; i == 0 || b.Len() < size-60; i++ {
		fmt.Fprintf(&b, `{"sku":"A-%d","quantity":%d,"price":%d.50,"gift":false},`, i, i%7+1, i*3)
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + `]}`)
}

func BenchmarkJSONValid(b *testing.B) {
	eachSize(b, func(b *testing.B, body []byte) {
		for b.Loop() {
			if !json.Valid(body) {
				b.Fatal("not valid")
			}
		}
	})
}

func BenchmarkCanonicalJSON(b *testing.B) {
	eachSize(b, func(b *testing.B, body []byte) { benchFingerprint(b, mode(b, "json", nil, nil), body) })
}

func BenchmarkCanonicalJSONExclude(b *testing.B) {
	eachSize(b, func(b *testing.B, body []byte) {
		benchFingerprint(b, mode(b, "json", []string{"/metadata/note"}, nil), body)
	})
}

func BenchmarkSelectedJSON(b *testing.B) {
	eachSize(b, func(b *testing.B, body []byte) {
		benchFingerprint(b, mode(b, "selected", nil, []string{"/amount", "/currency"}), body)
	})
}

func benchFingerprint(b *testing.B, f idemhttp.FingerprintFunc, body []byte) {
	r := request("POST", "/charges", "", "Content-Type", "application/json")
	for b.Loop() {
		if _, err := f(r, body); err != nil {
			b.Fatal(err)
		}
	}
}
