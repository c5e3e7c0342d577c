package dashboard

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// states are the states that the page can show, with their texts.
var states = []struct {
	name string
	make func(t *testing.T) *scene
	says []string
}{
	{"empty", func(t *testing.T) *scene { return newScene(t, telemetry.Options{}) }, []string{"Nothing was denied.", "api", "3/1d"}},
	{"without-limiters", func(*testing.T) *scene { return &scene{telemetry: telemetry.New(telemetry.Options{})} }, []string{"Nothing was denied."}},
	{"crowded", crowded, []string{"rule-029-", "other", "#"}},
	{"scripts", func(t *testing.T) *scene {
		s := newScene(t, telemetry.Options{Unmask: true})
		s.telemetry.FileLoaded("</script><b>.yaml", "<b>", fmt.Errorf("<img src=x onerror=alert(1)>"))
		for i := range 5 {
			s.ask(5, fmt.Sprintf(`<script>alert(%d)</script>%s`, i, strings.Repeat("ü", 200)))
		}
		return s
	}, []string{"<script>alert(1)</script>", "<img src=x", "</script><b>.yaml"}},
}

// crowded returns a scene of thirty rules with long names, some of them with many limits.
func crowded(t *testing.T) *scene {
	t.Helper()
	var rules []core.Rule
	for i := range 30 {
		name := fmt.Sprintf("rule-%03d-%s", i, strings.Repeat("x", 55))
		rules = append(rules, core.Rule{Name: name, Key: byUser, Limits: core.MustParseLimits("3/d, 100000/w;sliding-window, 7/h;fixed-window"), Routes: []string{fmt.Sprintf("GET /%s/%d/{id}", strings.Repeat("path", 12), i)}})
	}
	rules[0].Limits, rules[0].Routes = []core.Limit{core.PerDay(3)}, nil
	s := sceneOf(t, telemetry.Options{}, rules)
	for i := range 60 { // like limits from tiers
		_, _ = s.limiter.Take(t.Context(), core.Claim{Rule: "of a tier", Key: "user:ann", Limits: []core.Limit{core.PerDay(i + 1)}})
	}
	for i := range 30 {
		for range 9 {
			r := httptest.NewRequest("GET", fmt.Sprintf("/%s/%d/1", strings.Repeat("path", 12), i), nil)
			r.Header.Set("User", fmt.Sprint("user", i))
			_, _ = s.limiter.Check(r)
		}
	}
	return s
}

// In each state the page shows its text and fits its width, and axe finds nothing.
func TestPageStates(t *testing.T) {
	axe := installAxe(t)
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			url := state.make(t).serve(t, dashboard.WithReset(anybody))
			for i, v := range views {
				p := open(t, url)
				v.apply(p)
				for _, want := range state.says {
					text := eval[string](p, "document.body.textContent")
					expect.True(t, strings.Contains(text, want), "%s: the page does not say %q", v.scheme, want)
				}
				p.fits(v, state.name+"-")
				if i == 0 {
					p.check(axe)
				}
			}
		})
	}
}

// A browser may have more tabs than the six connections it opens to a server, so tabs in the background close theirs.
func TestManyTabs(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	url := s.serve(t)
	for range 6 {
		p := open(t, url)
		eval[bool](p, `(Object.defineProperty(document, "hidden", {value: true}), document.dispatchEvent(new Event("visibilitychange")))`)
	}
	p := open(t, url)
	s.ask(5, "ann")
	p.wait(`!document.getElementById("top").hidden`)
	p.do(chromedp.Click(chromedp.CSS("#top button")))
	p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
}

// A tab that is opened in the background connects only once it is shown.
func TestTabInTheBackground(t *testing.T) {
	url := newScene(t, telemetry.Options{}).serve(t)
	p := newPage(t)
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(document, "hidden", {value: true, configurable: true})`,
	})
	must.Do(t, err)
	p.do(chromedp.Navigate(url))
	got := p.text("connection")
	expect.True(t, got == "connecting" && !eval[bool](p, `source !== undefined`), "the tab is %q, and it has a connection", got)
	eval[bool](p, `(Object.defineProperty(document, "hidden", {value: false}), document.dispatchEvent(new Event("visibilitychange")))`)
	p.wait(`document.getElementById("connection").textContent === "live"`)
}
