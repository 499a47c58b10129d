package payments

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver named "sqlite"
)

//go:embed schema.sql
var schema string

// What schema.sql writes into the file's header.
const (
	applicationID = "1885436275"
	schemaVersion = 1
)

// readers bounds the connections that answer GETs. They never wait for the
// writer: in WAL mode a reader sees the last commit.
const readers = 4

// errNotStarted says that a write was refused before it began: nothing
// happened, and the caller may send it again.
var errNotStarted = errors.New("start transaction")

// openDatabase opens both pools, the writer first, which makes the tables.
func (a *API) openDatabase(ctx context.Context, path string) (err error) {
	if path == "" {
		return errors.New("the path is empty")
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	// synchronous=FULL: in WAL mode the default of many drivers, NORMAL, may
	// lose commits that were already acknowledged when the power fails.
	a.writer, err = sql.Open("sqlite", a.dsn(path, "immediate",
		"journal_mode(wal)", "synchronous(full)", "foreign_keys(on)"))
	if err != nil {
		return err
	}
	a.writer.SetMaxOpenConns(1)
	if err := a.checkSettings(ctx); err != nil {
		return err
	}
	if err := a.write(ctx, createOrCheck); err != nil {
		return err
	}
	a.reader, err = sql.Open("sqlite", a.dsn(path, "deferred", "query_only(on)"))
	if err != nil {
		return err
	}
	a.reader.SetMaxOpenConns(readers)
	a.reader.SetMaxIdleConns(readers)
	return a.reader.PingContext(ctx)
}

// dsn names the file as a URI, so that no character of path can be taken for
// a parameter, with the pragmas that each new connection starts with.
func (a *API) dsn(path, txlock string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter: file:///C:/...
	}
	wait := strconv.FormatInt(a.wait.Milliseconds(), 10)
	query := url.Values{
		"_txlock": {txlock},
		"_pragma": append([]string{"busy_timeout(" + wait + ")"}, pragmas...),
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	return uri.String()
}

// checkSettings reads back what the promise of durability hangs on: SQLite
// takes a setting it cannot honour without a word.
func (a *API) checkSettings(ctx context.Context) error {
	for _, s := range []struct{ name, want string }{
		{"journal_mode", "wal"},
		{"synchronous", "2"}, // FULL
		{"foreign_keys", "1"},
	} {
		got, err := pragma(ctx, a.writer, s.name)
		if err != nil {
			return err
		}
		if got != s.want {
			return fmt.Errorf("set %s: got %q, want %q", s.name, got, s.want)
		}
	}
	return nil
}

// createOrCheck makes the tables in an empty file, and refuses a file that is
// not ours or not of our version.
func createOrCheck(ctx context.Context, tx *sql.Tx) error {
	var tables int
	err := tx.QueryRowContext(ctx, `select count(name) from sqlite_schema`).Scan(&tables)
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	if tables == 0 {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
	}
	owner, err := pragma(ctx, tx, "application_id")
	if err != nil {
		return err
	}
	if owner != applicationID {
		return errors.New("the file holds the data of another program")
	}
	version, err := pragma(ctx, tx, "user_version")
	if err != nil {
		return err
	}
	return checkVersion(version)
}

// checkVersion takes its own version only. A newer file may hold what this
// program would pass over; of older ones there are none yet.
func checkVersion(text string) error {
	version, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version > schemaVersion {
		return fmt.Errorf("the file has schema version %d, newer than this program's %d: start a newer program",
			version, schemaVersion)
	}
	if version < schemaVersion {
		return fmt.Errorf("the file has schema version %d, which no release of this program wrote", version)
	}
	return nil
}

// queryer is a pool of connections or a transaction.
type queryer interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// pragma reads one setting of a connection of db.
func pragma(ctx context.Context, db queryer, name string) (string, error) {
	var value string
	if err := db.QueryRowContext(ctx, "pragma "+name).Scan(&value); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return value, nil
}

// write runs fn in one transaction, durable when write returns nil. A caller
// who hangs up while waiting in line changes nothing; once fn has begun it is
// finished whether or not somebody still waits for the answer, for a commit cut
// off half-way would leave nobody knowing.
func (a *API) write(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	line, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	conn, err := a.writer.Conn(line)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
