package adaptertest

import (
	"bytes"
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/ipcases"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/routes"
	"github.com/spillgate/spillgate/keyfunc"
)

// testClientIP checks that the key comes from keyfunc.ClientIP, and not the framework's own client address.
func testClientIP(t *testing.T, a Adapter) {
	for _, c := range ipcases.All(t) {
		t.Run(c.Name, func(t *testing.T) {
			store := &script{results: []core.Result{half}}
			rule := core.Rule{Key: keyfunc.ClientIP(c.Config).Key, Limits: []core.Limit{perMinute}}
			app := a.Build(single(Guard{Limiter: newLimiter(store, rule)}))
			s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = c.RemoteAddr
				app.ServeHTTP(w, r)
			}), false)
			got := s.do(http.MethodGet, "/", c.Fields()...)
			got.wantStatus(t, c.Status())
			if c.Status() != http.StatusOK {
				return
			}
			keys := store.asked()
			expect.True(t, slices.Equal(keys, []string{c.Want}), "key %q, want %q", keys, c.Want)
		})
	}
}

// testRewrittenAddress checks that the limiter logs the first request whose address a middleware has rewritten, and says what to do.
func testRewrittenAddress(t *testing.T, a Adapter) {
	for _, row := range []struct {
		name   string
		key    core.KeyFunc
		status int
	}{
		{"RemoteIP", keyfunc.RemoteIP, 500},
		{"ClientIP", keyfunc.ClientIP{}.Key, 500},
		{"First", keyfunc.First(keyfunc.APIKey("X-Api-Key"), keyfunc.RemoteIP), 500},
		{"RewrittenIP", keyfunc.RewrittenIP, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			limiter := core.Must(core.New([]core.Rule{perMinute.By(row.key)}, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			app := a.Build(single(Guard{Limiter: limiter}))
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = r.Header.Get("X-Real-Ip") // as chi's RealIP and gorilla's ProxyHeaders do
				app.ServeHTTP(w, r)
			})
			s := serveHandler(t, h, false)
			for range 3 {
				s.do(http.MethodGet, "/", "X-Real-Ip: 203.0.113.9").wantStatus(t, row.status)
			}
			s.Close()
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if row.status == 200 {
				expect.Equal(t, lines[0], "", "logged %q", lines)
				return
			}
			for _, want := range []string{"level=ERROR", "203.0.113.9", "outside of that middleware", "keyfunc.ClientIP", "keyfunc.RewrittenIP"} {
				expect.Contains(t, lines[0], want, "logged %q", lines)
			}
		})
	}
}

// skippedRoutes are the routes that testSkips skips, as a rules file does. All other routes are limited.
var skippedRoutes = []string{"/healthz", "/static/{file}"}

// skippingPaths are paths that some software reads as a skipped path.
var skippingPaths = []string{
	"/healthz", "/healthz/", "//healthz", "/healthz//", "/./healthz", "/healthz/.", "/health%7A", "/%68ealthz", "/%2Fhealthz", "/healthz%2F", "/healthz;x",
	"/healthz%3Bx", "/healthz%00", "/healthz/..", "/healthz/../login", "/healthz/%2e%2e/login", "/healthz%2f..%2flogin", "/healthz/..%2flogin",
	"/login/../healthz", "/login/%2e%2e/healthz", "/login/..%2fhealthz", "/login%2f..%2fhealthz", "/login%2F%2E%2E%2Fhealthz", "/login/..;/healthz",
	"/login/..%3b/healthz", "/login/..%5chealthz", "/login/%252e%252e/healthz", "/login%252f..%252fhealthz",
	"/static", "/static/", "/static//", "/static/..", "/static/.", "/static/x/..", "/static/x/../..", "/static%2f", "/%73tatic/", "/stati%63/x",
	"/static/../login", "/static/%2e%2e/login", "/static/..%2flogin", "/static%2f..%2flogin", "/static%2F%2e%2e%2Flogin", "/static/x/../../login",
	"/static/./../login", "/static//../login", "/static/..//login", "/static/../login/", "/static/..;/login", "/static/..;x=y/login", "/static/..%3B/login",
	"/static/..%5clogin", "/static/..\\login", "/static\\..\\login", "/static/%252e%252e/login", "/static/..%252flogin", "/static/%2e%2e%2f%2e%2e%2flogin",
	"/x/../static/a", "/x/%2e%2e/static/a", "/x/..%2fstatic%2fa", "/x/y/..%2f..%2fstatic%2fa", "/x%2f../static/a", "/a/../healthz", "/a/b/../../healthz",
	"/a/b/..%2f..%2fhealthz", "/a/%2e%2e/healthz", "/a/..%2fhealthz", "/..%2fhealthz", "/../healthz", "/%2e%2e/healthz", "/a/b/%2e%2e/%2e%2e/healthz",
	"/login", "/login/", "//login", "/x",
}

