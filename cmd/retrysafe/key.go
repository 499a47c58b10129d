package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

type keyCmd struct {
	List    keyListCmd    `cmd:"" help:"List keys, by state, scope and prefix."`
	Show    keyShowCmd    `cmd:"" help:"Show one key: state, times, attempts, history."`
	Resolve keyResolveCmd `cmd:"" help:"Decide an unknown outcome: it happened (--complete), or it did not (--release)."`
	Forget  keyForgetCmd  `cmd:"" help:"Make a key claimable again, whatever happened. The next request with it runs."`
}

// remoteFlags say which gateway is talked to.
type remoteFlags struct {
	Admin      string `default:"http://127.0.0.1:8081" placeholder:"URL" help:"Admin listener of the gateway. Default ${default}."`
	tokenFlags `embed:""`
	JSON       bool `name:"json" help:"Print JSON instead of text."`
}

func (f remoteFlags) client() (admin.Client, error) {
	token, err := f.tokenOrDefault()
	if err != nil {
		return admin.Client{}, err
	}
	url := f.Admin
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	if _, err := parseUpstream(url); err != nil {
		return admin.Client{}, usage("--admin: want a URL like http://127.0.0.1:8081")
	}
	return admin.Client{URL: strings.TrimSuffix(url, "/"), Token: token}, nil
}

// idFlags name one key: by its ID, or by what its caller sent.
type idFlags struct {
	ID    string `arg:"" optional:"" env:"-" help:"ID of the key, 64 hexadecimal digits, as key list prints it."`
	Scope string `default:"shared" help:"With --key: whose it is. A gateway without --scope-header has one scope, ${default}."`
	Key   string `env:"-" placeholder:"KEY" help:"Instead of the ID: the key as the caller sent it, without its quotes."`
}

func (f idFlags) id() (retrysafe.ID, error) {
	if (f.ID == "") == (f.Key == "") {
		return retrysafe.ID{}, usage("which key? give its ID (see: retrysafe key list), or --key with --scope")
	}
	if f.Key != "" {
		return retrysafe.Key{Scope: f.Scope, Name: f.Key}.ID(), nil
	}
	id, err := retrysafe.ParseID(f.ID)
	if err != nil {
		return id, usage("ID: want 64 hexadecimal digits as key list prints them, or --key with --scope")
	}
	return id, nil
}

type keyListCmd struct {
	State  string `placeholder:"STATE" help:"in_flight, completed, unknown, unknown_answered, free or expired."`
	Scope  string `help:"Only of this scope."`
	Prefix string `help:"Only keys that begin with it."`
	Limit  int    `default:"100" help:"At most so many, 1 to 1000. Default ${default}."`
	Cursor string `help:"Go on where a list before ended."`
	remoteFlags
}

// Run prints a page of keys.
func (c *keyListCmd) Run(ctx context.Context, s streams) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usage("--limit: want a number from 1 to 1000")
	}
	f := retrysafe.Filter{Scope: c.Scope, Prefix: c.Prefix, Limit: c.Limit, Cursor: c.Cursor}
	if c.State != "" {
		state, err := retrysafe.ParseState(c.State)
		if err != nil {
			return usage("--state: %q is none: want in_flight, completed, unknown, unknown_answered, free or expired", c.State)
		}
		f.State = state
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.List(ctx, f)
	if err != nil {
		return refused(err)
	}
	if c.JSON {
		return printJSON(s.out, page)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tSTARTED\tREPLAYS\tSCOPE\tKEY\tID")
	for _, k := range page.Keys {
		state := k.State
		if k.Unreadable {
			state += " (unreadable)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", state, when(k.Started), k.Replays, k.Scope, k.Key, k.ID)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(s.err, "there are more: --cursor=%s\n", page.Next)
	}
	return nil
}

type keyShowCmd struct {
	idFlags
	Answer bool `help:"Also show the answer that is kept. It may hold what only its caller should see."`
	remoteFlags
}

// Run prints one key.
func (c *keyShowCmd) Run(ctx context.Context, s streams) error {
	return act(ctx, s, c.idFlags, c.remoteFlags, func(client admin.Client, id retrysafe.ID) (admin.Detail, error) {
		return client.Get(ctx, id, c.Answer)
	})
}

// decisionFlags are required of every decision: they stay in the key's history.
type decisionFlags struct {
	By     string `required:"" help:"Who decides."`
	Reason string `required:"" env:"-" help:"Why, for those who ask later."`
	Force  bool   `env:"-" help:"Also on a live lease and on a completed key."`
}

type keyResolveCmd struct {
	idFlags
	decisionFlags
	Complete bool     `xor:"action" required:"" env:"-" help:"It happened. Retries get --status, --header and --body; without these they are told that the answer was not kept."`
	Release  bool     `xor:"action" required:"" env:"-" help:"It did not happen and never will. The next request with the key runs."`
	Status   int      `env:"-" placeholder:"CODE" help:"HTTP status that retries get."`
	Header   []string `env:"-" placeholder:"NAME:VALUE" sep:"none" help:"A header that retries get; may be repeated."`
	Body     string   `env:"-" placeholder:"FILE" help:"File with the body that retries get, - for standard input."`
	remoteFlags
}

// Run decides an outcome.
func (c *keyResolveCmd) Run(ctx context.Context, s streams) error {
	r := admin.Resolution{Action: admin.Release, By: c.By, Reason: c.Reason, Status: c.Status, Force: c.Force}
	if c.Complete {
		r.Action = admin.Complete
	}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return usage("--header: %q: want NAME:VALUE", line)
		}
		if r.Headers == nil {
			r.Headers = http.Header{}
		}
		r.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var err error
	if r.Body, err = readBody(ctx, s, c.Body); err != nil {
		return err
	}
	return act(ctx, s, c.idFlags, c.remoteFlags, func(client admin.Client, id retrysafe.ID) (admin.Detail, error) {
		return client.Resolve(ctx, id, r)
	})
}

