package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// What Get returns when it is asked for many entries at once, as the poller of all waiters asks.

func getMany(ctx context.Context, t *trial) {
	standing := map[retrysafe.ID]retrysafe.Entry{}
	var ids []retrysafe.ID
	for i := range 1000 {
		e := t.entry()
		if i%8 == 0 {
			standing[e.ID] = t.create(ctx, e)
		}
		ids = append(ids, e.ID)
	}
	for what, asked := range map[string][]retrysafe.ID{
		"no ID": nil, "one ID": ids[:1], "one absent ID": ids[1:2], "1,000 IDs": ids, "1,000 IDs backwards": reversed(ids),
		"one ID twice": {ids[0], ids[0]}, "absent and present ones twice": append(ids[:500:500], ids[:500]...),
	} {
		entries, now, err := t.store.Get(ctx, asked...)
		if err != nil {
			t.Fatalf("get of %s: %v", what, err)
		}
		if now.IsZero() {
			t.Errorf("get of %s: no clock", what)
		}
		if problem := wrongAnswer(asked, entries, standing); problem != "" {
			t.Errorf("get of %s: %s", what, problem)
		}
	}
}

func reversed(ids []retrysafe.ID) []retrysafe.ID {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// wrongAnswer says what is wrong with a Get. An ID that was asked twice may be answered once or twice.
func wrongAnswer(asked []retrysafe.ID, got []retrysafe.Entry, standing map[retrysafe.ID]retrysafe.Entry) string {
	times := map[retrysafe.ID]int{}
	for _, id := range asked {
		times[id]++
	}
	seen := map[retrysafe.ID]int{}
	for _, e := range got {
		if seen[e.ID]++; seen[e.ID] > times[e.ID] {
			return fmt.Sprintf("the entry %s came %d times, asked %d times", e.ID, seen[e.ID], times[e.ID])
		}
		if d := difference(e, standing[e.ID]); d != "" {
			return d
		}
	}
	for id := range times {
		if _, stands := standing[id]; stands && seen[id] == 0 {
			return fmt.Sprintf("the entry %s is missing", id)
		}
	}
	return ""
}
