package pebblestore

import (
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/storetest"
)

// TestStore is the suite on a disk that loses at a crash what was not synced.
func TestStore(t *testing.T) {
	var disks sync.Map // of each store
	open := func(t *testing.T, d *disk) retrysafe.Store {
		s := openOn(t, d, nil)
		disks.Store(retrysafe.Store(s), d)
		return s
	}
	diskOf := func(s retrysafe.Store) *disk {
		d, _ := disks.Load(s)
		return d.(*disk)
	}
	storetest.Run(t, func(t *testing.T) retrysafe.Store { return open(t, newDisk()) }, &storetest.Options{
		Load: 2000,
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			return open(t, diskOf(s).cut(0, 0))
		},
		StallSync: func(_ *testing.T, s retrysafe.Store) func() { return diskOf(s).stallSyncs() },
	})
}

// TestStoreOnTheRealDisk is the suite on the disk of this machine.
func TestStoreOnTheRealDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) retrysafe.Store {
		s, err := Open(t.TempDir(), &Options{Reserve: 1})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}, &storetest.Options{Load: 100}) // one write after the other, each synced
}
