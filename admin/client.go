package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A Client calls the API of a running process. URL and Token are required. What the API refused is an [*Error].
type Client struct {
	URL     string        // of the admin listener, like http://127.0.0.1:8081
	Token   string        // the bearer token
	Timeout time.Duration // of one call. Defaults to 30 s
}

// maxReply is the largest reply that a Client reads: one answer in base64 with all the rest, or 1,000 keys.
const maxReply = 64 << 20

// List returns a page of the keys that f selects. A Limit of 0 leaves the number to the API.
func (c Client) List(ctx context.Context, f retrysafe.Filter) (page Page, err error) {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.State != retrysafe.Absent {
		q.Set("state", f.State.String())
	}
	set("scope", f.Scope)
	set("prefix", f.Prefix)
	set("cursor", f.Cursor)
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	err = c.call(ctx, call{what: "list keys", method: http.MethodGet, path: []string{"api", "keys"}, query: q, reply: &page})
	return page, err
}

// Get returns all that is known of a key; with answer, also what retries are answered.
func (c Client) Get(ctx context.Context, id retrysafe.ID, answer bool) (d Detail, err error) {
	q := url.Values{}
	if answer {
		q.Set("answer", "1")
	}
	err = c.call(ctx, call{what: "show key", method: http.MethodGet, path: []string{"api", "keys", id.String()}, query: q, reply: &d})
	return d, err
}

// Resolve decides what happened, and returns the key as it stands after that. After an error that is no
// [*Error], look at the key: the decision may have been written.
func (c Client) Resolve(ctx context.Context, id retrysafe.ID, r Resolution) (d Detail, err error) {
	err = c.call(ctx, call{what: "resolve key", method: http.MethodPost, path: []string{"api", "keys", id.String(), "resolve"}, body: r, reply: &d})
	return d, err
}

// Forget makes a key claimable again, whatever happened, and returns it as it stands after that. Errors are as
// in Resolve.
func (c Client) Forget(ctx context.Context, id retrysafe.ID, f Forgetting) (d Detail, err error) {
	err = c.call(ctx, call{what: "forget key", method: http.MethodPost, path: []string{"api", "keys", id.String(), "forget"}, body: f, reply: &d})
	return d, err
}

// Backup writes a copy of the store into dir, on the machine of the process: absolute, and new. Set Timeout for large
// stores.
func (c Client) Backup(ctx context.Context, dir string) (b Backup, err error) {
	err = c.call(ctx, call{what: "back up", method: http.MethodPost, path: []string{"api", "backup"}, body: Backup{Dir: dir}, reply: &b})
	return b, err
}

// A call is one request of a Client and where its reply goes.
type call struct {
	what   string
	method string
	path   []string
	query  url.Values
	body   any // nil: none
	reply  any
}

func (c Client) call(ctx context.Context, k call) error {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := c.request(ctx, k)
	if err != nil {
		return fmt.Errorf("admin: %s: %w", k.what, err)
	}
	if err := exchange(req, k.reply); err != nil {
		return fmt.Errorf("admin: %s: %w", k.what, err)
	}
	return nil
}

func (c Client) request(ctx context.Context, k call) (*http.Request, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the URL of the admin listener must be like http://127.0.0.1:8081")
	}
	if err := checkToken(c.Token); err != nil {
		return nil, err
	}
	u := base.JoinPath(k.path...)
	u.RawQuery = k.query.Encode()
	var body io.Reader
	if k.body != nil {
		b, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("encode the decision: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// exchange sends req once and reads its reply into v. It follows no redirect: the token is for one listener.
func exchange(req *http.Request, v any) error {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL: its query may hold the text of a key
	}
	where := req.URL.Scheme + "://" + req.URL.Host
	if err != nil {
		return fmt.Errorf("%w: is the process running, and is %s its admin listener?", err, where)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	if len(b) > maxReply {
		return fmt.Errorf("read the reply: it is larger than %d MiB: ask for less", maxReply>>20)
	}
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	problem := &Error{Status: resp.StatusCode, Detail: "the reply is not one of the admin API: is " + where + " its listener?"}
	switch {
	case resp.StatusCode == http.StatusOK && t == "application/json":
		if err := json.Unmarshal(b, v); err != nil {
			return fmt.Errorf("read the reply: %w", err)
		}
		return nil
	case t == "application/problem+json" && json.Unmarshal(b, problem) == nil:
		problem.Status = resp.StatusCode // what was sent, whatever the text says
	}
	return problem
}
