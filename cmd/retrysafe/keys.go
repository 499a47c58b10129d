package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe"
)

type keysCmd struct {
	New    keysNewCmd    `cmd:"" help:"Make a secret key, for a file of --answer-keys or --fingerprint-keys."`
	Rotate keysRotateCmd `cmd:"" help:"Put a fresh key first in such a file; the others stay behind it."`
}

type keysNewCmd struct {
	Out string `env:"-" placeholder:"FILE" help:"Write it into a new file that only its owner may read, instead of printing it. A file that is there is left alone."`
}

// Help is what --help says beside the flags.
func (keysNewCmd) Help() string {
	return `A key is a line of 64 hexadecimal digits, 32 random bytes. A gateway takes files of them:

  --answer-keys FILE        seals the answers that are kept, so that who reads the store cannot read them
  --fingerprint-keys FILE   seals the fingerprints of requests, so that who reads the store cannot guess them

Each wants a file of its own: a key must not stand in both. In a file the first key seals, and all are known; lines that begin with # are comments. Keep a copy apart from the store's backups: what was sealed with a lost key is lost, and requests under its idempotency keys get 503.

  retrysafe keys new --out answer-keys
  retrysafe gateway --answer-keys answer-keys ...`
}

// Run makes a key.
func (c keysNewCmd) Run(s streams) error {
	if c.Out == "" {
		_, err := s.out.Write(newKey(time.Now()))
		return err
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usage("--out: %s is there, and is left as it is: give another name, or put a fresh key into it with `retrysafe keys rotate %s`", c.Out, c.Out)
	}
	if err != nil {
		return usage("--out: %v", err)
	}
	if err := errors.Join(writeSynced(f, newKey(time.Now())), syncFolder(filepath.Dir(c.Out))); err != nil {
		return errors.Join(fmt.Errorf("keys new: %w", err), os.Remove(c.Out))
	}
	_, err = fmt.Fprintf(s.out, "%s holds a new key: keep a copy of it, and give the file to the gateway with --answer-keys or --fingerprint-keys\n", c.Out)
	return err
}

// newKey is a fresh key as it stands in a file.
func newKey(now time.Time) []byte {
	secret := make([]byte, retrysafe.AnswerKey)
	rand.Read(secret) // never fails (crypto/rand)
	return fmt.Appendf(nil, "# made %s by retrysafe keys, for --answer-keys or --fingerprint-keys: secret, and not to be lost\n%s\n",
		now.UTC().Format(time.DateOnly), hex.EncodeToString(secret))
}

// writeSynced writes b to f and closes it.
func writeSynced(f *os.File, b []byte) error {
	_, err := f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type keysRotateCmd struct {
	File string `arg:"" help:"A file that a gateway is given with --answer-keys or --fingerprint-keys."`
}

// Help is what --help says beside the flags.
func (keysRotateCmd) Help() string {
	return `The fresh key seals what is written from now on; what the others sealed can still be opened. The file is replaced in one step, with its owner and mode, so that a gateway that starts meanwhile finds the old one or the new one, whole.

Gateways read the file at start: restart every one that is given it. Where several share a store, one that does not know the fresh key yet answers 503 for what another sealed with it. To avoid that, move the fresh key behind the old one by hand, restart all, move it to the front, and restart all again.

Delete an old key only when nothing is left that it sealed: --retention and --remember after the restart, 31 days by default, and when no outcome from before is still unknown. Rotate at least once in 4 billion answers (2^32): beyond that AES-GCM with random nonces is no longer safe.`
}

// Run rotates the keys of a file, and says what to do next.
func (c keysRotateCmd) Run(s streams) error {
	n, err := rotate(c.File, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, `%s: a fresh key stands first, %d keys in all
next: restart every gateway that is given the file; keep a copy of it
an old key may be deleted from it 31 days after that, with the defaults (--retention and --remember),
and when no outcome from before is unknown: retrysafe key list --state unknown
`, c.File, n)
	return err
}

// rotate puts a fresh key first in a file of keys and returns how many it holds then. The copy beside it is a lock
// too: of two rotations at once, one would lose the other's key.
func rotate(file string, now time.Time) (n int, err error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return 0, usage("FILE: %v: want a file of keys; make one with `retrysafe keys new --out FILE`", err)
	}
	target, err := filepath.EvalSymlinks(file) // a link goes on pointing there
	if err != nil {
		return 0, fmt.Errorf("keys rotate: %w", err)
	}
	beside := target + ".new"
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, usage("FILE: %s is there: another rotation is under way; if none is, one was cut off: delete it", beside)
	}
	if err != nil {
		return 0, fmt.Errorf("keys rotate: %w", err)
	}
	if n, err = rotateInto(f, target, now); err != nil {
		return 0, errors.Join(err, os.Remove(beside))
	}
	if err := os.Rename(beside, target); err != nil {
		return 0, errors.Join(fmt.Errorf("keys rotate: %w", err), os.Remove(beside))
	}
	return n, syncFolder(filepath.Dir(target))
}

// rotateInto writes a fresh key and the text of file to f, which gets the owner and the mode of file.
func rotateInto(f *os.File, file string, now time.Time) (n int, err error) {
	defer f.Close() // a second time, where it was written
	info, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("keys rotate: %w", err)
	}
	old, err := readFile(file, maxSecretFile)
	if err != nil {
		return 0, usage("FILE: %v: want a file of keys", err)
	}
	keys, err := parseKeys(old, fitsFingerprints)
	if err != nil {
		return 0, usage("FILE: %s %v", file, err)
	}
	text := append(newKey(now), old...)
	if len(text) > maxSecretFile {
		return 0, usage("FILE: %s would have more than %d bytes: delete keys that are no longer needed", file, maxSecretFile)
	}
	if err := errors.Join(keepOwner(f, info), f.Chmod(info.Mode().Perm())); err != nil {
		return 0, fmt.Errorf("keys rotate: keep the owner and the mode of %s: %w", file, err)
	}
	if err := writeSynced(f, text); err != nil {
		return 0, fmt.Errorf("keys rotate: %w", err)
	}
	return len(keys) + 1, nil
}
