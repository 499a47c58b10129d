package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// startDemoPage runs the demo until the test ends, which must end it well, and returns its address.
func startDemoPage(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	out, stderr, status := newTranscript(), newTranscript(), make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"demo", "--no-browser"}, args...), nil, out, stderr)
		out.end()
	}()
	t.Cleanup(func() {
		stop()
		if got := <-status; got != exitOK || stderr.String() != "" {
			t.Errorf("demo, stopped: got status %d and %q, want %d and silence", got, stderr, exitOK)
		}
	})
	return out.await(t, `^The demo is on (http://127\.0\.0\.1:\d+/) `)[1]
}

func readEvents(t *testing.T, page string) (e demoEvents) {
	t.Helper()
	if err := getJSON(t.Context(), page+"events.json", &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// The page of one run, read as a visitor sees it, says what the run's events and the payment API say.
func TestDemoPageInBrowser(t *testing.T) {
	t.Parallel()
	page := startDemoPage(t, "--seed", "7")
	b := openChromium(t)
	b.do(t, chromedp.EmulateViewport(1440, 1000), chromedp.Navigate(page), runEnded(1))
	events := readEvents(t, page)
	if events.State != pageDone || events.Run != 1 || events.Seed != 7 {
		t.Fatalf("got run %d of seed %d, %s %s, want the first, done", events.Run, events.Seed, events.State, events.Flaw)
	}
	t.Run("pictures", func(t *testing.T) { wantPictures(t, b, events) })
	t.Run("totals", func(t *testing.T) { wantTotals(t, b, events) })
	t.Run("layout", func(t *testing.T) { wantLayout(t, b) })
	t.Run("run again", func(t *testing.T) {
		b.do(t, chromedp.Focus(chromedp.CSS("#again")), chromedp.KeyEvent(kb.Enter), runEnded(2))
		again := readEvents(t, page)
		if again.State != pageDone {
			t.Fatalf("got run %d %s: %s, want it done", again.Run, again.State, again.Flaw)
		}
		wantTotals(t, b, again)
		for i, o := range again.Operations {
			if first := events.Operations[i]; o.Order != first.Order || o.Fault != first.Fault {
				t.Errorf("the same seed: got %s, %s, first %s, %s", o.Order, o.Fault, first.Order, first.Fault)
			}
		}
	})
}

// runEnded waits until the page has drawn how the run ended, well or not.
func runEnded(run int) chromedp.Action[chromedp.Void] {
	return chromedp.WaitReady(chromedp.CSS(fmt.Sprintf("body[data-run='%d']:is([data-state=done], [data-state=failed])", run)))
}

// A drawn is one message as the picture has it: what it says, and where it stands.
type drawn struct {
	message
	Step   int     `json:"step"`
	Y      float64 `json:"y"`
	Begins float64 `json:"begins"` // where its line or its dot begins
	Ends   float64 `json:"ends"`
}

type drawnPicture struct {
	Client    string             `json:"client"`
	Lifelines []string           `json:"lifelines"`
	X         map[string]float64 `json:"x"` // of each lifeline
	Messages  []drawn            `json:"messages"`
	Words     []string           `json:"words"`
}

// readPictures reads them from the page as they are drawn, not from what was to be drawn.
const readPictures = `Array.from(document.querySelectorAll('#stories article'), (a) => {
	const heads = Array.from(a.querySelectorAll('[data-lifeline]'));
	return {
		client: a.dataset.client,
		lifelines: heads.map((h) => h.textContent),
		x: Object.fromEntries(heads.map((h) => [h.dataset.lifeline, +h.getAttribute('x')])),
		words: Array.from(a.querySelectorAll('ol li'), (li) => li.textContent),
		messages: Array.from(a.querySelectorAll('[data-step]'), (m) => {
			const line = m.querySelector('line'), dot = m.querySelector('circle');
			return {
				from: m.dataset.from, to: m.dataset.to, kind: m.dataset.kind, attempt: +m.dataset.attempt, step: +m.dataset.step,
				text: m.querySelector('text').textContent, y: +(line ? line.getAttribute('y1') : dot.getAttribute('cy')),
				begins: +(line ? line.getAttribute('x1') : dot.getAttribute('cx')), ends: +(line ? line.getAttribute('x2') : dot.getAttribute('cx')),
			};
		}),
	};
})`

// wantPictures chooses each fault with the keyboard and compares what is drawn with the events, one by one.
func wantPictures(t *testing.T, b *browser, events demoEvents) {
	b.do(t, chromedp.Focus(chromedp.CSS("#faults input:checked")))
	seen := map[string]bool{}
	for range events.Operations {
		chosen := eval[int](t, b, `+document.querySelector('#faults input:checked').value`)
		operation := events.Operations[chosen]
		seen[operation.Fault] = true
		pictures := eval[[]drawnPicture](t, b, readPictures)
		if len(pictures) != len(events.Clients) {
			t.Fatalf("%s: got %d pictures, want %d", operation.Fault, len(pictures), len(events.Clients))
		}
		for i, p := range pictures {
			where := fmt.Sprintf("%s, %s", operation.Fault, events.Clients[i].Name)
			if p.Client != events.Clients[i].Customer || !slices.Equal(p.Lifelines, operation.Stories[i].Lifelines) {
				t.Errorf("%s: got the picture of %s with %q, want %q", where, p.Client, p.Lifelines, operation.Stories[i].Lifelines)
			}
			wantMessages(t, where, p, operation.Stories[i].Messages)
		}
		b.do(t, chromedp.KeyEvent(kb.ArrowDown)) // the next fault
	}
	if len(seen) != len(faults) {
		t.Errorf("the arrow keys reach %v, want %d faults", seen, len(faults))
	}
}

func wantMessages(t *testing.T, where string, p drawnPicture, want []message) {
	t.Helper()
	if len(p.Messages) != len(want) || len(p.Words) != len(want) || len(want) == 0 {
		t.Fatalf("%s: got %d messages drawn and %d in words, want %d", where, len(p.Messages), len(p.Words), len(want))
	}
	above := 0.0
	for i, got := range p.Messages {
		if got.message != want[i] || got.Step != i+1 {
			t.Errorf("%s: message %d: got %+v, want %+v", where, i+1, got, want[i])
		}
		// The arrow begins at the lifeline of its sender, points to that of its receiver, and time runs down.
		from, to := p.X[got.From], p.X[got.To]
		points := (got.Ends - got.Begins) * (to - from)
		if got.Begins != from || from != to && points <= 0 || got.Y <= above {
			t.Errorf("%s: message %d from %s to %s: drawn from %v to %v at height %v below %v, lifelines %v", where, i+1, got.From, got.To, got.Begins, got.Ends, got.Y, above, p.X)
		}
		above = got.Y
		if !strings.HasPrefix(p.Words[i], fmt.Sprintf("Attempt %d: ", want[i].Attempt)) {
			t.Errorf("%s: message %d in words: %q", where, i+1, p.Words[i])
		}
	}
}

// wantTotals compares the page with what the payment API itself has of each client, order by order.
func wantTotals(t *testing.T, b *browser, events demoEvents) {
	fields := eval[map[string]map[string]string](t, b, `Object.fromEntries(Array.from(document.querySelectorAll('#clients article'), (a) =>
		[a.dataset.client, Object.fromEntries(Array.from(a.querySelectorAll('[data-field]'), (f) => [f.dataset.field, f.textContent]))]))`)
	marks := eval[map[string][]string](t, b, `Object.fromEntries(Array.from(document.querySelectorAll('#clients article'), (a) =>
		[a.dataset.client, Array.from(a.querySelectorAll('.marks > i'), (m) => m.className)]))`)
	for i, c := range events.Clients {
		var totals struct{ Count int }
		if err := getJSON(t.Context(), events.API+"/totals?customer="+c.Customer, &totals); err != nil {
			t.Fatal(err)
		}
		made, err := charges(t.Context(), events.API, c.Customer)
		if err != nil {
			t.Fatal(err)
		}
		missing, double := 0, 0
		for order := range events.Orders {
			n := made[orderName(order)]
			missing += max(1-n, 0)
			double += max(n-1, 0)
			if mark := marks[c.Customer][order]; (mark == "mark missing") != (n == 0) || (mark == "mark double") != (n > 1) {
				t.Errorf("%s: %s has %d charges and is drawn as %q", c.Name, orderName(order), n, mark)
			}
		}
		want := map[string]string{
			"charges": strconv.Itoa(totals.Count), "orders": strconv.Itoa(events.Orders), "missing": strconv.Itoa(missing), "double": strconv.Itoa(double),
			"requests": strconv.Itoa(c.Requests), "deceived": strconv.Itoa(c.Deceived),
		}
		if !reflect.DeepEqual(fields[c.Customer], want) {
			t.Errorf("%s: the page says %v, the payment API %v", c.Name, fields[c.Customer], want)
		}
		if good := missing+double+c.Deceived == 0; good != (i == 3) {
			t.Errorf("%s: %v, want only the last client without a flaw", c.Name, want)
		}
	}
}

// wantLayout checks that nothing is cut off, on a telephone and on a desk, in both colour schemes.
func wantLayout(t *testing.T, b *browser) {
	for _, width := range []int64{360, 768, 1440} {
		b.do(t, chromedp.EmulateViewport(width, 900))
		if got := eval[int64](t, b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("at %d px the page is %d px wide", width, got)
		}
	}
	cut := eval[[]string](t, b, `Array.from(document.querySelectorAll('svg text')).filter((e) => {
		const at = e.getBBox(), all = e.ownerSVGElement.viewBox.baseVal;
		return at.x < 0 || at.x + at.width > all.width || at.y + at.height > all.height;
	}).map((e) => e.textContent)`)
	if len(cut) > 0 {
		t.Errorf("these words reach out of their picture: %q", cut)
	}
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(t, "prefers-color-scheme", scheme)
		grounds[eval[string](t, b, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark: got the grounds %v, want two", grounds)
	}
}
