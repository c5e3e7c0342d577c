package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/e2e/internal/chromium"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// limit bounds every wait of a test. A page must show changes within 2 s on an idle machine.
const limit = 20 * time.Second

var (
	browser context.Context // of all tests; nil if there is no Chromium
	scratch string          // a directory that is removed at the end
)

func TestMain(m *testing.M) {
	os.Exit(func() (code int) {
		var err error
		if scratch, err = os.MkdirTemp("", "spillgate"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		var stop func()
		browser, stop = chromium.Start(chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"))
		defer stop()
		return m.Run()
	}())
}

// A page is a tab of the browser. It fails its test for each error in the console, including violations of the policy.
type page struct {
	t     *testing.T
	ctx   context.Context
	quiet atomic.Bool // errors in the console are expected
}

// open returns a tab with a live page.
func open(t *testing.T, url string) *page {
	t.Helper()
	p := newPage(t)
	p.do(chromedp.Navigate(url))
	p.wait(`document.getElementById("connection").textContent === "live"`)
	return p
}

func newPage(t *testing.T) *page {
	t.Helper()
	if chromium.Missing(t, browser) {
		t.SkipNow()
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx}
	p.do(chromedp.EmulateViewport(1200, 1000))
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err == nil && (m.Type == chromedp.ConsoleError || m.IsException()) && !strings.Contains(m.Text, "net::ERR") && !p.quiet.Load() {
				t.Errorf("console: %v", m)
			}
		}
	}()
	return p
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *page) text(id string) string {
	p.t.Helper()
	return eval[string](p, `document.getElementById("`+id+`").innerText`)
}

func eval[T any](p *page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true, and returns how long that took.
func (p *page) wait(expression string) time.Duration {
	p.t.Helper()
	begun := time.Now()
	for !eval[bool](p, expression) {
		if time.Since(begun) > limit {
			p.t.Fatalf("still false: %s; the page shows:\n%s", expression, eval[string](p, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// A scene is a limiter whose counts a page shows.
type scene struct {
	telemetry *telemetry.Telemetry
	limiter   *core.Limiter
}

func byUser(r *http.Request) (string, error) {
	if u := r.Header.Get("User"); u != "" {
		return "user:" + u, nil
	}
	return "", core.ErrNoKey
}

func newScene(t *testing.T, o telemetry.Options, opts ...core.Option) *scene {
	t.Helper()
	return sceneOf(t, o, []core.Rule{
		{Name: "api", Key: byUser, Limits: []core.Limit{core.PerDay(3)}},
		{Name: "trial", Key: byUser, Limits: []core.Limit{core.PerDay(1)}, DryRun: true, Routes: []string{"GET /trial/{id}"}},
	}, opts...)
}

func sceneOf(t *testing.T, o telemetry.Options, rules []core.Rule, opts ...core.Option) *scene {
	t.Helper()
	tel := telemetry.New(o)
	l := must.Get(core.New(rules, append(opts, core.WithObserver(tel.Observe))...))(t)
	tel.Attach(l)
	return &scene{tel, l}
}

// ask sends n requests of a user to the limiter.
func (s *scene) ask(n int, user string) {
	for range n {
		r := httptest.NewRequest("GET", "/trial/1", nil)
		r.Header.Set("User", user)
		_, _ = s.limiter.Check(r)
	}
}

func (s *scene) serve(t *testing.T, opts ...dashboard.Option) string {
	server := httptest.NewServer(dashboard.New(s.telemetry, opts...))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL + "/"
}

func anybody(*http.Request) bool { return true }
