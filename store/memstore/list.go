package memstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// pageBytes ends a page early, so that large answers do not pile up in one.
const pageBytes = 4 << 20

// List returns entries shard by shard, within a shard by ID. Its cursor is the ID of the entry listed last.
func (s *Store) List(ctx context.Context, q retrysafe.Query) (retrysafe.Page, error) {
	last, err := parseCursor(q.Cursor)
	if err != nil {
		return retrysafe.Page{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 100
	}
	first := 0
	if last != nil {
		first = int(last[0] % shards)
	}
	var page retrysafe.Page
	for i := first; i < shards; i++ {
		if err := ctx.Err(); err != nil {
			return retrysafe.Page{}, fmt.Errorf("memstore: list: %w", err)
		}
		if s.shards[i].list(&page, q, last, limit) {
			return page, nil
		}
		last = nil
	}
	page.Next = ""
	return page, nil
}

// list appends to page what q selects from the shard behind last. It returns true when the page is full, with
// page.Next set.
func (sh *shard) list(page *retrysafe.Page, q retrysafe.Query, last *retrysafe.ID, limit int) (full bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if now := sh.now(); now.After(page.Now) {
		page.Now = now // the clock of a page is behind no stamp on it
	}
	var found []retrysafe.ID
	for id, e := range sh.entries {
		if (last == nil || bytes.Compare(id[:], last[:]) > 0) && selects(q, e, page) {
			found = append(found, id)
		}
	}
	slices.SortFunc(found, func(a, b retrysafe.ID) int { return bytes.Compare(a[:], b[:]) })
	room := 0
	for _, e := range page.Entries {
		room += len(e.Body)
	}
	for _, id := range found {
		if len(page.Entries) >= limit || room > pageBytes {
			return true
		}
		standing := sh.entries[id]
		e := standing.entry(id)
		page.Entries = append(page.Entries, e)
		page.Next = id.String()
		room += len(e.Body)
	}
	return false
}

func selects(q retrysafe.Query, e item, page *retrysafe.Page) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, e.state())) &&
		(q.Scope == "" || e.scope() == q.Scope) &&
		strings.HasPrefix(e.display(), q.Prefix) &&
		(!q.Due || page.Now.Sub(e.stamp()) >= e.due())
}

func parseCursor(s string) (*retrysafe.ID, error) {
	if s == "" {
		return nil, nil
	}
	var id retrysafe.ID
	if b, err := hex.DecodeString(s); err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
		return nil, fmt.Errorf("memstore: list: %w: the cursor is not one of ours", retrysafe.ErrInvalid)
	}
	return &id, nil
}
