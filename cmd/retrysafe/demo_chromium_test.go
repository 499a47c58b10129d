package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A browser is a headless Chromium with one page open.
type browser struct {
	ctx context.Context
}

// openChromium starts a browser that runs until the test ends. A complaint on its console fails the test.
func openChromium(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), 10*deadline, fmt.Errorf("the browser took longer than %v", 10*deadline))
	t.Cleanup(cancel)
	// As root chromedp takes the sandbox away by itself: Chromium would not start.
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(findChromium(t)), chromedp.DisableGPU)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	said := chromedp.Console(ctx)
	t.Cleanup(func() {
		const end = "the test ends"
		b.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("console.log(%q)", end)))
		for m, err := range said {
			if err != nil {
				t.Errorf("read the browser's console: %v", err)
			}
			if err != nil || m.Text == end {
				return
			}
			t.Errorf("the page has nothing to say on the console: got %s (%s)", m, m.URL)
		}
	})
	return b
}

// chromiumNames are those under which scripts/test-services looks for a browser.
var chromiumNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func findChromium(t *testing.T) string {
	t.Helper()
	names := chromiumNames
	if name := os.Getenv("RETRYSAFE_TEST_CHROMIUM"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("no browser here, looked for %q: run scripts/test-services", names)
	return ""
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("browser: %s: %v", expression, err)
	}
	return value
}

// prefer sets a media feature, as a visitor's system does.
func (b *browser) prefer(t *testing.T, feature, value string) {
	t.Helper()
	features := []*emulation.MediaFeature{{Name: feature, Value: value}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatalf("browser: %s %s: %v", feature, value, err)
	}
}
