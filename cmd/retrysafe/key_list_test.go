package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
)

// ids returns the IDs that key list shows under the flags, by key.
func (l *lab) ids(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	s := l.key(t, append([]string{"list"}, flags...)...)
	lines := strings.Split(strings.TrimSpace(s.out), "\n")
	if s.status != exitOK || strings.Join(strings.Fields(lines[0]), " ") != "STATE STARTED REPLAYS SCOPE KEY ID" {
		t.Fatalf("key list %q: got %+v, want a table", flags, s)
	}
	ids := map[string]string{}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		ids[f[4]] = f[5]
	}
	return ids
}

func TestList(t *testing.T) {
	t.Parallel()
	url, arrived, release := startStates(t)
	l := startGateway(t, url)
	done := l.begin(t, "/block", "zq-key-in_flight", "")
	for got := ""; got != "/block"; {
		got = <-arrived
	}
	for key, path := range map[string]string{"completed": "/ok", "unknown": "/cut", "unknown_answered": "/fail", "free": "/ok"} {
		l.send(t, "POST", path, "zq-key-"+key, "")
	}
	l.key(t, "forget", "--force", "--key", "zq-key-free", "--by", "bob", "--reason", "it was a test").wantOut(t, "free")

	states := []string{"completed", "free", "in_flight", "unknown", "unknown_answered"}
	for _, state := range states {
		if ids := l.ids(t, "--state", state); len(ids) != 1 || ids["zq-key-"+state] == "" {
			t.Errorf("key list --state %s: got %v, want zq-key-%s", state, ids, state)
		}
	}
	if ids := l.ids(t, "--state", "expired"); len(ids) != 0 {
		t.Errorf("key list --state expired: got %v, want none", ids)
	}
	if ids := l.ids(t, "--prefix", "zq-key-unknown"); len(ids) != 2 {
		t.Errorf("key list --prefix zq-key-unknown: got %v, want two", ids)
	}
	if ids := l.ids(t, "--scope", "shared"); len(ids) != len(states) {
		t.Errorf("key list --scope shared: got %v, want all", ids)
	}
	if ids := l.ids(t, "--scope", "other"); len(ids) != 0 {
		t.Errorf("key list --scope other: got %v, want none", ids)
	}
	l.wantPages(t, len(states))
	l.key(t, "list", "--cursor", "garbled").wantRefused(t, exitUsage, `Parameter cursor: give the next of the page before, unchanged`)
	l.key(t, "resolve", "--release", "--key", "zq-key-in_flight", "--by", "bob", "--reason", "too slow").wantRefused(t, exitError, `live lease.*--force\n$`)
	release()
	(<-done).wantStatus(t, 200)
}

// wantPages reads all keys two at a time, as text and as JSON.
func (l *lab) wantPages(t *testing.T, all int) {
	t.Helper()
	inText, inJSON, cursor := map[string]string{}, map[string]string{}, ""
	for pages := 0; ; pages++ {
		flags := []string{"list", "--limit", "2", "--cursor=" + cursor}
		var page admin.Page
		s := l.key(t, append(flags, "--json")...)
		if err := json.Unmarshal([]byte(s.out), &page); err != nil || s.stderr != "" || len(page.Keys) > 2 || pages > all {
			t.Fatalf("key list --json: got %+v, %v, want a page of two", s, err)
		}
		for _, k := range page.Keys {
			inJSON[k.Key] = k.ID
		}
		maps.Copy(inText, l.ids(t, flags[1:]...))
		want := ""
		if page.Next != "" {
			want = "there are more: --cursor=" + page.Next + "\n"
		}
		if s := l.key(t, flags...); s.stderr != want {
			t.Errorf("key list: got standard error %q, want %q", s.stderr, want)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(inJSON) != all || !maps.Equal(inText, inJSON) {
		t.Errorf("key list, page by page: got %v and, in JSON, %v, want the same %d keys", inText, inJSON, all)
	}
}
