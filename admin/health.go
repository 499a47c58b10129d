package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// readyTimeout is how long the store may take to answer.
const readyTimeout = time.Second

// healthz says that the process answers. It asks nobody: a store in trouble is no reason to restart.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", map[string]bool{"alive": true})
}

// readyz says whether requests with keys can be served now.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	reasons := []string{}
	if a.executor.Draining() {
		reasons = append(reasons, "draining")
	}
	if err := a.ready.ask(r.Context(), a.askStore); err != nil {
		reasons = append(reasons, codeUnavailable)
	}
	if len(reasons) > 0 {
		a.refuse(w, r, &Error{Code: codeNotReady, Reasons: reasons, Detail: "Send requests elsewhere, or later: " + strings.Join(reasons, ", ") + "."})
		return
	}
	writeJSON(w, http.StatusOK, "application/json", struct {
		Ready   bool     `json:"ready"`
		Reasons []string `json:"reasons"`
	}{true, reasons})
}

// askStore reads an entry that cannot exist: no key hashes to zero.
func (a *API) askStore(ctx context.Context) error {
	_, err := a.executor.Inspect(ctx, retrysafe.ID{})
	if errors.Is(err, retrysafe.ErrNotFound) {
		return nil
	}
	return err
}

// A probe asks one question at a time, however many callers want to know: the path is open to everybody, and
// a store that hangs must hold neither callers nor more than one goroutine.
type probe struct {
	mu      sync.Mutex
	running *look // nil: none
}

// A look is one question under way. err is set before done is closed.
type look struct {
	done chan struct{}
	err  error
}

// ask returns what question says within readyTimeout. It joins a look that is under way.
func (p *probe) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	l := p.join(question)
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *probe) join(question func(context.Context) error) *look {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running = &look{done: make(chan struct{})}
		go p.run(p.running, question)
	}
	return p.running
}

func (p *probe) run(l *look, question func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout) // nobody's own: others may have joined
	defer cancel()
	l.err = question(ctx)
	p.mu.Lock()
	p.running = nil
	p.mu.Unlock()
	close(l.done)
}
