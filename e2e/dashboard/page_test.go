package dashboard

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

func TestPageShowsTheCounts(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	p := open(t, s.serve(t))
	p.recordEvents(`document.getElementById("top").innerText.includes("5")`)
	s.ask(8, "ann")
	s.ask(2, "bob")
	s.ask(1, "")
	after := fmt.Sprintf(`events.filter(e => e.now > %d)`, time.Now().UnixMilli())
	took := p.wait(after + `.length > 0`)
	t.Logf("the page showed it after %v", took)
	expect.True(t, eval[bool](p, after+`.every(e => e.shown)`), "the first event after the requests did not show them")
	p.wait(`document.getElementById("now-denied").textContent === "0.5"`)    // for ten seconds
	p.wait(`events.some((e, i) => i > 0 && e.now - events[i-1].now < 1500)`) // a busy machine sends some of them late
	for id, wants := range map[string][]string{
		"rules":         {"api", "3/1d", "trial", "dry run", "1/1d", "GET /trial/{id}"},
		"undecided":     {"1"},
		"undecided-why": {"no key: 1"},
		"health":        {"store: ok"},
		"top":           {"user:", "api", "5"},
	} {
		for _, want := range wants {
			expect.Contains(t, p.text(id), want, "%s", id)
		}
	}
	got := p.text("top")
	expect.True(t, !strings.Contains(got, "ann"), "%q: the key is not masked", got)
	cells := eval[[]string](p, `[...document.querySelectorAll("#rules tbody tr")].map(r => [...r.cells].slice(4).map(c => c.innerText).join(" "))`)
	if want := "5 1 5 0 0"; len(cells) != 2 || cells[0] != want { // allowed, near, denied, would be denied, waited
		t.Errorf("got %q, want %q first", cells, want)
	}
	want := "2 2 0 8 0"
	expect.True(t, len(cells) == 2 && cells[1] == want, "got %q, want %q last", cells, want)
	p.wait(`[...document.querySelectorAll("#traffic-table tbody td:nth-child(3)")].some(c => parseFloat(c.textContent) > 0)`)
	expect.True(t, eval[bool](p, `document.querySelector("#traffic svg .area-denied").getBBox().height > 10`),
		"the chart does not show the denials")
}

// recordEvents makes p record all further events: when the server sent them, and whether shown is true after each.
func (p *page) recordEvents(shown string) {
	p.t.Helper()
	eval[bool](p, `(() => {
		window.events = [];
		const original = receive;
		receive = event => {
			original(event);
			events.push({ now: event.now, shown: `+shown+` });
		};
		return true;
	})()`)
}

// A store is a MemoryStore that reports leases.
type store struct {
	core.MemoryStore
	decisions atomic.Uint64
}

func (s *store) LeaseStats() core.LeaseStats {
	return core.LeaseStats{Keys: 3, Decisions: s.decisions.Load(), Returned: 5}
}

func TestHeldAndLeased(t *testing.T) {
	store := new(store)
	s := newScene(t, telemetry.Options{}, core.WithStore(store))
	p := open(t, s.serve(t))
	expect.True(t, eval[bool](p, `document.getElementById("held-tile").hidden`), "the page mentions holds, although nothing was ever held")
	d := must.Get(s.limiter.Take(t.Context(), core.Claim{Rule: "job", Key: "k", Limits: core.MustParseLimits("2 at once"), Hold: true}))(t)
	p.wait(`!document.getElementById("held-tile").hidden && document.getElementById("held").textContent === "1"`)
	must.Do(t, s.limiter.Settle(t.Context(), d, "", 1))
	p.wait(`document.getElementById("held").textContent === "0" && document.getElementById("settled").textContent.includes("1 charged, 0 free")`)
	store.decisions.Store(2000)
	p.wait(`!document.getElementById("leases-tile").hidden && document.getElementById("leases").textContent.includes("3 keys leased; 2K since start, 5 given back")`)
	store.decisions.Store(2_000_000)
	p.wait(`document.getElementById("leased").textContent !== "0"`)
}

// A page that is opened later shows the earlier counts.
func TestPageOpensWithHistory(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	for time.Now().UnixMilli()%10_000 > 8_000 { // the chart of an hour has steps of ten seconds
		time.Sleep(100 * time.Millisecond)
	}
	s.ask(10, "ann")
	time.Sleep(1100 * time.Millisecond) // the second must have ended
	p := open(t, s.serve(t))
	p.wait(`document.querySelector("#traffic svg .area-denied").getBBox().height > 10`)
	p.do(chromedp.Click(chromedp.CSS("[value='3600']")))
	p.wait(`document.querySelector("#traffic svg").getAttribute("aria-label").includes("0.7 denied")`) // 7 in 10 seconds
}