// testSkips checks that a skipped request is served by the handler of a skipped route or by none, however its path is
// written, and whether the server, the router or a middleware cleans it, in front of the limiter or behind it.
func testSkips(t *testing.T, a Adapter) {
	limited, served := false, ""
	key := func(*http.Request) (string, error) {
		limited = true
		return "const:all", nil
	}
	skip, mistakes := routes.New([][]string{{"/healthz", "GET /healthz", "/static/"}})
	must.True(t, len(mistakes) <= 0, "%v", mistakes)
	app := App{Guards: []Guard{{Limiter: core.Must(core.New([]core.Rule{core.PerSecond(1_000_000).By(key)}, core.WithSkip(skip.Covers)))}}}
	for _, pattern := range append([]string{"/", "/login", "/{a}", "/{a}/{b}", "/{a}/{b}/{c}", "/{a}/{b}/{c}/{d}"}, skippedRoutes...) {
		app.Routes = append(app.Routes, Route{Pattern: pattern, Handler: func(http.ResponseWriter, *http.Request) { served = pattern }})
	}
	for name, change := range cleaners {
		clean := cleaning(change)
		behind, inFront := app, a.Build(app)
		behind.Clean = clean
		for where, h := range map[string]http.Handler{"behind": a.Build(behind), "in front of": clean(inFront)} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				for _, path := range skippingPaths {
					limited, served = false, ""
					serveTo(t, h, method, path)
					isSkipped := served == skippedRoutes[0] || served == skippedRoutes[1]
					if served != "" && !limited && !isSkipped {
						t.Errorf("%s %s, cleaned by %s %s the limiter: the handler of %s is free", method, path, name, where, served)
					}
				}
			}
			for path, want := range map[string]string{"/healthz": skippedRoutes[0], "/static/app.js": skippedRoutes[1]} {
				limited, served = false, ""
				serveTo(t, h, http.MethodGet, path)
				expect.True(t, !limited && served == want,
					"GET %s, cleaned by %s: served by %q, limited %v; want it skipped", path, name, served, limited)
			}
		}
	}
}

// RunPaths checks how paths are read, for each further configuration of a router.
func RunPaths(t *testing.T, a Adapter) {
	testOddPaths(t, a)
	testSkips(t, a)
}

// RunSkips is RunPaths for a handler behind which the router is out of sight.
func RunSkips(t *testing.T, a Adapter) { testSkips(t, a) }

// testAmbiguousPaths checks that a client gets 400 if its path could also mean another route's path.
func testAmbiguousPaths(t *testing.T, a Adapter) {
	isLogin := func(r *http.Request) bool { return core.RoutePattern(r) == "/login" }
	limits := []core.Limit{core.PerHour(1000)}
	for why, rule := range map[string]core.Rule{
		"Match": {Key: anyone, Limits: limits, Match: isLogin},
		"Cost":  {Key: anyone, Limits: limits, Cost: func(r *http.Request) int { return 1 + len(core.RoutePattern(r)) }},
		"Key": {Limits: limits, Key: func(r *http.Request) (string, error) {
			pattern, err := core.Route(r)
			return "route:" + pattern, err
		}},
	} {
		h := a.Build(App{Guards: []Guard{{Limiter: newLimiter(new(core.MemoryStore), rule)}}, Routes: []Route{
			{Pattern: "/login", Handler: ok}, {Pattern: "/{a}/{b}", Handler: ok}, {Pattern: "/{a}/{b}/{c}", Handler: ok},
		}})
		for _, p := range oddPaths {
			expect.AtMost(t, serveTo(t, h, http.MethodPost, p), 499, "%s: the status of %s", why, p)
		}
	}
}