func readBody(ctx context.Context, s streams, file string) (b []byte, err error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		b, err = readInput(ctx, s.in, maxBody)
	default:
		b, err = readFile(file, maxBody)
	}
	if ctx.Err() != nil {
		return nil, errors.New("interrupted: nothing was decided")
	}
	if err != nil {
		return nil, usage("--body: %v: want a file of 10 MiB at most, or - for standard input", err)
	}
	return b, nil
}

// readInput is readAll until ctx ends. A read from a terminal cannot be interrupted: it ends with the process.
func readInput(ctx context.Context, in io.Reader, limit int64) ([]byte, error) {
	type read struct {
		b   []byte
		err error
	}
	done := make(chan read, 1)
	go func() {
		b, err := readAll(in, limit)
		done <- read{b, err}
	}()
	select {
	case got := <-done:
		return got.b, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxBody is the largest body that the admin API takes.
const maxBody = 10 << 20

type keyForgetCmd struct {
	idFlags
	decisionFlags
	remoteFlags
}

// Run makes a key claimable again.
func (c *keyForgetCmd) Run(ctx context.Context, s streams) error {
	return act(ctx, s, c.idFlags, c.remoteFlags, func(client admin.Client, id retrysafe.ID) (admin.Detail, error) {
		return client.Forget(ctx, id, admin.Forgetting{By: c.By, Reason: c.Reason, Force: c.Force})
	})
}

// act does something with one key and prints the key as it stands then.
func act(ctx context.Context, s streams, which idFlags, where remoteFlags, do func(admin.Client, retrysafe.ID) (admin.Detail, error)) error {
	id, err := which.id()
	if err != nil {
		return err
	}
	client, err := where.client()
	if err != nil {
		return err
	}
	d, err := do(client, id)
	if err != nil {
		return refused(err)
	}
	if where.JSON {
		return printJSON(s.out, d)
	}
	return printDetail(s.out, d)
}

// refused adds to what the gateway answered what to do about it here.
func refused(err error) error {
	e, ok := errors.AsType[*admin.Error](err)
	switch {
	case !ok:
		return err
	case e.Force:
		return fmt.Errorf("%w: if you are sure, say it again with --force", err)
	case e.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: give the gateway's own token with --admin-token-file", err)
	case e.Status == http.StatusBadRequest: // the fields it names are flags of the same names
		return usage("%v", err)
	}
	return err
}

func printDetail(out io.Writer, d admin.Detail) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("key", d.Key)
	row("scope", d.Scope)
	row("id", d.ID)
	row("state", d.State)
	if d.Unreadable {
		row("", "damaged, or of a newer version: it can only be forgotten, with --force")
		return w.Flush()
	}
	if d.Reason != "" {
		row("reason", d.Reason)
	}
	row("started", when(d.Started))
	row("finished", when(d.Finished))
	row("expires", when(d.Expires))
	row("attempts", d.Attempts)
	row("replays", d.Replays)
	row("epoch", d.Epoch)
	if d.Policy != nil {
		row("on lease end", d.Policy.OnLeaseEnd)
	}
	if d.Acted != nil {
		row("acted", *d.Acted)
	}
	if a := d.Answer; a != nil {
		row("answer", fmt.Sprintf("status %d, %d bytes, headers %s", a.Status, a.BodyBytes, strings.Join(a.HeaderNames, ", ")))
		for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
			row("  "+name, strings.Join(a.Headers[name], " | "))
		}
		if a.Body != nil {
			row("  body", fmt.Sprintf("%q", a.Body))
		}
	}
	if d.NotKept {
		row("answer", "not kept")
	}
	for _, h := range d.History {
		row(when(h.At), fmt.Sprintf("%s %s it (was %s): %s", h.By, h.Did, h.From, h.Reason))
	}
	return w.Flush()
}

func when(t admin.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
