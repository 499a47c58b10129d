package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
)

// defaultTokenFile is where a gateway that is given no admin token keeps the one it makes, and where the other
// commands look for it.
const defaultTokenFile = "retrysafe-admin-token"

// tokenFlags are how a command learns the admin token.
type tokenFlags struct {
	AdminToken     string `type:"redacted" placeholder:"TOKEN" help:"Bearer token of the admin listener, the secret itself: better set by environment or file than by flag."`
	AdminTokenFile string `placeholder:"FILE" help:"File whose first line is the token. With neither, ./retrysafe-admin-token is used; a gateway makes it."`
}

const minToken = 16

// token returns the admin token that was given, and "" if none was.
func (t tokenFlags) token() (string, error) {
	switch {
	case t.AdminToken != "" && t.AdminTokenFile != "":
		return "", usage("--admin-token and --admin-token-file: give one of them")
	case t.AdminToken != "":
		return checkToken("--admin-token", t.AdminToken)
	case t.AdminTokenFile != "":
		return readToken("--admin-token-file", t.AdminTokenFile)
	}
	return "", nil
}

func checkToken(flag, token string) (string, error) {
	if len(token) < minToken {
		return "", usage("%s: the token is too short: want at least %d characters, like the output of `openssl rand -hex 32`", flag, minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("%s: the token may hold printable ASCII only, no spaces", flag)
	}
	return token, nil
}

func readToken(flag, file string) (string, error) {
	b, err := readFile(file, maxSecretFile)
	if err != nil {
		return "", usage("%s: %v: want a file whose first line is the token", flag, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return checkToken(flag+" "+file, strings.TrimSpace(line))
}

// maxSecretFile bounds a file of secrets.
const maxSecretFile = 64 << 10

// readFile reads a file whole. A wrong one, or a device, must not fill the memory.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return b, err
}

// tokenOrNew returns the token given, else the one in the default file, else a new one written there. file
// says where it stands if it was not given.
func (t tokenFlags) tokenOrNew() (token, file string, err error) {
	if token, err = t.token(); token != "" || err != nil {
		return token, "", err
	}
	token, err = readToken("admin token", defaultTokenFile)
	if _, statErr := os.Stat(defaultTokenFile); !errors.Is(statErr, fs.ErrNotExist) {
		return token, defaultTokenFile, err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	token = hex.EncodeToString(secret)
	f, err := os.OpenFile(defaultTokenFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", "", usage("admin token: none was given, and one cannot be kept in ./%s: %v: give --admin-token-file", defaultTokenFile, err)
	}
	_, err = fmt.Fprintln(f, token)
	return token, defaultTokenFile, errors.Join(err, f.Close())
}

// tokenOrDefault returns the token given, else the one a gateway left in this folder.
func (t tokenFlags) tokenOrDefault() (string, error) {
	token, err := t.token()
	if token != "" || err != nil {
		return token, err
	}
	if _, err := os.Stat(defaultTokenFile); err != nil {
		return "", usage("admin token: none was given and ./%s is not here: set RETRYSAFE_ADMIN_TOKEN or --admin-token-file", defaultTokenFile)
	}
	return readToken("admin token", defaultTokenFile)
}

// readFingerprintKeys reads the file of --fingerprint-keys.
func readFingerprintKeys(file string) ([][]byte, error) {
	return readKeys("--fingerprint-keys", file, fitsFingerprints)
}

// readAnswerKeys reads the file of --answer-keys.
func readAnswerKeys(file string) ([][]byte, error) {
	return readKeys("--answer-keys", file, func(size int) bool { return size == retrysafe.AnswerKey })
}

// fitsFingerprints tells whether a key of so many bytes may seal fingerprints. Every answer key may, too.
func fitsFingerprints(size int) bool { return size >= retrysafe.MinFingerprintKey }

// readKeys reads a file of keys, the first of which seals. No file is no keys.
func readKeys(flag, file string, fits func(size int) bool) ([][]byte, error) {
	if file == "" {
		return nil, nil
	}
	b, err := readFile(file, maxSecretFile)
	if err != nil {
		return nil, usage("%s: %v: want a file of keys; make one with `retrysafe keys new --out FILE`", flag, err)
	}
	keys, err := parseKeys(b, fits)
	if err != nil {
		return nil, usage("%s: %s %v", flag, file, err)
	}
	return keys, nil
}

// parseKeys reads one key a line, hexadecimal or base64, # for comments. An error tells the line, never its text: it
// may be a secret with a slip of the pen.
func parseKeys(text []byte, fits func(size int) bool) (keys [][]byte, err error) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		key, err := hex.DecodeString(text)
		if err != nil {
			key, err = base64.StdEncoding.DecodeString(text)
		}
		if err != nil || !fits(len(key)) {
			return nil, fmt.Errorf("line %d is no key: want 32 random bytes in hexadecimal or base64, like the output of `retrysafe keys new`", i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key: put the output of `retrysafe keys new` there")
	}
	return keys, nil
}

// checkApart refuses a key that stands in two files: who is trusted with the one need not be with the other.
func checkApart(k secretKeys) error {
	files := []struct {
		flag string
		keys [][]byte
	}{{"--answer-keys", k.answers}, {"--fingerprint-keys", k.fingerprints}, {"--forward-key-secret", [][]byte{k.forwarded}}}
	if k.forwarded == nil {
		files = files[:2]
	}
	for i, f := range files {
		for _, other := range files[i+1:] {
			for _, key := range f.keys {
				if slices.ContainsFunc(other.keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
					return usage("%s and %s: a key stands in both files: want keys of their own, each made with `retrysafe keys new`", f.flag, other.flag)
				}
			}
		}
	}
	return nil
}

// readForwardKeySecret reads the file of --forward-key-secret. There is one key: with a second in use the same request
// would go upstream under another key.
func readForwardKeySecret(file string) ([]byte, error) {
	keys, err := readKeys("--forward-key-secret", file, func(size int) bool { return size >= gateway.MinForwardSecret })
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, usage("--forward-key-secret: %s holds %d keys: want one", file, len(keys))
	}
	return keys[0], nil
}
