package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/e2e/internal/proxy"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

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
