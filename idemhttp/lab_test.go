package idemhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The laboratory of the middleware's tests: a guarded handler over a store in memory, whose calls are counted
// and can be made to fail or to hang.

// A setup is what a lab is made of. Its zero value is every default, with one scope for all.
type setup struct {
	guard idemhttp.Options
	core  retrysafe.Options
	scope idemhttp.ScopeFunc
}

// A lab is a guarded handler and what it stands on.
type lab struct {
	http.Handler
	executor *retrysafe.Executor
	guard    *idemhttp.Middleware
	store    *store
	log      *logbook
	runs     atomic.Int64
}

// newLab guards h. Its store has answered before, so that every call it counts belongs to a request.
func newLab(t *testing.T, s setup, h http.HandlerFunc) *lab {
	t.Helper()
	l := &lab{store: &store{Store: memstore.New(nil)}, log: &logbook{}}
	s.guard.Logger = slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.core.Logger = s.guard.Logger
	if s.scope == nil {
		s.scope = idemhttp.SharedScope
	}
	var err error
	if l.executor, err = retrysafe.New(l.store, &s.core); err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	if err := l.executor.Open(t.Context()); err != nil {
		t.Fatalf("Open: %v", err)
	}
	guard, err := idemhttp.New(l.executor, s.scope, &s.guard)
	l.guard = guard
	if err != nil {
		t.Fatalf("idemhttp.New: %v", err)
	}
	l.Handler = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.runs.Add(1)
		h(w, r)
	}))
	t.Cleanup(func() {
		if strings.Contains(l.log.String(), "secret") { // whatever a test is about: what was asked and answered holds the word
			t.Errorf("the log tells what was asked or answered: %s", l.log)
		}
		ctx, stop := context.WithCancel(context.Background())
		stop()
		l.executor.Drain(ctx) // what a failed test left behind ends with it
	})
	l.store.calls.Store(0)
	return l
}

// A store is a memory store that counts its calls and has a hook before and after each.
type store struct {
	*memstore.Store
	calls         atomic.Int64
	before, after atomic.Pointer[func(ctx context.Context, verb string) error]
}

var errDown = errors.New("connection refused")

// hook has f say of every call from now on whether it takes place.
func (s *store) hook(f func(ctx context.Context, verb string) error) { s.before.Store(&f) }

// down makes the calls of some verbs fail, or all.
func (s *store) down(verbs ...string) { s.hook(failing(verbs)) }

// lose lets the calls of some verbs take place, or all, and loses their answers.
func (s *store) lose(verbs ...string) {
	f := failing(verbs)
	s.after.Store(&f)
}

func failing(verbs []string) func(context.Context, string) error {
	return func(_ context.Context, verb string) error {
		if len(verbs) == 0 || slices.Contains(verbs, verb) {
			return errDown
		}
		return nil
	}
}

func (s *store) up() {
	s.before.Store(nil)
	s.after.Store(nil)
}

func (s *store) call(ctx context.Context, verb string) error {
	s.calls.Add(1)
	if f := s.before.Load(); f != nil {
		return (*f)(ctx, verb)
	}
	return nil
}

func (s *store) write(ctx context.Context, verb string, do func() (retrysafe.Reply, error)) (retrysafe.Reply, error) {
	if err := s.call(ctx, verb); err != nil {
		return retrysafe.Reply{}, err
	}
	rep, err := do()
	if f := s.after.Load(); f != nil && err == nil {
		err = (*f)(ctx, verb)
	}
	if err != nil {
		return retrysafe.Reply{}, err
	}
	return rep, nil
}

func (s *store) Create(ctx context.Context, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.write(ctx, "create", func() (retrysafe.Reply, error) { return s.Store.Create(ctx, e) })
}

func (s *store) Swap(ctx context.Context, old retrysafe.Rev, e retrysafe.Entry) (retrysafe.Reply, error) {
	return s.write(ctx, "swap", func() (retrysafe.Reply, error) { return s.Store.Swap(ctx, old, e) })
}

func (s *store) Delete(ctx context.Context, id retrysafe.ID, old retrysafe.Rev) (retrysafe.Reply, error) {
	return s.write(ctx, "delete", func() (retrysafe.Reply, error) { return s.Store.Delete(ctx, id, old) })
}

func (s *store) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	if err := s.call(ctx, "get"); err != nil {
		return nil, time.Time{}, err
	}
	return s.Store.Get(ctx, ids...)
}

// dump is all that stands in the store, to the byte.
func (s *store) dump(t *testing.T) string {
	t.Helper()
	page, err := s.List(t.Context(), retrysafe.Query{Limit: 1000})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	var b strings.Builder
	for _, e := range page.Entries {
		b.WriteString(e.Scope + "\n" + e.Display + "\n")
		b.Write(e.Body)
	}
	return b.String()
}

// A logbook is a log that many goroutines may write.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A reply is what a caller was told.
type reply struct {
	status int
	header http.Header
	body   string
	cut    bool // the connection was cut: the answer is not whole
}

// request returns a request with header lines, given as names and values in turn.
func request(method, target, body string, lines ...string) *http.Request {
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, from)
	for i := 0; i < len(lines); i += 2 {
		r.Header.Add(lines[i], lines[i+1])
	}
	return r
}

// post is the request of most tests: a charge under a key.
func post(key string, lines ...string) *http.Request {
	return request(http.MethodPost, "/charges?source=query-secret", `{"card":"body-secret"}`,
		append([]string{"Idempotency-Key", key, "Content-Type", "application/json", "X-Api-Key", "header-secret"}, lines...)...)
}

