package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// TestEachGivesWayAtItsOwnTime: the store looks for room when the memory of one entry has ended. Another one,
// whose answer may go but whose key may not, stays then, and gives way in its turn.
func TestEachGivesWayAtItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(&memstore.Options{MaxEntries: 2})
		sooner, later := entry(0, 10), entry(1, 10)
		sooner.State, sooner.Due, sooner.TTL = retrysafe.Tombstone, time.Hour, time.Hour
		later.State, later.Due, later.TTL = retrysafe.Completed, time.Minute, 2*time.Hour
		create(t, s, sooner)
		create(t, s, later)

		<-time.After(time.Hour)
		inPlace := entry(2, 0)
		create(t, s, inPlace)
		wantStanding(t, s, 0, sooner.ID)
		wantStanding(t, s, 2, later.ID, inPlace.ID)
		wantFull(t, s, entry(3, 0))

		<-time.After(time.Hour)
		create(t, s, entry(3, 0))
		wantStanding(t, s, 0, later.ID)
		wantStanding(t, s, 1, inPlace.ID)
	})
}
