package payments

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRestartKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?name#100%.db")
	first := serveFile(t, path, nil)
	c := first.charge(`{"customer":"c1","amount":100,"currency":"EUR","memo":"m","order_no":"o-1","capture":false}`)
	first.must(200, "POST", "/charges/"+c.ID+"/capture", "")
	first.must(201, "PUT", "/customers/c1", ada)
	want := first.must(200, "GET", "/charges/"+c.ID, "").body
	if err := first.api.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file has another name than asked for: %v", err)
	}

	second := serveFile(t, path, nil)
	if got := second.must(200, "GET", "/charges/"+c.ID, "").body; got != want {
		t.Errorf("after a restart: got %s, want %s", got, want)
	}
	second.must(200, "GET", "/customers/c1", "")
	second.must(409, "POST", "/charges", `{"customer":"c1","amount":100,"currency":"EUR","order_no":"o-1"}`)
	if got := second.charge(oneEuro).Slip; got != 2 {
		t.Errorf("after a restart: got slip %d, want 2", got)
	}
}

func TestOpenRefusesForeignFiles(t *testing.T) {
	tests := []struct {
		name  string
		setUp func(t *testing.T, path string)
		want  string
	}{
		{"newer version", func(t *testing.T, path string) { makeThen(t, path, `pragma user_version = 2`) }, "newer"},
		{"unknown version", func(t *testing.T, path string) { makeThen(t, path, `pragma user_version = 0`) }, "no release"},
		{"another program's", func(t *testing.T, path string) { makeThen(t, path, `pragma application_id = 7`) }, "another program"},
		{"unmarked tables", func(t *testing.T, path string) { execute(t, path, `create table notes (id integer)`) }, "another program"},
		{"no database", func(t *testing.T, path string) { write(t, path, strings.Repeat("plain text ", 100)) }, "not a database"},
		{"folder", func(t *testing.T, path string) { mkdir(t, path) }, "unable to open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			tt.setUp(t, path)
			api, err := Open(t.Context(), path, nil)
			if err == nil {
				api.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "x.db") {
				t.Errorf("Open: got %v, want an error with %q and the path", err, tt.want)
			}
		})
	}
}

func TestOpenRefusesBadArguments(t *testing.T) {
	if _, err := Open(t.Context(), "", nil); err == nil {
		t.Error("Open of an empty path: got no error")
	}
	path := filepath.Join(t.TempDir(), "x.db")
	if _, err := Open(t.Context(), path, &Options{Wait: -time.Second}); err == nil {
		t.Error("Open with a negative wait: got no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open under an ended context: got %v, want %v", err, context.Canceled)
	}
}

// makeThen makes a database of ours, then changes it.
func makeThen(t *testing.T, path, statement string) {
	t.Helper()
	api, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, statement)
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// Of the durability settings a power cut would be the real test; that the
// connection in use has them is the part that can be checked here.
func TestWriterIsDurable(t *testing.T) {
	s := serve(t, nil)
	if err := s.api.checkSettings(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute := func(statement string) {
		t.Helper()
		if _, err := s.api.writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute(`pragma synchronous = normal`)
	if err := s.api.checkSettings(t.Context()); err == nil || !strings.Contains(err.Error(), "synchronous") {
		t.Errorf("checkSettings with synchronous = normal: got %v, want an error that names it", err)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	s := serve(t, nil)
	_, err := s.api.reader.ExecContext(t.Context(), `insert into customers (id, name, email) values ('a', 'b', 'c')`)
	if err == nil {
		t.Error("insert on a reader: got no error")
	}
}

func TestBusyDatabaseIs503AndChangesNothing(t *testing.T) {
	s := serve(t, &Options{Wait: 20 * time.Millisecond})
	db, err := sql.Open("sqlite", "file:"+s.path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil) // as another process that writes
	if err != nil {
		t.Fatal(err)
	}
	busy := s.must(503, "POST", "/charges", oneEuro)
	wantProblem(t, busy)
	if got := busy.header.Get("Retry-After"); got != "1" {
		t.Errorf("got Retry-After %q, want 1", got)
	}
	if got := s.totals("").Count; got != 0 {
		t.Errorf("while busy: got %d charges, want 0", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := s.charge(oneEuro).Slip; got != 1 {
		t.Errorf("after a refused charge: got slip %d, want 1", got)
	}
}

func TestLineForTheOneWriterIsBounded(t *testing.T) {
	s := serve(t, &Options{Wait: 20 * time.Millisecond})
	conn, err := s.api.writer.Conn(t.Context()) // at the head of the line, with no transaction
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.must(503, "POST", "/charges", oneEuro))
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.charge(oneEuro)
}

func TestBusyReadersAre503(t *testing.T) {
	s := serve(t, &Options{Wait: 20 * time.Millisecond})
	for range readers {
		conn, err := s.api.reader.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	wantProblem(t, s.must(503, "GET", "/totals", ""))
}

// Once it has the connection, a charge is finished for a caller who hangs up;
// one who hangs up while waiting in line has changed nothing.
func TestHangingUp(t *testing.T) {
	s := serve(t, nil)
	conn, err := s.api.writer.Conn(t.Context()) // holds up the line
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	began := false
	err = s.api.write(ctx, func(context.Context, *sql.Tx) error { began = true; return nil })
	if !errors.Is(err, errNotStarted) || began {
		t.Errorf("write after hanging up: got %v, began %t, want %v", err, began, errNotStarted)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}

	ctx, hangUp = context.WithCancel(t.Context())
	err = s.api.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		hangUp()
		_, err := tx.ExecContext(ctx, `insert into customers (id, name, email) values ('c1', 'b', 'c')`)
		return err
	})
	if err != nil {
		t.Errorf("write with a caller who hangs up inside: %v", err)
	}
	s.must(200, "GET", "/customers/c1", "")
}

func TestHangingUpIsNoFailureOfOurs(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, method := range []string{"GET", "DELETE"} {
		req := httptest.NewRequestWithContext(ctx, method, "/customers/c1", nil)
		s.api.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	if log.Len() > 0 {
		t.Errorf("got log %q, want nothing above Debug", log.String())
	}
}

func TestFailuresAreLoggedWithoutPayload(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := s.api.Close(); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), "PUT", "/customers/c1", strings.NewReader(ada))
	req.Header.Set("Content-Type", "application/json")
	s.api.Handler().ServeHTTP(rec, req)
	if rec.Code != 503 || strings.Contains(rec.Body.String(), "sql") {
		t.Errorf("got %d %s, want 503 without the cause", rec.Code, rec.Body)
	}
	line := log.String()
	if !strings.Contains(line, "PUT /customers/{id}") || !strings.Contains(line, "closed") {
		t.Errorf("got log %q, want the route and the cause", line)
	}
	if strings.Contains(line, "Ada") {
		t.Errorf("got log %q, want no payload", line)
	}
}