// do has the lab answer r.
func (l *lab) do(r *http.Request) reply { return answered(l.Handler, r) }

func answered(h http.Handler, r *http.Request) (got reply) {
	w := httptest.NewRecorder()
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			got = reply{cut: true}
		default:
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		panic(err) // a recorder's body cannot break off
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(body)}
}

// start has the lab answer r in a goroutine of its own.
func (l *lab) start(r *http.Request) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- l.do(r) }()
	return done
}

// charged is the handler of most tests. What it answers must be told to nobody who is refused.
func charged(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/charges/answer-secret")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"id":"answer-secret"}`)
}

// blocking returns a handler that tells when it runs and answers like charged once it is let go.
func blocking() (h http.HandlerFunc, running <-chan struct{}, letGo chan<- struct{}) {
	began, end := make(chan struct{}, 64), make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-end
		charged(w, r)
	}, began, end
}

// wantRuns expects the handler to have run so many times.
func (l *lab) wantRuns(t *testing.T, want int64) {
	t.Helper()
	if got := l.runs.Load(); got != want {
		t.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// wantCharged expects what charged answers, from the first or as a replay.
func wantCharged(t *testing.T, what string, got reply, replayed bool) {
	t.Helper()
	if got.status != http.StatusCreated || got.body != `{"id":"answer-secret"}` || got.header.Get("Location") != "/charges/answer-secret" {
		t.Errorf("%s: got %d %q, want the charge", what, got.status, got.body)
	}
	wantMarker(t, what, got, replayed)
}

// wantMarker expects the replay marker to stand there once, or not at all.
func wantMarker(t *testing.T, what string, got reply, replayed bool) {
	t.Helper()
	if marker := got.header["Idempotent-Replayed"]; replayed && (len(marker) != 1 || marker[0] != "true") || !replayed && marker != nil {
		t.Errorf("%s: Idempotent-Replayed is %q, want it: %v", what, marker, replayed)
	}
}

// wantStatus expects the status, and the Idempotency-Status header, "" for none.
func wantStatus(t *testing.T, what string, got reply, status int, said string) {
	t.Helper()
	if got.status != status || got.header.Get("Idempotency-Status") != said {
		t.Errorf("%s: got %d with Idempotency-Status %q, want %d with %q; body %q", what, got.status, got.header.Get("Idempotency-Status"), status, said, got.body)
	}
}

// wantProblem expects an answer of the layer's own: well-formed, not to be cached, and silent about what was
// asked and answered.
func wantProblem(t *testing.T, what string, got reply, status int, code problem.Code) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Instance, Original string
		Status                                  int
		Code                                    problem.Code
	}
	d := json.NewDecoder(strings.NewReader(got.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || d.More() {
		t.Fatalf("%s: got %d %q, want a problem with code %s: %v", what, got.status, got.body, code, err)
	}
	page := idemhttp.DefaultDocsBase + "/protocol.md#" + string(code)
	switch {
	case (p.Original != "") != (code == problem.KeyReused):
		t.Errorf("%s: original is %q, want it for %s alone", what, p.Original, problem.KeyReused)
	case got.status != status || p.Status != status || p.Code != code:
		t.Errorf("%s: got %d, body status %d, code %s: want %d %s", what, got.status, p.Status, p.Code, status, code)
	case p.Type != page || p.Title == "" || p.Detail == "":
		t.Errorf("%s: got type %q, title %q, detail %q: want type %q and words", what, p.Type, p.Title, p.Detail, page)
	}
	for name, want := range map[string]string{"Content-Type": "application/problem+json", "Content-Language": "en", "Cache-Control": "no-store",
		"Link": "<" + page + `>; rel="describedby"; type="text/html"`} {
		if lines := got.header.Values(name); len(lines) != 1 || lines[0] != want {
			t.Errorf("%s: %s is %q, want %q", what, name, lines, want)
		}
	}
	for name, lines := range got.header {
		if strings.Contains(strings.Join(lines, "\n"), "secret") {
			t.Errorf("%s: %s: %q tells what was asked or answered", what, name, lines)
		}
	}
	if strings.Contains(got.body, "secret") {
		t.Errorf("%s: the problem tells what was asked or answered: %s", what, got.body)
	}
	wantMarker(t, what, got, false)
}

// wantRetryAfter expects whole seconds between 1 and most, or no header where most is 0.
func wantRetryAfter(t *testing.T, what string, got reply, most int) {
	t.Helper()
	field := got.header.Get("Retry-After")
	if n, err := strconv.Atoi(field); most == 0 && field != "" || most > 0 && (err != nil || n < 1 || n > most) {
		t.Errorf("%s: Retry-After is %q, want 1 to %d s (0: no header)", what, field, most)
	}
}

// idOf returns the ID of a key in the shared scope.
func idOf(key string) retrysafe.ID { return retrysafe.Key{Scope: "shared", Name: key}.ID() }

// stands returns what operators see under a key of the shared scope, or its zero value.
func (l *lab) stands(t *testing.T, key string) retrysafe.Record {
	t.Helper()
	r, err := l.executor.Inspect(t.Context(), idOf(key))
	if err != nil && !errors.Is(err, retrysafe.ErrNotFound) {
		t.Fatalf("Inspect(%s): %v", key, err)
	}
	return r
}

// advance lets d pass on the clock of a synctest bubble, and all that it brings about.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
