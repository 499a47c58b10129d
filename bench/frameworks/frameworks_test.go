package frameworks_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/store/memstore"
)

func newGuard(t *testing.T) *idemhttp.Middleware {
	t.Helper()
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := idemhttp.New(e, idemhttp.SharedScope, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// charge answers for a customer, once for each run. A customer called panic has it fail.
func charge(runs *atomic.Int64, customer string) (status int, answer map[string]any) {
	n := runs.Add(1)
	if customer == "panic" {
		panic("no such customer")
	}
	return http.StatusCreated, map[string]any{"id": n, "customer": customer}
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

// routers are APIs with one route, with the guard as a middleware of the router, and around all of it.
var routers = map[string]func(guard func(http.Handler) http.Handler, runs *atomic.Int64) http.Handler{
	"chi": func(guard func(http.Handler) http.Handler, runs *atomic.Int64) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.RequestID, middleware.Recoverer, middleware.Compress(5), guard)
		r.Post("/customers/{customer}/charges", func(w http.ResponseWriter, r *http.Request) {
			status, answer := charge(runs, chi.URLParam(r, "customer"))
			reply(w, status, answer)
		})
		return r
	},
	"gorilla": func(guard func(http.Handler) http.Handler, runs *atomic.Int64) http.Handler {
		r := mux.NewRouter()
		r.Use(guard)
		r.HandleFunc("/customers/{customer}/charges", func(w http.ResponseWriter, r *http.Request) {
			status, answer := charge(runs, mux.Vars(r)["customer"])
			reply(w, status, answer)
		}).Methods(http.MethodPost)
		return r
	},
	"echo": func(guard func(http.Handler) http.Handler, runs *atomic.Int64) http.Handler {
		e := echo.New()
		e.Use(echomiddleware.Recover(), echomiddleware.Gzip(), echo.WrapMiddleware(guard))
		e.POST("/customers/:customer/charges", func(c echo.Context) error {
			status, answer := charge(runs, c.Param("customer"))
			return c.JSON(status, answer)
		})
		return e
	},
	"gin": func(guard func(http.Handler) http.Handler, runs *atomic.Int64) http.Handler {
		e := gin.New()
		e.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }), inGin(guard))
		e.POST("/customers/:customer/charges", func(c *gin.Context) {
			status, answer := charge(runs, c.Param("customer"))
			c.JSON(status, answer)
		})
		return e
	},
}

// inGin makes a middleware of net/http one of gin, which has writers of a type of its own.
func inGin(m func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer := c.Writer
		ran := false
		m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran = true
			c.Writer, c.Request = &ginWriter{ResponseWriter: w, gin: outer}, r
			c.Next()
			c.Writer.WriteHeaderNow()
		})).ServeHTTP(outer, c.Request)
		c.Writer = outer
		if !ran {
			c.Abort()
		}
	}
}

// ginWriter is what handlers of gin write to, within a middleware of net/http.
type ginWriter struct {
	http.ResponseWriter
	gin    gin.ResponseWriter
	status int
	size   int
	wrote  bool
}

func (w *ginWriter) WriteHeader(status int) { w.status = status } // gin sends it with the body
func (w *ginWriter) WriteHeaderNow() {
	if !w.wrote {
		w.wrote = true
		w.ResponseWriter.WriteHeader(w.Status())
	}
}
func (w *ginWriter) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(b)
	w.size += n
	return n, err
}
func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }
func (w *ginWriter) Status() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
func (w *ginWriter) Size() int     { return w.size }
func (w *ginWriter) Written() bool { return w.wrote }
func (w *ginWriter) Flush() {
	w.WriteHeaderNow()
	http.NewResponseController(w.ResponseWriter).Flush()
}
func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
func (w *ginWriter) CloseNotify() <-chan bool { return w.gin.CloseNotify() }
func (w *ginWriter) Pusher() http.Pusher      { return w.gin.Pusher() }

func through(next http.Handler) http.Handler { return next }

func TestGuardInsideAndAroundRouters(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for name, router := range routers {
		for _, place := range []string{"inside", "around"} {
			t.Run(name+", "+place, func(t *testing.T) {
				var runs atomic.Int64
				guard := newGuard(t)
				h := router(guard.Handler, &runs)
				if place == "around" {
					h = guard.Handler(router(through, &runs))
				}
				s := httptest.NewServer(h)
				t.Cleanup(s.Close)
				first := post(t, s.URL+"/customers/c-1/charges", "k", "", 201, false)
				if first != `{"customer":"c-1","id":1}` {
					t.Errorf("first: %q", first)
				}
				again := post(t, s.URL+"/customers/c-1/charges", "k", "gzip", 201, true)
				if again != first {
					t.Errorf("again: %q, want %q", again, first)
				}
				post(t, s.URL+"/customers/c-2/charges", "k", "", 422, false)
				post(t, s.URL+"/customers/c-2/charges", "", "", 201, false)
				post(t, s.URL+"/customers/panic/charges", "p", "", 500, false)
				if n := runs.Load(); n != 3 {
					t.Errorf("the handler ran %d times, want 3", n)
				}
				if place == "inside" { // around, the router's own recovery has answered, and that is its answer
					post(t, s.URL+"/customers/panic/charges", "p", "", 409, false)
				} else if name != "gorilla" { // which recovers nothing
					post(t, s.URL+"/customers/panic/charges", "p", "", 500, true)
				}
				if n := runs.Load(); n != 3 {
					t.Errorf("the handler ran %d times, want 3", n)
				}
			})
		}
	}
}

// post sends a request, and returns the body of its answer as one line. A coding that is asked for is decoded.
func post(t *testing.T, url, key, coding string, status int, replayed bool) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"amount":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header["idempotency-key"] = []string{key} // a spelling that keeps the client from sending twice
	}
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: coding == ""}}
	defer c.CloseIdleConnections()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status || (res.Header.Get("Idempotent-Replayed") == "true") != replayed {
		t.Errorf("POST %s with key %q: got %d, replayed %q: want %d, replayed %v", url, key, res.StatusCode, res.Header.Get("Idempotent-Replayed"), status, replayed)
	}
	return strings.TrimSpace(string(body))
}