// The chart and its table begin when counting began, without an empty stretch before that.
func TestChartBeginsWithTheCounts(t *testing.T) {
	p := open(t, newScene(t, telemetry.Options{}).serve(t))
	age := func(step int) string { // steps from the start to the end of the chart
		return fmt.Sprintf("(Math.floor(last.now / %[1]d) - Math.floor(last.start / %[1]d))", 1000*step)
	}
	points := `document.querySelector("#traffic .area-allowed").points.numberOfItems / 2`
	rows := `document.querySelector("#traffic-table").tBodies[0].rows.length`
	p.wait(`last && ` + age(1) + ` > 2`)
	for _, row := range []struct{ what, shown, steps, most string }{
		{"points of five minutes", points, age(1), "300"},
		{"rows of five minutes", rows, age(10), "30"},
		{"points of an hour", points, age(10), "360"},
		{"rows of an hour", rows, age(120), "30"},
	} {
		if strings.HasSuffix(row.what, "an hour") {
			p.do(chromedp.Click(chromedp.CSS("[value='3600']")))
		}
		want := fmt.Sprintf("Math.min(%s, Math.max(2, %s))", row.most, row.steps)
		got := eval[string](p, row.shown+` + " of " + `+want)
		expect.True(t, eval[bool](p, row.shown+` === `+want), "%s: %s", row.what, got)
	}
}

func TestChosenRule(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	p := open(t, s.serve(t))
	s.ask(5, "ann")
	p.wait(`document.getElementById("now-denied").textContent === "0.2"`)
	eval[bool](p, `(() => { const e = document.getElementById("rule"); e.value = "trial"; e.dispatchEvent(new Event("change")); return true })()`)
	p.wait(`document.getElementById("now-would").textContent === "0.2" && document.getElementById("now-allowed").textContent === "0.3" && document.getElementById("now-denied").textContent === "0"`)
	p.wait(`document.getElementById("top").hidden`)
}

// Clients choose keys, so the page must show them as text everywhere.
func TestScriptInKeysIsText(t *testing.T) {
	const script = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>"'` + "`${window.hit=1}`"
	s := newScene(t, telemetry.Options{Unmask: true})
	p := open(t, s.serve(t, dashboard.WithReset(anybody)))
	s.ask(10, script)
	p.wait(`document.getElementById("top").innerText.includes("onerror")`)
	p.do(chromedp.Click(chromedp.CSS("#top button")))
	p.wait(`document.getElementById("state").innerText.includes("onerror")`)
	p.do(chromedp.SendKeys(chromedp.CSS("#lookup-key"), "user:"+script+"\n"))
	p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
	expect.True(t, !eval[bool](p, `"hit" in window || document.querySelector("main img, main script") !== null`),
		"a key was parsed as HTML")
}

func TestLookupAndReset(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	s.ask(5, "ann")
	p := open(t, s.serve(t, dashboard.WithReset(anybody)))
	p.do(chromedp.Click(chromedp.CSS("#top button")))
	p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
	p.do(chromedp.Click(chromedp.CSS("#reset")))
	p.wait(`document.getElementById("state").innerText.includes("3 of 3 left")`)
	p.do(chromedp.Click(chromedp.CSS("#ban")))
	p.wait(`/Banned: [^]*0 of 3 left, allows a request in (10 min|9 min)/.test(document.getElementById("state").innerText)`)
	p.do(chromedp.SendKeys(chromedp.CSS("#lookup-key"), "user:bob"), chromedp.Click(chromedp.CSS("#lookup button")))
	p.wait(`document.getElementById("state").innerText.includes("user:bob of rule api")`)
}

func TestPageIsReadOnlyByDefault(t *testing.T) {
	s := newScene(t, telemetry.Options{})
	s.ask(5, "ann")
	p := open(t, s.serve(t))
	p.do(chromedp.Click(chromedp.CSS("#top button")))
	p.wait(`document.getElementById("state").innerText.includes("0 of 3 left")`)
	expect.True(t, eval[bool](p, `document.getElementById("change").hidden`), "the reset button is shown")
}
