package pebblestore

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/storetest"
)

// BenchmarkStore is on the disk of this machine, every write synced.
func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) retrysafe.Store {
		s, err := Open(b.TempDir(), nil)
		if err != nil {
			b.Fatalf("Open: %v", err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	})
}
