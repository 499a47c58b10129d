package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What an entry holds comes back as it was written, by whatever way it comes.

// carries puts e through every way in and out of the store. q selects it and nothing else.
func (t *trial) carries(ctx context.Context, what string, e retrysafe.Entry, q retrysafe.Query) {
	t.Helper()
	standing := t.create(ctx, e)
	t.stands(ctx, standing)
	plain := t.swap(ctx, standing.Rev, t.next(standing))
	e.Rev = retrysafe.NewRev()
	standing = t.swap(ctx, plain.Rev, e)
	t.stands(ctx, standing)
	if t.list == nil {
		return
	}
	listed := t.walk(ctx, q, nil)
	if len(listed) != 1 {
		t.Fatalf("%s: list: %d entries, want 1", what, len(listed))
	}
	if d := difference(listed[0], standing); d != "" {
		t.Fatalf("%s: list: %s", what, d)
	}
}

// bodies are what bytes do to a store.
func bodies(longest int) map[string][]byte {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	all := map[string][]byte{
		"no body": nil, "empty body": {}, "one byte": {0}, "every byte": every,
		"trailing blanks and zeros": []byte("a \x00 \x00"), "not UTF-8": {0xff, 0xfe, 0xc0, 0x80}, "longest body": randomBytes(longest),
	}
	for _, n := range []int{255, 256, 4095, 4096, 65535, 65536} {
		all[fmt.Sprintf("%d bytes", n)] = randomBytes(min(n, longest))
	}
	return all
}

func bodiesComeBack(ctx context.Context, t *trial) {
	for what, body := range bodies(t.o.MaxBody) {
		e := t.entry()
		e.Body = body
		t.carries(ctx, what, e, retrysafe.Query{Scope: e.Scope})
	}
}

