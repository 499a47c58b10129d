package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

type storeCmd struct {
	Verify storeVerifyCmd `cmd:"" help:"Read every byte of a store that no gateway has open, and say what is wrong. It changes nothing."`
	Backup storeBackupCmd `cmd:"" help:"Copy a store into a new folder, while its gateway serves."`
}

type storeVerifyCmd struct {
	Store string `required:"" placeholder:"STORE" help:"The store, like pebble:./retrysafe-data. Stop its gateway first."`
	JSON  bool   `name:"json" help:"Print JSON instead of text."`
}

// Run reads the store and prints what it found. Anything wrong is exit status 1.
func (c *storeVerifyCmd) Run(ctx context.Context, s streams) error {
	dir, err := folderOf(c.Store)
	if err != nil {
		return err
	}
	r, err := pebblestore.Verify(ctx, dir)
	switch {
	case errors.Is(err, pebblestore.ErrInUse):
		return usage("--store: %s is open: stop the gateway that uses it, or verify a backup (see: retrysafe store backup --help)", dir)
	case errors.Is(err, retrysafe.ErrInvalid), errors.Is(err, pebblestore.ErrNewer):
		return usage("--store: %v", err)
	case err != nil:
		return err
	}
	if err := printReport(s, r, c.JSON); err != nil {
		return err
	}
	if r.Wrong > 0 {
		return fmt.Errorf("store verify: %d things are wrong: restore a backup, or look at the keys named above", r.Wrong)
	}
	return nil
}

func printReport(s streams, r pebblestore.Report, asJSON bool) error {
	states := map[string]int{}
	for state, n := range r.States {
		states[state.String()] = n
	}
	if asJSON {
		return printJSON(s.out, struct {
			Entries  int            `json:"entries"`
			Bytes    int64          `json:"bytes"`
			States   map[string]int `json:"states"`
			Wrong    int            `json:"wrong"`
			Problems []string       `json:"problems"`
		}{r.Entries, r.Bytes, states, r.Wrong, append([]string{}, r.Problems...)})
	}
	fmt.Fprintf(s.out, "%d entries, %d bytes\n", r.Entries, r.Bytes)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		fmt.Fprintf(s.out, "  %-16s %d\n", name, states[name])
	}
	for _, p := range r.Problems {
		fmt.Fprintf(s.out, "wrong: %s\n", p)
	}
	if r.Wrong > len(r.Problems) {
		fmt.Fprintf(s.out, "and %d more\n", r.Wrong-len(r.Problems))
	}
	if r.Wrong == 0 {
		fmt.Fprintln(s.out, "nothing is wrong")
	}
	return nil
}

type storeBackupCmd struct {
	Dir   string `arg:"" help:"Folder to write, which must not exist. A running gateway writes it on its own machine."`
	Store string `env:"-" placeholder:"STORE" help:"Copy this store, of a stopped gateway, instead of asking a running one."`
	remoteFlags
}

// Run copies the store of the running gateway, or of a stopped one.
func (c *storeBackupCmd) Run(ctx context.Context, s streams) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return usage("DIR: %v", err)
	}
	made, err := c.make(ctx, dir)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, made)
	}
	_, err = fmt.Fprintf(s.out, "backup in %s, made in %.1f s\n", made.Dir, made.Seconds)
	return err
}

func (c *storeBackupCmd) make(ctx context.Context, dir string) (admin.Backup, error) {
	if c.Store == "" {
		client, err := c.client()
		if err != nil {
			return admin.Backup{}, err
		}
		client.Timeout = time.Hour
		made, err := client.Backup(ctx, dir)
		return made, refused(err)
	}
	from, err := folderOf(c.Store)
	if err != nil {
		return admin.Backup{}, err
	}
	began := time.Now()
	switch err := pebblestore.Backup(ctx, from, dir); {
	case errors.Is(err, pebblestore.ErrInUse):
		return admin.Backup{}, usage("--store: %s is open: leave --store away to ask the gateway that uses it, or stop that", from)
	case errors.Is(err, retrysafe.ErrInvalid), errors.Is(err, pebblestore.ErrNewer):
		return admin.Backup{}, usage("%v", err)
	case err != nil:
		return admin.Backup{}, err
	}
	return admin.Backup{Dir: dir, Seconds: time.Since(began).Seconds()}, nil
}

// folderOf is the folder of a store that stands in one.
func folderOf(url string) (string, error) {
	dir, ok := strings.CutPrefix(url, "pebble:")
	if !ok || dir == "" {
		return "", usage("--store: want a store in a folder, like pebble:./retrysafe-data")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usage("--store: there is no folder %s", dir)
	}
	return dir, nil
}
