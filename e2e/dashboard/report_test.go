package dashboard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

const reportRules = `funcs: [user]
rules:
  - {name: login, match: POST /login, key: ip, limits: "5/10m;ban=1h", cost_after: failures}
  - {name: "<b>bold</b>", key: header(User-Agent), limits: 30/m}
  - {name: trial, key: ip, limits: 6/m, dry_run: true}
  - {name: plan, key: user, limits: 1/s}
`

// accessLog returns lines of one hour: a client with a higher number sends more requests. Every value
// that clients choose contains a script.
func accessLog() string {
	const script = `<img src=x onerror='window.hit=1'></script><script>window.hit=1</script>`
	var b strings.Builder
	for second := range 3600 {
		for client := range 12 {
			if second%(600/(client*client+1)) != 0 {
				continue
			}
			request, status := "GET /"+strings.ReplaceAll(script, " ", "%20"), 200
			if client%3 == 0 {
				request, status = "POST /login", 401
			}
			fmt.Fprintf(&b, "203.0.113.%d - - [10/Oct/2025:13:%02d:%02d +0200] \"%s HTTP/1.1\" %d 9 \"-\" \"%s\"\n", client, second/60, second%60, request, status, script)
		}
	}
	return b.String() + script + "\n"
}

// buildCommand builds the command once and returns its path.
var buildCommand = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "spillgate")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "spillgate")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// writeReport replays logs with the command and returns the URL of its page.
func writeReport(t *testing.T, log string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	command := must.Get(buildCommand())(t)
	for name, text := range map[string]string{"access.log": log, "spillgate.yaml": reportRules} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	args := append([]string{"replay", "--rules", "spillgate.yaml", "--html", "report.html", "access.log"}, flags...)
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return "file://" + filepath.Join(dir, "report.html")
}

func openReport(t *testing.T, url string, v view) *page {
	t.Helper()
	p := newPage(t)
	v.apply(p)
	p.do(chromedp.Navigate(url))
	p.wait(`document.querySelector(".chart svg") !== null`)
	eval[bool](p, `(document.querySelectorAll("details").forEach(d => d.open = true), true)`)
	return p
}

// The report opens from disk. Its policy allows its own scripts and style, which draw all charts without an error.
func TestReportOfAReplay(t *testing.T) {
	p := openReport(t, writeReport(t, accessLog()), views[0])
	n := eval[int](p, `[...document.querySelectorAll(".chart")].filter(c => c.querySelector("svg rect, svg polygon")).length`)
	expect.Equal(t, n, 4, "charts drawn (the time line and one of each rule that denies)")
	expect.True(t, !eval[bool](p, `[...document.querySelectorAll(".chart")].some(c => !c.closest("section, .columns > div").querySelector("table"))`),
		"a chart has no table beside it")
	expect.True(t, eval[bool](p, `document.querySelector(".area-denied").getBBox().height > 5 && getComputedStyle(document.querySelector(".tile")).borderLeftWidth === "5px"`),
		"the chart does not show what was denied, or the style is not applied")
	text := eval[string](p, "document.body.innerText")
	for _, want := range []string{
		"Replay of access.log", "Hit by login", "ip:203.0.113.9", "Hit by <b>bold</b>", "<script>window.hit=1</script>", "dry run", "Dry runs would deny", "POST /login", "plan: function user", "whole seconds",
		"2025-10-10 11:00:00 to 2025-10-10 11:59:", "could not be read",
	} {
		expect.True(t, strings.Contains(text, want), "the report does not say %q:\n%s", want, text)
	}
	expect.True(t, !eval[bool](p, `"hit" in window || document.querySelector("main img, main script, main b > b, td b") !== null`),
		"text of the log was parsed as HTML")
}

// The policy blocks scripts that reach the page through a log.
func TestReportPolicy(t *testing.T) {
	url := writeReport(t, accessLog())
	p := newPage(t)
	p.do(chromedp.Navigate(url))
	policy := eval[string](p, `document.querySelector("meta[http-equiv]").content`)
	for _, want := range []string{"default-src 'none'; script-src 'sha256-", "style-src 'sha256-", "base-uri 'none'; form-action 'none'"} {
		expect.True(t, strings.Contains(policy, want) && !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "http"),
			"got %q, want %q in it", policy, want)
	}
	p.quiet.Store(true)
	eval[bool](p, `(() => { const e = document.createElement("script"); e.textContent = "window.hit = 1"; document.body.append(e); return true })()`)
	expect.True(t, !eval[bool](p, `"hit" in window`), "a script ran that is not the page's own")
}

func TestReportIsSeenByAll(t *testing.T) {
	url := writeReport(t, accessLog())
	axe := installAxe(t)
	for _, v := range views {
		t.Run(fmt.Sprint(v.scheme, v.width), func(t *testing.T) {
			p := openReport(t, url, v)
			p.fits(v, "report")
			p.check(axe)
		})
	}
}

// A log of a single second, or without requests, has a report too.
func TestReportOfAShortLog(t *testing.T) {
	line, _, _ := strings.Cut(accessLog(), "\n")
	p := openReport(t, writeReport(t, line+"\n"), views[0])
	expect.True(t, eval[bool](p, `document.querySelector(".area-allowed").getBBox().width > 100`), "the chart of one second is empty")
	empty := newPage(t)
	empty.do(chromedp.Navigate(writeReport(t, line+"\n", "--skip-status", "401,200")))
	empty.wait(`document.body.innerText.includes("No request was decided")`)
}
