package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/e2e/internal/proxy"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// installAxe installs axe-core, in the version of the lock file, and returns its source.
func installAxe(t *testing.T) string {
	t.Helper()
	dir := wire.Node(t, filepath.Join("testdata", "axe"))
	return string(must.Get(os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")))(t))
}

// A view is a colour scheme and a width of the browser.
type view struct {
	scheme string
	width  int64
}

// views are each scheme and each width.
var views = []view{{"light", 1200}, {"dark", 400}}

func (v view) apply(p *page) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(v.width, 900))
}

// show opens a page in v, with something in each section.
func (v view) show(t *testing.T) *page {
	s := newScene(t, telemetry.Options{})
	s.telemetry.FileLoaded("/etc/spillgate/spillgate.yaml", "0123456789abcdef", nil)
	s.ask(8, "ann")
	s.ask(5, "bob")
	s.ask(2, "")
	p := open(t, s.serve(t, dashboard.WithReset(anybody)))
	v.apply(p)
	eval[bool](p, `(document.querySelectorAll("details").forEach(d => d.open = true), document.querySelector("#top button").click(), true)`)
	p.wait(`document.getElementById("state").innerText.includes("left")`)
	return p
}

// Axe finds nothing, and on a narrow screen only tables scroll, each by itself.
func TestAxeFindsNothing(t *testing.T) {
	axe := installAxe(t)
	for _, v := range views {
		t.Run(fmt.Sprint(v.scheme, v.width), func(t *testing.T) {
			p := v.show(t)
			p.fits(v, "page")
			p.check(axe)
		})
	}
}

// check fails the test for each violation that axe finds in p.
func (p *page) check(axe string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](axe+";true")); err != nil {
		p.t.Fatal(err)
	}
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`axe.run().then(r => JSON.stringify(r.violations.map(
		v => ({id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary)}))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	var violations []struct {
		ID, Impact string
		Nodes      []string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		p.t.Fatal(err)
	}
	for _, found := range violations {
		p.t.Errorf("%s (%s): %q", found.ID, found.Impact, found.Nodes[:min(3, len(found.Nodes))])
	}
}

// fits fails the test if p is wider than v. With SCREENSHOTS set to a directory, it keeps an image there.
func (p *page) fits(v view, name string) {
	p.t.Helper()
	if got := eval[int64](p, "document.documentElement.scrollWidth"); got > v.width {
		p.t.Errorf("%s: the page is %d pixels wide, the screen %d", v.scheme, got, v.width)
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		shot, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		if err != nil || os.WriteFile(filepath.Join(dir, fmt.Sprint(name, v.scheme, v.width, ".png")), shot, 0o644) != nil {
			p.t.Error("no screenshot:", err)
		}
	}
}

func TestColourSchemes(t *testing.T) {
	colours := make(map[string]bool)
	for _, v := range views {
		colours[eval[string](v.show(t), "getComputedStyle(document.body).backgroundColor")] = true
	}
	expect.Equal(t, len(colours), 2, "%v for light and dark", colours)
}

// Everything can be reached and used with the keyboard, in the order of the page.
func TestKeyboard(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	s.ask(5, "ann")
	p := open(t, s.serve(t, dashboard.WithReset(anybody)))
	p.wait(`!document.getElementById("top").hidden`)
	var order []string
	for range 40 {
		p.do(chromedp.KeyEvent(kb.Tab))
		at := eval[string](p, `(e => e === document.body ? "" : e.id || e.name || e.getAttribute("aria-labelledby") || e.getAttribute("aria-label") || e.tagName)(document.activeElement)`)
		if at == "" {
			break
		}
		order = append(order, at)
		expect.True(t, eval[bool](p, `parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2 && getComputedStyle(document.activeElement).outlineStyle !== "none"`),
			"%s: the focus cannot be seen", at)
		if at == "lookup-key" {
			p.do(chromedp.KeyEvent("user:ann"), chromedp.KeyEvent(kb.Enter))
			p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
		}
		if at == "reset" {
			p.do(chromedp.KeyEvent(kb.Enter))
			p.wait(`document.getElementById("state").innerText.includes("3 of 3 left")`)
		}
	}
	want := []string{"rule", "period", "SUMMARY", "Table of rules", "Table of keys", "lookup-rule", "lookup-key", "reset", "ban", "duration"}
	i := 0
	for _, at := range order {
		if i < len(want) && at == want[i] {
			i++
		}
	}
	expect.Elements(t, want[i:], nil, "elements missing in the order %q", order)
}

// The name of a website resolves to the page's address, so that the website could read the page from its own origin. It
// gets nothing. Behind nginx, which passes on Host, the page works only under the name that WithHosts allows.
func TestPageBehindNames(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	s.ask(5, "ann")
	direct := s.serve(t, dashboard.WithHosts("admin.test"), dashboard.WithReset(anybody))
	proxy := "http://" + proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: strings.TrimSuffix(strings.TrimPrefix(direct, "http://"), "/")}) + "/"
	for _, url := range []string{direct, proxy} {
		evil := newPage(t)
		evil.quiet.Store(true) // a 403 is an error in the console
		evil.do(chromedp.Navigate(strings.Replace(url, "127.0.0.1", "evil.test", 1)))
		got := eval[string](evil, "document.body.innerText")
		expect.True(t, strings.HasPrefix(got, `The page cannot be opened as "evil.test:`), "%s: a website got %q", url, got)
		read := `(async () => {
			const statuses = [];
			for (const path of ["events", "app.js", "lookup", "reset"]) {
				const response = await fetch(path, path === "events" || path === "app.js" ? undefined : { method: "POST", body: new URLSearchParams({ rule: "api", key: "user:ann" }) });
				statuses.push(response.status);
			}
			return statuses.join(" ");
		})()`
		got = must.Get(chromedp.Run(evil.ctx, chromedp.Evaluate[string](read, chromedp.EvalAwaitPromise)))(t)
		expect.Equal(t, got, "403 403 403 403", "%s: the script of a website", url)
		for _, name := range []string{"admin.test", "localhost", "127.0.0.1"} {
			p := open(t, strings.Replace(url, "127.0.0.1", name, 1))
			p.do(chromedp.Click(chromedp.CSS("#top button")))
			p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
		}
	}
}