// texts are what people's text does to a store: no control characters, at most 256 bytes.
var texts = []string{
	"", " ", "a", "A", "a ", " a", "a  ", "á", "a\u0301", "à", "Å", "\u212b", "ß", "ss", "SS", "ſ", "K", "\u212a", "i", "I", "ı", "İ",
	"%", "_", "%%", "a%", "a_", `\`, `\\`, `a\`, `\%`, "'", "''", `"`, "`", "--", ";", "/*", "$1", "?", ":a", "{}", "[]", "*", "null", "NULL",
	"0", "00", "1e3", "true", "\u00a0", "\u3000", "\u200b", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\U0001f980", "👩‍👩‍👧", "עברית", "日本語", "ｱ", "ア",
	strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("🦀", 64), strings.Repeat("ß", 128),
}

func scopesComeBack(ctx context.Context, t *trial) {
	for _, text := range texts {
		e := t.entry()
		e.Scope = text
		t.carries(ctx, fmt.Sprintf("scope %+q", text), e, retrysafe.Query{Prefix: e.Display})
	}
}

func displaysComeBack(ctx context.Context, t *trial) {
	for _, text := range texts {
		e := t.entry()
		e.Display = text
		t.carries(ctx, fmt.Sprintf("display %+q", text), e, retrysafe.Query{Scope: e.Scope})
	}
}

func numbersComeBack(ctx context.Context, t *trial) {
	carries := func(what string, change func(*retrysafe.Entry)) {
		t.Helper()
		e := t.entry()
		change(&e)
		t.carries(ctx, what, e, retrysafe.Query{Scope: e.Scope})
	}
	for s := retrysafe.Free; s <= retrysafe.Reserved; s++ {
		carries("state "+s.String(), func(e *retrysafe.Entry) { e.State = s })
	}
	for _, n := range []int64{0, 1, -1, math.MaxInt32 + 1, 1<<53 + 1, math.MinInt64, math.MaxInt64} {
		carries(fmt.Sprintf("epoch %d", n), func(e *retrysafe.Entry) { e.Epoch = n })
	}
	const decade = 10 * 365 * 24 * time.Hour
	for _, d := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Second + time.Microsecond, decade, decade + time.Microsecond} {
		carries("due "+d.String(), func(e *retrysafe.Entry) { e.Due = d })
		carries("memory of "+d.String(), func(e *retrysafe.Entry) { e.TTL = d })
	}
	for _, b := range []byte{0x00, 0x20, 0xff} {
		carries("fingerprint of one byte", func(e *retrysafe.Entry) { copy(e.Fingerprint[:], bytes.Repeat([]byte{b}, 32)) })
		carries("revision of one byte", func(e *retrysafe.Entry) { copy(e.Rev[:], bytes.Repeat([]byte{b}, 15)) })
	}
}

// refusedWhole looks at what a refused caller is shown: it decides by that as by a Get.
func refusedWhole(ctx context.Context, t *trial) {
	shown := func(e retrysafe.Entry) {
		t.Helper()
		standing := t.create(ctx, e)
		other := t.next(e)
		rep, err := t.peer.Create(ctx, other)
		t.refused("create over another's entry", rep, err, standing)
		rep, err = t.store.Swap(ctx, other.Rev, other)
		t.refused("swap over another Rev", rep, err, standing)
		rep, err = t.store.Delete(ctx, e.ID, other.Rev)
		t.refused("delete of another Rev", rep, err, standing)
	}
	for _, body := range bodies(t.o.MaxBody) {
		e := t.entry()
		e.Body = body
		shown(e)
	}
	for _, text := range texts {
		e := t.entry()
		e.Scope, e.Display = text, text
		shown(e)
	}
}

// idsAreApart creates entries whose IDs a careless key column takes for one another.
func idsAreApart(ctx context.Context, t *trial) {
	base := t.entry().ID
	ids := []retrysafe.ID{base}
	for bit := range 8 * len(base) {
		near := base
		near[bit/8] ^= 1 << (bit % 8)
		ids = append(ids, near)
	}
	for _, last := range []byte{0x00, 0x20} { // cut off, or padded
		for from := 28; from < len(base); from++ {
			near := base
			copy(near[from:], bytes.Repeat([]byte{last}, len(base)-from))
			ids = append(ids, near)
		}
	}
	for _, at := range []int{0, 1, 16} { // the end of a text, to some
		near := base
		near[at] = 0
		ids = append(ids, near)
		near[31] ^= 1
		ids = append(ids, near)
	}
	slices.SortFunc(ids, func(a, b retrysafe.ID) int { return bytes.Compare(a[:], b[:]) })
	t.keptApart(ctx, slices.Compact(ids))

	zeros, ones := retrysafe.ID{}, retrysafe.ID(bytes.Repeat([]byte{0xff}, 32))
	for _, id := range []retrysafe.ID{zeros, ones} { // an earlier run may have left them
		if e, found, _ := t.get(ctx, t.store, id); found {
			t.remove(ctx, e)
		}
	}
	t.keptApart(ctx, []retrysafe.ID{zeros, ones})
}

// keptApart creates an entry under each of ids, deletes them one by one, and looks that no other one is touched.
func (t *trial) keptApart(ctx context.Context, ids []retrysafe.ID) {
	t.Helper()
	left := map[retrysafe.ID]retrysafe.Entry{}
	for _, id := range ids {
		e := t.entry()
		e.ID = id
		left[id] = t.create(ctx, e)
	}
	for {
		entries, _, err := t.store.Get(ctx, ids...)
		if err != nil || len(entries) != len(left) {
			t.Fatalf("get of %d IDs: %d entries, %v; want %d", len(ids), len(entries), err, len(left))
		}
		for _, got := range entries {
			if d := difference(got, left[got.ID]); d != "" {
				t.Fatalf("get of %d IDs: %s", len(ids), d)
			}
		}
		for range min(len(left), len(ids)/8+1) {
			t.remove(ctx, left[entries[0].ID])
			delete(left, entries[0].ID)
			entries = entries[1:]
		}
		if len(left) == 0 {
			return
		}
	}
}

// bodyIsReused holds a store to what it has returned from: the caller's memory is no part of it.
func bodyIsReused(ctx context.Context, t *trial) {
	e := t.entry()
	want := slices.Clone(e.Body)
	t.create(ctx, e)
	scribble(e.Body)
	t.holds(ctx, "a create", e.ID, want)

	n := t.next(e)
	want = slices.Clone(n.Body)
	t.swap(ctx, e.Rev, n)
	scribble(n.Body)
	t.holds(ctx, "a swap", e.ID, want)
}

// readerChanges scribbles over every Body that the store hands out.
func readerChanges(ctx context.Context, t *trial) {
	e := t.entry()
	want := slices.Clone(e.Body)
	scribble(t.create(ctx, e).Body)
	t.holds(ctx, "the answer to a create", e.ID, want)

	rep, err := t.store.Create(ctx, t.next(e))
	if err != nil || !rep.Found {
		t.Fatalf("create over another's entry: Found %v, %v", rep.Found, err)
	}
	scribble(rep.Entry.Body)
	t.holds(ctx, "the answer to a refused create", e.ID, want)

	got, _, _ := t.get(ctx, t.store, e.ID)
	scribble(got.Body)
	t.holds(ctx, "the answer to a get", e.ID, want)
	if t.list == nil {
		return
	}
	for _, listed := range t.walk(ctx, retrysafe.Query{Scope: e.Scope}, nil) {
		scribble(listed.Body)
	}
	t.holds(ctx, "a page", e.ID, want)
}

func scribble(b []byte) {
	for i := range b {
		b[i] ^= 0xff
	}
}

func (t *trial) holds(ctx context.Context, changed string, id retrysafe.ID, body []byte) {
	t.Helper()
	got, found, _ := t.get(ctx, t.store, id)
	if !found || !bytes.Equal(got.Body, body) {
		t.Errorf("body of %s was changed outside the store: get: %s, want %s", changed, shortened(got.Body, got.Body, body), shortened(body, got.Body, body))
	}
}
