package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// keyFile writes a file with the keys of these names, the first first.
func keyFile(t *testing.T, names ...string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		text.WriteString(strings.Repeat(name, 32) + "\n")
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// held tells whether any file below dir holds text.
func held(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		found = found || bytes.Contains(b, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAnswerKeysOnDisk is TN-7: what callers were answered does not stand in the store's files, and does without keys.
func TestAnswerKeysOnDisk(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--answer-keys", keyFile(t, "1a")}} {
		api, dir := startPayments(t), filepath.Join(t.TempDir(), "data")
		l := startGateway(t, api.url, append(flags, "--store", "pebble:"+dir)...)
		first := l.send(t, "POST", "/charges", "zq-key-1", charge(100))
		first.wantStatus(t, 201)
		l.send(t, "POST", "/charges", "zq-key-1", charge(100)).wantReplayOf(t, first)
		l.stop()
		<-l.status
		if got := held(t, dir, "zq-body-c1"); got != (flags == nil) {
			t.Errorf("gateway %q: its store holds what it answered in clear: %v", flags, got)
		}
	}
}

// TestAnswerKeysRotated follows one store through gateways with other keys. The key that is missing is named in the
// log; nothing runs, and the answer is there again when the key is.
func TestAnswerKeysRotated(t *testing.T) {
	t.Parallel()
	api, store := startPayments(t), "pebble:"+filepath.Join(t.TempDir(), "data")
	start := func(keys ...string) *lab {
		return startGateway(t, api.url, "--store", store, "--answer-keys", keyFile(t, keys...))
	}
	end := func(l *lab) { l.stop(); <-l.status }

	l := start("1a")
	first := l.send(t, "POST", "/charges", "zq-key-1", charge(100))
	first.wantStatus(t, 201)
	end(l)

	l = start("2b", "1a")
	l.send(t, "POST", "/charges", "zq-key-1", charge(100)).wantReplayOf(t, first)
	second := l.send(t, "POST", "/charges", "zq-key-2", charge(200))
	second.wantStatus(t, 201)
	end(l)

	l = start("2b")
	l.send(t, "POST", "/charges", "zq-key-1", charge(100)).wantProblem(t, 503, "entry-unreadable")
	l.stderr.await(t, `was sealed with answer key [0-9a-f]{16}, which is not configured`)
	l.send(t, "POST", "/charges", "zq-key-2", charge(200)).wantReplayOf(t, second)
	l.send(t, "POST", "/charges", "zq-key-1", charge(999)).wantProblem(t, 422, "key-reused")
	l.key(t, "show", "--key", "zq-key-1", "--answer").wantOut(t, `^reason +stored entry is unreadable: .* was sealed with answer key [0-9a-f]{16}, which is not configured$`)
	end(l)

	l = start("3c", "2b", "1a")
	l.send(t, "POST", "/charges", "zq-key-1", charge(100)).wantReplayOf(t, first)
	end(l)

	l = start("3c")
	l.key(t, "resolve", "--key", "zq-key-1", "--complete", "--status", "201", "--force", "--by", "alice", "--reason", "the key is lost").wantOut(t, `alice completed it`)
	l.send(t, "POST", "/charges", "zq-key-1", charge(100)).wantStatus(t, 201)
	if got := api.count(t); got != 2 {
		t.Errorf("%d charges stand, want 2: nothing ran for want of a key", got)
	}
}

// TestRotationsAtOnce lose no key: each that says that it was done left its own.
func TestRotationsAtOnce(t *testing.T) {
	t.Parallel()
	file := keyFile(t, "1a")
	done := make([]int, 40)
	var all sync.WaitGroup
	for i := range done {
		all.Go(func() {
			if n, err := rotate(file, time.Now()); err == nil {
				done[i] = n
			} else if !strings.Contains(err.Error(), "another rotation is under way") {
				t.Errorf("rotate: %v", err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := parseKeys(text, fitsFingerprints)
	done = slices.DeleteFunc(done, func(n int) bool { return n == 0 })
	slices.Sort(done)
	if err != nil || len(done) == 0 || len(keys) != 1+len(done) || done[len(done)-1] != len(keys) || len(slices.Compact(done)) != len(keys)-1 {
		t.Errorf("%d keys after rotations that told of %v, %v", len(keys), done, err)
	}
	if got, want := hex.EncodeToString(keys[len(keys)-1]), strings.Repeat("1a", 32); got != want {
		t.Errorf("the last key is %s, want the first there was", got)
	}
}

// TestRotationThatGrowsTooLarge leaves the file as it is, and nothing beside it.
func TestRotationThatGrowsTooLarge(t *testing.T) {
	t.Parallel()
	file := keyFile(t, slices.Repeat([]string{"1a"}, maxSecretFile/65)...)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(file, time.Now()); err == nil || !strings.Contains(err.Error(), "delete keys that are no longer needed") {
		t.Errorf("rotate: %v, want it refused", err)
	}
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file changed: %v, %v", !bytes.Equal(after, before), err)
	}
	if _, err := os.Stat(file + ".new"); err == nil {
		t.Error("something was left beside the file")
	}
}

// FuzzKeyFile: what is read as keys is long enough, and no error repeats what it read.
func FuzzKeyFile(f *testing.F) {
	f.Add([]byte("# one\n" + strings.Repeat("0f", 32) + "\r\n\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHiA="))
	f.Add([]byte("zq-token-0123456789abcdef"))
	f.Add(newKey(time.Unix(0, 0)))
	f.Add([]byte("#"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text, fitsFingerprints)
		if err != nil {
			if len(keys) > 0 || fmt.Sprintf("%.12s", err.Error()) != "holds no key" && !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%q: %d keys, %v", text, len(keys), err)
			}
			return
		}
		for _, key := range keys {
			if len(key) < 32 {
				t.Errorf("%q: a key of %d bytes", text, len(key))
			}
		}
		rotated, err := parseKeys(append(newKey(time.Unix(0, 0)), text...), fitsFingerprints)
		if err != nil || !slices.EqualFunc(rotated[1:], keys, bytes.Equal) {
			t.Errorf("%q: a fresh key in front changes the others: %v", text, err)
		}
	})
}
