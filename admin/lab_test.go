package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/answer"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The laboratory: an API over an Executor over a memory store. Most tests run in a synctest bubble, where time is
// that of the test, and call the handler directly.

const token = "correct-horse-battery"

// order is the key of most tests, payload what is asked for under it.
var (
	order   = retrysafe.Key{Scope: "tenant-7", Name: "order-1001"}
	payload = retrysafe.FingerprintOf([]byte("charge 10 EUR"))
)

// created is the answer of most operations.
var created = answer.Answer{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/charges/7"}}, Body: []byte(`{"id":7}`)}

type lab struct {
	*admin.API
	executor *retrysafe.Executor
	store    *hooked
	log      *lines
}

func newLab(t *testing.T, o *retrysafe.Options) *lab {
	t.Helper()
	return labOver(t, &hooked{Store: memstore.New(nil)}, o)
}

func labOver(t *testing.T, s *hooked, o *retrysafe.Options) *lab {
	t.Helper()
	executor, err := retrysafe.New(s, o)
	if err != nil {
		t.Fatalf("retrysafe.New: %v", err)
	}
	log := &lines{}
	api := newAPI(t, executor, &admin.Options{Token: token, Logger: slog.New(slog.NewTextHandler(log, nil))})
	return &lab{api, executor, s, log}
}

func newAPI(t *testing.T, e *retrysafe.Executor, o *admin.Options) *admin.API {
	t.Helper()
	api, err := admin.New(e, o)
	if err != nil {
		t.Fatalf("admin.New: %v", err)
	}
	return api
}

// hooked is a memory store whose reads may be held up or refused.
type hooked struct {
	*memstore.Store
	mu  sync.Mutex
	get func(ctx context.Context) error // nil: allowed
}

func (h *hooked) onGet(f func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.get = f
}

func (h *hooked) Get(ctx context.Context, ids ...retrysafe.ID) ([]retrysafe.Entry, time.Time, error) {
	h.mu.Lock()
	get := h.get
	h.mu.Unlock()
	if get != nil {
		if err := get(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return h.Store.Get(ctx, ids...)
}

// damage makes what stands under key unreadable: it becomes one of a version that nobody knows.
func (h *hooked) damage(t *testing.T, key retrysafe.Key) {
	t.Helper()
	entries, _, err := h.Store.Get(t.Context(), key.ID())
	if err != nil || len(entries) != 1 {
		t.Fatalf("Get(%v): %d entries, %v", key, len(entries), err)
	}
	e := entries[0]
	old := e.Rev
	e.Rev, e.Body = retrysafe.NewRev(), append([]byte{99}, e.Body[1:]...)
	if r, err := h.Swap(t.Context(), old, e); err != nil || !r.OK {
		t.Fatalf("Swap: %v, %v", r.OK, err)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// advance lets d pass, and all that it brings about.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ends runs an operation under key that ends with o.
func (l *lab) ends(t *testing.T, key retrysafe.Key, o retrysafe.Outcome) {
	t.Helper()
	r, err := l.executor.Execute(t.Context(), retrysafe.Request{Key: key, Fingerprint: payload}, func(context.Context) retrysafe.Outcome { return o })
	if err != nil || r.Verdict != retrysafe.Won || r.Err != nil {
		t.Fatalf("Execute(%v): verdict %v, %v, %v", key, r.Verdict, err, r.Err)
	}
}

// completes runs an operation under key that answers created.
func (l *lab) completes(t *testing.T, key retrysafe.Key) {
	t.Helper()
	l.ends(t, key, retrysafe.Outcome{State: retrysafe.Completed, Answer: created.Encode()})
}

// begins starts an operation under key. The returned function lets it complete and returns its result.
func (l *lab) begins(t *testing.T, key retrysafe.Key) (end func() retrysafe.Result) {
	t.Helper()
	began, finish, ended := make(chan struct{}), make(chan struct{}), make(chan retrysafe.Result, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		r, err := l.executor.Execute(ctx, retrysafe.Request{Key: key, Fingerprint: payload}, func(context.Context) retrysafe.Outcome {
			close(began)
			<-finish
			return retrysafe.Outcome{State: retrysafe.Completed, Answer: created.Encode()}
		})
		if err != nil {
			t.Errorf("Execute(%v): %v", key, err)
		}
		ended <- r
	}()
	<-began
	return func() retrysafe.Result { close(finish); return <-ended }
}

// request is one to the API that passes the guard.
func request(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer "+token)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// send lets h answer r and checks what holds for every answer.
func send(t *testing.T, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s %s: header %s is %q, want %q", r.Method, r.URL.Path, name, got, want)
		}
	}
	if w.Code >= 400 {
		problemIn(t, w)
	}
	return w
}

// problemIn reads the problem that w is, and checks that it is a whole one.
func problemIn(t *testing.T, w *httptest.ResponseRecorder) (p admin.Error) {
	t.Helper()
	if got, want := w.Header().Get("Content-Type"), "application/problem+json"; got != want {
		t.Errorf("status %d: Content-Type %q, want %q", w.Code, got, want)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("status %d: body %q: %v", w.Code, w.Body, err)
	}
	if p.Status != w.Code || p.Title == "" || p.Detail == "" || p.Type != admin.DefaultDocsBase+"/operate.md#"+p.Code {
		t.Errorf("status %d: problem %+v is not whole", w.Code, p)
	}
	return p
}

// get returns the body of a GET, which must be answered 200.
func (l *lab) get(t *testing.T, target string) string {
	t.Helper()
	w := send(t, l, request(t, http.MethodGet, target, ""))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, w.Code, w.Body)
	}
	return strings.TrimSpace(w.Body.String())
}

func (l *lab) post(t *testing.T, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, l, request(t, http.MethodPost, target, body))
}

// path is that of a key and of what is done to it.
func path(key retrysafe.Key, verb ...string) string {
	return "/api/keys/" + strings.Join(append([]string{key.ID().String()}, verb...), "/")
}

// detail returns what the API knows of key.
func (l *lab) detail(t *testing.T, key retrysafe.Key) (d admin.Detail) {
	t.Helper()
	read(t, l.get(t, path(key)), &d)
	return d
}

func read(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// wantRefused expects a problem of that status and code whose detail says all the words.
func wantRefused(t *testing.T, w *httptest.ResponseRecorder, status int, code string, words ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d %s, want %d", w.Code, w.Body, status)
	}
	p := problemIn(t, w)
	if p.Code != code {
		t.Errorf("code %q, want %q", p.Code, code)
	}
	for _, word := range words {
		if !strings.Contains(p.Detail, word) {
			t.Errorf("detail %q does not say %q", p.Detail, word)
		}
	}
}

// signed is the body of a decision, signed, with more fields.
func signed(more string) string {
	return fmt.Sprintf(`{"by":"ana","reason":"seen in the bank's list"%s}`, more)
}
