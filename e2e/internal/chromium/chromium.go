// Package chromium starts a browser for tests of pages.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Start starts a browser, which stop ends. It is nil if there is none on this machine.
//
// Chromium's shell comes first. It renders the same pages, but has no windows, menus and profiles, which take longer than a page.
func Start(options ...chromedp.ExecAllocatorOption) (browser context.Context, stop func()) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		all := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], options,
			[]chromedp.ExecAllocatorOption{chromedp.NoSandbox, chromedp.ExecPath(path), chromedp.WSURLReadTimeout(2 * time.Minute)})
		allocator, cancel := chromedp.NewExecAllocator(context.Background(), all...)
		tab, closeTab := chromedp.NewContext(allocator)
		if chromedp.Do(tab) == nil {
			return tab, func() { closeTab(); cancel() }
		}
		cancel()
	}
	return nil, func() {}
}

// Missing tells whether there is no browser, and says so. In CI that fails the test.
func Missing(t *testing.T, browser context.Context) bool {
	t.Helper()
	switch {
	case browser != nil:
		return false
	case os.Getenv("CI") == "true":
		t.Fatal("there is no Chromium, and CI is set")
	}
	t.Log("SKIPPED: there is no Chromium, so no page is opened")
	return true
}
