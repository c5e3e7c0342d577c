package dashboard

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// A rule does not count a request as allowed if another rule denied it.
func TestDryRunShowsWhatWasAllowed(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	p := open(t, s.serve(t))
	s.ask(8, "ann")
	p.wait(`document.getElementById("now-allowed").textContent === "0.3" && document.getElementById("now-denied").textContent === "0.5"`)
	rates := eval[[]string](p, `[...document.querySelectorAll("#rules tbody tr")].map(r => [...r.cells].slice(2, 4).map(c => c.innerText).join(" "))`)
	expect.True(t, len(rates) == 2 && rates[0] == "0.3 0.5" && rates[1] == "0.3 0",
		"got %q allowed and denied per second, want 0.3 0.5 of api and 0.3 0 of its dry run", rates)
}

// Nine addresses of a network take one row, and so does one address under nine rules, until they are unfolded.
func TestKeysThatLookAlikeShareARow(t *testing.T) {
	var rules []core.Rule
	for i := range 9 {
		rules = append(rules, core.Rule{Name: fmt.Sprint("rule", i), Key: byUser, Limits: []core.Limit{core.PerDay(1)}})
	}
	s := sceneOf(t, telemetry.Options{}, rules)
	take := func(n int, rule, key string) {
		for range n {
			_, _ = s.limiter.Take(t.Context(), core.Claim{Rule: rule, Key: key})
		}
	}
	for i := range 9 {
		take(31+i, "rule0", fmt.Sprintf("ip:203.0.113.%d", i))
		take(5, fmt.Sprint("rule", i), "ip:198.51.100.7")
	}
	take(11, "rule1", "ip:192.0.2.1")
	p := open(t, s.serve(t))
	rows := func() []string {
		return eval[[]string](p, `[...document.querySelectorAll("#top tbody tr")].map(r => [...r.cells].map(c => c.innerText.replace(/#\w+/, "#")).join(" | "))`)
	}
	folded := []string{"ip:203.0.113.0/24 9 keys | rule0 | 306 | Show", "ip:198.51.100.0/24 # | 9 rules | 36 | Show", "ip:192.0.2.0/24 # | rule1 | 10 | Look up"}
	if got := rows(); fmt.Sprint(got) != fmt.Sprint(folded) {
		t.Fatalf("got %q, want %q", got, folded)
	}
	p.do(chromedp.Click(chromedp.CSS("#top button")))
	got := rows()
	must.True(t, len(got) == 12 && got[1] == "ip:203.0.113.0/24 # | rule0 | 38 | Look up" &&
		got[9] == "ip:203.0.113.0/24 # | rule0 | 30 | Look up" && got[10] == folded[1],
		"got %q, want all nine addresses", got)
	p.check(installAxe(t))
	p.do(chromedp.Click(chromedp.CSS("#top tr:nth-child(2) button")))
	p.wait(`/^ip:203.0.113.0\/24 #\w+ of rule rule0\n+1\/1d: 0 of 1 left/.test(document.getElementById("state").innerText)`)
	take(1, "rule1", "ip:192.0.2.1") // the next event keeps it unfolded
	p.wait(`[...document.querySelectorAll("#top td")].some(c => c.innerText === "11") && document.querySelectorAll("#top tbody tr").length === 12`)
	p.do(chromedp.Click(chromedp.CSS("#top button[aria-expanded=true]")))
	got = rows()
	expect.Equal(t, len(got), 3, "%q (it folded again)", got)
}

// Times are in the browser's time zone, which the page names.
func TestTimeZone(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	s.ask(5, "ann")
	url := s.serve(t)
	for zone, want := range map[string]string{"Asia/Kolkata": `UTC\+05:30`, "America/St_Johns": "UTC−0[23]:30", "UTC": "UTC", "Asia/Tokyo": `UTC\+09:00`} {
		p := newPage(t)
		must.Get(chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}))(t)
		p.do(chromedp.Navigate(url))
		p.wait(`/^times in ` + want + `$/.test(document.getElementById("zone").textContent) && /^Until \(` + want + `\)$/.test(document.getElementById("until").textContent)`)
	}
}

// On a narrow screen, no column is cut off, and each number says what it counts.
func TestNarrowTablesShowAllColumns(t *testing.T) {
	for _, width := range []int64{320, 400, 700, 800} {
		p := view{"light", width}.show(t)
		got := eval[[]string](p, `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.getAttribute("aria-label") + " " + e.scrollWidth + " > " + e.clientWidth)`)
		expect.AtMost(t, len(got), 0, "at %d pixels: %q", width, got)
		heads := eval[string](p, `[...document.querySelectorAll("#rules tbody tr:first-child td:not(.text)")].map(c => getComputedStyle(c, "::before").content).join(" ")`)
		want := `"Allowed/s" "Denied/s" "Allowed" "Near the limit" "Denied" "Would be denied" "Waited"`
		expect.True(t, width >= 760 || heads == want, "at %d pixels, the numbers are %s, want %s", width, heads, want)
		p.fits(view{"light", width}, "narrow-")
	}
	p := open(t, crowded(t).serve(t))
	view{"dark", 400}.apply(p)
	p.wait(`document.querySelectorAll("#rules tbody tr").length > 100`)
	over := eval[int](p, `document.getElementById("rules").scrollWidth - document.getElementById("rules").parentElement.clientWidth`)
	expect.AtMost(t, over, 0, "with long names, the rules are pixels too wide")
}

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
