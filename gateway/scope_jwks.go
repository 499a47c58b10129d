package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/retrysafe/retrysafe/idemhttp"
)

// A JWKS is the public keys of an issuer (RFC 7517), kept in memory. They are fetched when the first token comes,
// again when a token names a key that is not known, and now and then, so that a key that was withdrawn is not
// believed for long; never more often than every jwksPause, whatever callers send. Use JWKSFile or JWKSFrom.
type JWKS struct {
	source   string // as the log names it
	load     func(ctx context.Context) ([]byte, error)
	log      *slog.Logger
	mu       sync.Mutex
	keys     []jose.JSONWebKey // guarded by mu
	loaded   time.Time         // when keys came. Guarded by mu
	tried    time.Time         // when the last load began. Guarded by mu
	failed   bool              // how the last load ended. Guarded by mu
	underWay chan struct{}     // closed when the load that is under way has ended. Guarded by mu
}

const (
	jwksPause  = 10 * time.Second // at least between two loads
	jwksFresh  = 5 * time.Minute  // then they are loaded again, behind the requests
	jwksStale  = time.Hour        // then they are believed no more, if they could not be loaded again
	jwksWait   = 5 * time.Second  // for one load
	maxJWKS    = 512 << 10        // bytes
	maxSetKeys = 100
)

// JWKSFile returns the keys in a file, which is read at once, and again as it may change.
func JWKSFile(name string, log *slog.Logger) (*JWKS, error) {
	k := &JWKS{source: name, log: orSilent(log), load: func(context.Context) ([]byte, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, maxJWKS+1))
	}}
	text, err := k.load(context.Background())
	if err != nil {
		return nil, err
	}
	if k.keys, err = parseJWKS(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	k.loaded = time.Now()
	k.tried = k.loaded
	return k, nil
}

// JWKSFrom returns the keys at a URL: https, or http to this machine, since who can change them on their way can be
// anybody. Redirects are not followed, and no proxy is asked.
func JWKSFrom(u *url.URL, log *slog.Logger) (*JWKS, error) {
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return nil, errors.New("want an https:// URL without user")
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &JWKS{source: u.Host, log: orSilent(log), load: func(ctx context.Context) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		res, err := client.Do(r)
		if failed, ok := errors.AsType[*url.Error](err); ok {
			return nil, failed.Err // without the URL, whose query may hold a secret
		}
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("it answers %d", res.StatusCode)
		}
		return io.ReadAll(io.LimitReader(res.Body, maxJWKS+1))
	}}, nil
}

// parseJWKS returns the keys of a set that may verify tokens. Keys of kinds that are not known are passed over, so that
// an issuer may add some (RFC 7517, 5).
func parseJWKS(text []byte) (keys []jose.JSONWebKey, err error) {
	if len(text) > maxJWKS {
		return nil, fmt.Errorf("it has more than %d bytes", maxJWKS)
	}
	var set struct{ Keys []json.RawMessage }
	if json.Unmarshal(text, &set) != nil { // whose error would quote it
		return nil, errors.New("it is no JSON Web Key Set")
	}
	if len(set.Keys) > maxSetKeys {
		return nil, fmt.Errorf("it has more than %d keys", maxSetKeys)
	}
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && usable(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no public key that verifies signatures")
	}
	return keys, nil
}

// find returns the keys that a token of that header may be signed with. Where there is none, the error says whether
// the caller is to blame.
func (k *JWKS) find(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	found := k.pick(kid, alg)
	loading := k.refresh(ctx, len(found) == 0)
	k.mu.Unlock()
	if len(found) > 0 {
		return found, nil
	}
	if loading != nil {
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", idemhttp.ErrScopeUnavailable, ctx.Err())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if found = k.pick(kid, alg); len(found) > 0 {
		return found, nil
	}
	if k.failed {
		return nil, fmt.Errorf("%w: the issuer's keys could not be had", idemhttp.ErrScopeUnavailable)
	}
	return nil, errors.New("the token names no key of the issuer")
}

// pick returns the known keys that fit. A token that names none must come from an issuer that has one only (OpenID
// Connect Core, 10.1): nobody may have us try them all.
func (k *JWKS) pick(kid, alg string) (fit []jose.JSONWebKey) {
	if time.Since(k.loaded) > jwksStale || kid == "" && len(k.keys) > 1 {
		return nil
	}
	for _, key := range k.keys {
		if (kid == "" || key.KeyID == kid) && (key.Algorithm == "" || key.Algorithm == alg) {
			fit = append(fit, key)
		}
	}
	return fit
}

// refresh starts a load if one is due, and returns the end of the one under way, nil for none.
func (k *JWKS) refresh(ctx context.Context, wanted bool) <-chan struct{} {
	due := (wanted || time.Since(k.loaded) > jwksFresh) && time.Since(k.tried) > jwksPause
	if k.underWay != nil || !due {
		return k.underWay
	}
	ended := make(chan struct{})
	k.underWay, k.tried = ended, time.Now()
	go func() { // for all who wait, so that it does not end with the one who came first
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jwksWait)
		defer cancel()
		text, err := k.load(ctx)
		var keys []jose.JSONWebKey
		if err == nil {
			keys, err = parseJWKS(text)
		}
		k.settle(keys, err)
	}()
	return ended
}

// settle takes note of how a load ended. After one that failed, the keys that were known stay for jwksStale.
func (k *JWKS) settle(keys []jose.JSONWebKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.underWay = nil
	if k.failed = err != nil; k.failed {
		k.log.Error("keys of the tokens' issuer could not be loaded", "from", k.source, "known", len(k.keys), "err", err)
		return
	}
	if known := len(k.keys); !slices.EqualFunc(keys, k.keys, func(a, b jose.JSONWebKey) bool { return a.KeyID == b.KeyID }) {
		k.log.Info("keys of the tokens' issuer have changed", "from", k.source, "before", known, "now", len(keys))
	}
	k.keys, k.loaded = keys, time.Now()
}
