package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// The page shows the keys with overrides and the grants once there are some, and nothing about them before.
func TestOverridesAndGrants(t *testing.T) {
	s := sceneOf(t, telemetry.Options{Unmask: true}, []core.Rule{{
		Name: "plan", Key: byUser, Limits: []core.Limit{core.PerMonth(10)},
		Override: func(key string) []core.Limit {
			if key == "user:<b>partner" {
				return []core.Limit{core.PerMonth(1000)}
			}
			return nil
		},
	}})
	s.ask(1, "ann")
	p := open(t, s.serve(t))
	p.wait(`document.querySelectorAll("#rules tbody tr").length === 1`)
	got := eval[bool](p, `document.getElementById("own-section").hidden && document.getElementById("grants-section").hidden`)
	expect.True(t, got, "the tables of overrides and grants are shown although there are none")
	s.ask(2, "<b>partner")
	for _, n := range []int{2000, -30} {
		must.Do(t, s.limiter.Grant(t.Context(), "plan", "user:<b>partner", n))
	}
	rows := func(id string) string {
		return `[...document.querySelectorAll("#` + id + ` tbody tr")].map(r => [...r.cells].map(c => c.innerText.replace(/#\w+/, "#").replace(/[\d:]{8}/, "time")).join(" | ")).join("; ")`
	}
	p.wait(rows("own") + ` === "user:<b>partner # | plan | 1000/month | 2 | time | Look up"`)
	p.wait(rows("grants") + ` === "time | plan | user:<b>partner | −30; time | plan | user:<b>partner | +2,000"`)
	p.wait(`document.querySelector("#rules tbody th").innerText.includes("2 decided by overrides")`)
	p.check(installAxe(t))
	view{"light", 400}.apply(p)
	over := eval[int](p, `Math.max(...["own", "grants"].map(id => document.getElementById(id).scrollWidth - document.getElementById(id).parentElement.clientWidth))`)
	expect.AtMost(t, over, 0, "at 400 pixels, a table is pixels too wide")
	p.fits(view{"light", 400}, "quota-")
	p.do(chromedp.Click(chromedp.CSS("#own button")))
	p.wait(`document.getElementById("state").innerText.includes("1000/month: 2968 of 2970 left") && document.getElementById("state").innerText.includes("from an override")`)
}
