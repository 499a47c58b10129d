package idemhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
)

// CR-8, ST-4, trap 9: a caller who hangs up is the very case that keys are for.

// A party is a real server in front of a lab that tells of every request: its context, and when it was served.
type party struct {
	*lab
	addr   string
	gone   chan context.Context // of the requests as net/http sees them: it ends when the caller hangs up
	served chan struct{}
}

func newParty(t *testing.T, s setup, h http.HandlerFunc) *party {
	p := &party{lab: newLab(t, s, h), gone: make(chan context.Context, 8), served: make(chan struct{}, 8)}
	p.addr = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { p.served <- struct{}{} }()
		p.gone <- r.Context()
		p.lab.ServeHTTP(w, r)
	}))
	return p
}

// big is an answer that no socket buffer takes whole.
var big = strings.Repeat("0123456789abcdef", 900<<10/16)

func bigAnswer(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(201)
	io.WriteString(w, big)
}

// wantWhole expects a caller of the same key to get the whole answer, and the handler to have run once.
func (p *party) wantWhole(t *testing.T, replayed bool) {
	t.Helper()
	c := dial(t, p.addr)
	c.post(t, "/", "k", "")
	got := c.answer(t)
	if got.status != 201 || got.body != big || got.cut {
		t.Errorf("the next caller got %d with %d bytes, cut %v: want the whole answer", got.status, len(got.body), got.cut)
	}
	wantMarker(t, "the next caller", got, replayed)
	p.wantRuns(t, 1)
}

func TestHangUpBeforeTheClaim(t *testing.T) {
	p := newParty(t, setup{}, bigAnswer)
	arrived := make(chan struct{}, 1)
	p.store.hook(func(ctx context.Context, verb string) error {
		if verb == "create" {
			arrived <- struct{}{}
			<-ctx.Done() // the claim is on its way when the caller goes
		}
		return nil
	})
	c := dial(t, p.addr)
	c.post(t, "/", "k", "")
	recv(t, "the claim", arrived)
	c.reset()
	recv(t, "the first is served", p.served)
	p.store.up()
	p.wantWhole(t, false)
}

func TestHangUpWhileTheHandlerRuns(t *testing.T) {
	for name, hangUp := range map[string]func(*wire){"reset": (*wire).reset, "close": func(c *wire) { c.Close() }, "half close": func(c *wire) { c.CloseWrite() }} {
		t.Run(name, func(t *testing.T) {
			running, left := make(chan struct{}), make(chan struct{})
			p := newParty(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
				close(running)
				<-left
				if err := r.Context().Err(); err != nil {
					t.Errorf("the handler's context ended with its caller: %v", err)
				}
				bigAnswer(w, r)
			})
			c := dial(t, p.addr)
			c.post(t, "/", "k", "")
			recv(t, "the handler", running)
			hangUp(c)
			recv(t, "net/http notices", recv(t, "the request", p.gone).Done())
			close(left)
			recv(t, "the first is served", p.served)
			p.wantWhole(t, true)
		})
	}
}

func TestHangUpBeforeTheRecord(t *testing.T) {
	p := newParty(t, setup{}, bigAnswer)
	recording := make(chan struct{})
	p.store.hook(func(ctx context.Context, verb string) error {
		if verb != "swap" {
			return nil
		}
		close(recording)
		<-(<-p.gone).Done() // the record is on its way when the caller goes
		if ctx.Err() != nil {
			t.Errorf("the record hangs on the caller's context: %v", ctx.Err())
		}
		return nil
	})
	c := dial(t, p.addr)
	c.post(t, "/", "k", "")
	recv(t, "the record", recording)
	c.reset()
	recv(t, "the first is served", p.served)
	p.store.up()
	p.wantWhole(t, true)
}

func TestHangUpWhileTheAnswerIsSent(t *testing.T) {
	p := newParty(t, setup{}, bigAnswer)
	c := dial(t, p.addr)
	c.post(t, "/", "k", "")
	if _, err := c.r.ReadByte(); err != nil {
		t.Fatal(err)
	}
	c.reset()
	recv(t, "the first is served", p.served)
	p.wantWhole(t, true)
}

func TestHangUpWhileStreaming(t *testing.T) {
	finished := make(chan struct{})
	var p *party
	p = newParty(t, setup{}, func(w http.ResponseWriter, r *http.Request) {
		defer close(finished)
		request := <-p.gone
		io.WriteString(w, "event")
		w.(http.Flusher).Flush()
		<-request.Done()
		if r.Context().Err() != nil {
			t.Error("the handler's context ended with its caller")
		}
		for range 100 {
			io.WriteString(w, big) // to nobody
		}
	})
	c := dial(t, p.addr)
	c.post(t, "/", "k", "")
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	c.reset()
	recv(t, "the handler ends by itself", finished)
	recv(t, "the first is served", p.served)
	c = dial(t, p.addr)
	c.post(t, "/", "k", "")
	wantStatus(t, "again", c.answer(t), 200, "answer-not-kept")
	p.wantRuns(t, 1)
}

// TO-5: a waiter who hangs up leaves at once, and disturbs neither the first nor the other waiters.
func TestWaitersHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, running, letGo := blocking()
		l := newLab(t, setup{guard: idemhttp.Options{Wait: time.Minute}}, h)
		first := l.start(post("k"))
		<-running
		patient := l.start(post("k"))
		ctx, hangUp := context.WithCancel(t.Context())
		impatient := l.start(post("k").WithContext(ctx))
		advance(time.Second)
		hangUp()
		synctest.Wait()
		select {
		case got := <-impatient:
			wantProblem(t, "who hung up", got, 409, problem.InFlight)
		default:
			t.Error("who hung up still waits")
		}
		close(letGo)
		wantCharged(t, "first", <-first, false)
		wantCharged(t, "who waited", <-patient, true)
		l.wantRuns(t, 1)
	})
}
