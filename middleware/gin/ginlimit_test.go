package ginlimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func guard(g adaptertest.Guard) gin.HandlerFunc {
	opts := []ginlimit.Option{ginlimit.WithHeaders(g.Headers), ginlimit.WithDenyHandler(nil), ginlimit.WithErrorHandler(nil)}
	if g.Deny != nil {
		opts = append(opts, ginlimit.WithDenyHandler(func(c *gin.Context, d core.Decision) { g.Deny(c.Writer, c.Request, d) }))
	}
	if g.Fail != nil {
		opts = append(opts, ginlimit.WithErrorHandler(func(c *gin.Context, err error) { g.Fail(c.Writer, c.Request, err) }))
	}
	if g.Log != nil {
		opts = append(opts, ginlimit.WithErrorHandler(func(c *gin.Context, err error) {
			g.Log(err)
			ginlimit.WriteError(c, err)
		}))
	}
	if g.Denied != nil {
		opts = append(opts, ginlimit.WithDenyHandler(func(c *gin.Context, d core.Decision) {
			g.Denied(c.Writer.Header(), d)
			ginlimit.WriteDenial(c, d)
		}))
	}
	return ginlimit.New(g.Limiter, opts...)
}

func all(guards []adaptertest.Guard) (hs []gin.HandlerFunc) {
	for _, g := range guards {
		hs = append(hs, guard(g))
	}
	return hs
}

func routes(r gin.IRoutes, app adaptertest.App) {
	for _, route := range app.Routes {
		handlers := append(all(route.Guards), func(c *gin.Context) { route.Handler(c.Writer, c.Request) })
		r.Match(adaptertest.Methods, adaptertest.Colons(route.Pattern), handlers...)
	}
}

func use(app adaptertest.App) http.Handler {
	r := gin.New()
	r.Use(all(app.Guards)...)
	routes(r, app)
	return app.Cleaned(r)
}

func group(app adaptertest.App) http.Handler {
	r := gin.New()
	routes(r.Group("/", all(app.Guards)...), app)
	return app.Cleaned(r)
}

func TestContract(t *testing.T) {
	t.Run("Use", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: use}) })
	t.Run("Group", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: group, RoutedOnly: true}) })
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: use}) }

func never() *core.Limiter {
	return core.Must(core.New([]core.Rule{core.PerHour(0).By(func(*http.Request) (string, error) { return "const:all", nil })}))
}

// TestAbort checks that no handler runs after a denial, even if the deny handler calls Next, and that the middleware
// around it finds the chain aborted.
func TestAbort(t *testing.T) {
	failing := core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "", core.ErrNoKey })}))
	for why, h := range map[string]gin.HandlerFunc{
		"denied":        ginlimit.New(never()),
		"deny handler":  ginlimit.New(never(), ginlimit.WithDenyHandler(func(c *gin.Context, _ core.Decision) { c.Next() })),
		"failed":        ginlimit.New(failing),
		"error handler": ginlimit.New(failing, ginlimit.WithErrorHandler(func(c *gin.Context, _ error) { c.Next() })),
	} {
		var aborted bool
		r := gin.New()
		r.Use(func(c *gin.Context) {
			c.Next()
			aborted = c.IsAborted()
		}, h, func(*gin.Context) { t.Errorf("%s: the next middleware ran", why) })
		r.GET("/", func(*gin.Context) { t.Errorf("%s: the handler ran", why) })
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		expect.True(t, aborted, "%s: the chain is not aborted", why)
	}
}

func TestPatterns(t *testing.T) {
	var found []string
	key := func(r *http.Request) (string, error) {
		found = append(found, core.RoutePattern(r))
		return "const:all", nil
	}
	r := gin.New()
	r.Use(ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(key)}))))
	r.Group("/api").GET("/users/:id", func(*gin.Context) {})
	r.GET("/files/*path", func(*gin.Context) {})
	for _, path := range []string{"/api/users/1", "/files/a/b", "/nowhere"} {
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	expect.Elements(t, found, []string{"/api/users/{id}", "/files/{path...}", ""}, "found")
}

// TestHandleContext routes a request again as gin does, in the same gin.Context, once or for each part of a batch.
func TestHandleContext(t *testing.T) {
	for why, row := range map[string]struct{ parts, logins int }{"a redirect": {1, 3}, "a batch": {4, 5}} {
		rule := func(name string, n int, routes ...string) core.Rule {
			key := func(r *http.Request) (string, error) {
				c, ok := ginlimit.ContextOf(r)
				if route := "/" + name; !ok || name == "login" && (c.FullPath() != route || core.RoutePattern(r) != route) {
					t.Errorf("%s: %s is asked for a key of %q, route %q", why, name, c.FullPath(), core.RoutePattern(r))
				}
				return "const:all", nil
			}
			return core.Rule{Name: name, Key: key, Limits: []core.Limit{core.PerHour(n)}, Routes: routes}
		}
		l := core.Must(core.New([]core.Rule{rule("api", 100), rule("login", 5, "/login")}))
		logins := 0
		r := gin.New()
		r.Use(ginlimit.New(l))
		r.POST("/start", func(c *gin.Context) {
			for range row.parts {
				c.Request.URL.Path = "/login"
				r.HandleContext(c)
			}
		})
		r.POST("/login", func(*gin.Context) { logins++ })
		for range 3 {
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/start", nil))
		}
		d, err := l.Take(t.Context(), core.Claim{Rule: "api", Key: "const:all", Peek: true})
		expect.True(t, err == nil && logins == row.logins && d.Results[0].Remaining == 97,
			"%s: %d logins ran, want %d; %+v left, %v", why, logins, row.logins, d.Results, err)
	}
}

// TestOutcome checks the outcome that Rule.CostAfter gets where gin takes part in the response.
func TestOutcome(t *testing.T) {
	oops := errors.New("oops")
	recovery := gin.RecoveryWithWriter(discard{})
	answerErrors := func(c *gin.Context) {
		if c.Next(); len(c.Errors) > 0 {
			c.Status(http.StatusInternalServerError)
		}
	}
	ownStatus := func(c *gin.Context) { c.Writer = &ownStatus{c.Writer, 0} }
	for why, row := range map[string]struct {
		around, inside, handle gin.HandlerFunc
		status                 int
		err                    bool
	}{
		"a status alone":                {nil, nil, func(c *gin.Context) { c.Status(http.StatusUnauthorized) }, 401, false},
		"a Recovery around":             {recovery, nil, func(*gin.Context) { panic("oops") }, 500, true},
		"a Recovery inside":             {nil, recovery, func(*gin.Context) { panic("oops") }, 500, false},
		"an error that was answered":    {nil, nil, func(c *gin.Context) { _ = c.AbortWithError(http.StatusForbidden, oops) }, 403, false},
		"an error that has a status":    {nil, nil, func(c *gin.Context) { _ = c.Error(oops); c.Status(http.StatusBadGateway) }, 502, false},
		"an error answered inside":      {nil, answerErrors, func(c *gin.Context) { _ = c.Error(oops) }, 500, false},
		"an error answered around":      {answerErrors, nil, func(c *gin.Context) { _ = c.Error(oops) }, 200, true},
		"an error of a middleware":      {func(c *gin.Context) { _ = c.Error(oops) }, nil, func(*gin.Context) {}, 200, false},
		"a status that comes too late":  {nil, ownStatus, func(c *gin.Context) { c.String(401, "no"); c.String(200, "ok") }, 401, false},
		"an error beside a good answer": {nil, nil, func(c *gin.Context) { c.String(200, "ok"); _ = c.Error(oops) }, 200, false},
	} {
		var got []core.Outcome
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			got = append(got, o)
			return 0
		}
		r := gin.New()
		pass := func(*gin.Context) {}
		for _, h := range []gin.HandlerFunc{row.around, ginlimit.New(core.Must(core.New([]core.Rule{rule}, core.WithStore(adaptertest.Admitting{})))), row.inside} {
			if h == nil {
				h = pass
			}
			r.Use(h)
		}
		r.GET("/", row.handle)
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		expect.True(t, len(got) == 1 && got[0].Status == row.status && (got[0].Err != nil) == row.err,
			"%s: the outcomes are %+v, want status %d, error %v", why, got, row.status, row.err)
	}
}

// ownStatus is a gin.ResponseWriter that reports the last status, as the gzipWriter of gin-contrib does.
type ownStatus struct {
	gin.ResponseWriter
	status int
}

func (w *ownStatus) Status() int { return w.status }
func (w *ownStatus) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestContextOf checks that each callback finds what an earlier middleware has stored in the gin.Context, and that the handler finds
// the form that a callback has read from it.
func TestContextOf(t *testing.T) {
	user := func(r *http.Request) string {
		c, ok := ginlimit.ContextOf(r)
		if !ok {
			t.Error("there is no context")
			return ""
		}
		_ = c.Request.ParseForm() // reads the body
		return c.GetString("user")
	}
	rule := core.PerHour(10).By(func(r *http.Request) (string, error) { return "user:" + user(r), nil })
	rule.Match = func(r *http.Request) bool { return user(r) == "ann" }
	rule.Cost = func(r *http.Request) int { return len(user(r)) }
	rule.Tier = func(r *http.Request) []core.Limit { return []core.Limit{core.PerHour(10 * len(user(r)))} }
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", "ann") }, ginlimit.New(core.Must(core.New([]core.Rule{rule}))))
	r.POST("/", func(c *gin.Context) {
		found, ok := ginlimit.ContextOf(c.Request)
		expect.True(t, ok && found == c, "the handler finds %p, %v, want %p", found, ok, c)
		expect.Equal(t, c.PostForm("a"), "1", "the handler finds in the form that a callback has read")
	})
	w, sent := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("a=1"))
	sent.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.ServeHTTP(w, sent)
	expect.Equal(t, w.Header().Get("X-RateLimit-Remaining"), "27", "remaining of 30")
	c, ok := ginlimit.ContextOf(httptest.NewRequest(http.MethodGet, "/", nil))
	expect.True(t, !ok && c == nil, "a request without the middleware has the context %v", c)
}

// TestRequestIsRestored checks which request a middleware around two limiters finds in the gin.Context afterwards.
func TestRequestIsRestored(t *testing.T) {
	for why, row := range map[string]struct {
		handler gin.HandlerFunc
		same    bool
	}{
		"as it was":               {func(*gin.Context) {}, true},
		"as it was after a panic": {func(*gin.Context) { panic("oops") }, true},
		"changed in place":        {func(c *gin.Context) { c.Request.Pattern = "changed" }, true},
		"replaced by the handler": {func(c *gin.Context) {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), key{}, "changed"))
		}, false},
	} {
		var before, after *http.Request
		limit := func() gin.HandlerFunc {
			return ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "k", nil })})))
		}
		r := gin.New()
		r.Use(func(c *gin.Context) {
			before = c.Request
			defer func() {
				_ = recover()
				after = c.Request
			}()
			c.Next()
		}, limit(), limit())
		r.GET("/", row.handler)
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		expect.Equal(t, before == after, row.same, "%s: same request", why)
		changed := after.Pattern == "changed" || after.Context().Value(key{}) == "changed"
		expect.True(t, changed == (why == "changed in place" || !row.same), "%s: changed %v", why, changed)
	}
}

type key struct{}

// TestRoutesBehindRewrites checks that Rule.Routes reads the path that gin has routed, although middleware in front of the
// limiter has since rewritten the request.
func TestRoutesBehindRewrites(t *testing.T) {
	for _, pattern := range []string{"/api/login", "/api/:page", "/api/*page"} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)}, Routes: []string{"POST /api/login"}}
		logins := 0
		r := gin.New()
		r.Use(func(c *gin.Context) { c.Request.URL = &url.URL{Path: "/elsewhere"} }, ginlimit.New(core.Must(core.New([]core.Rule{rule}))))
		r.POST(pattern, func(*gin.Context) { logins++ })
		for range 20 {
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/login", nil))
		}
		expect.Equal(t, logins, 5, "%s: logins", pattern)
	}
}

// TestSkipsOfEngines checks that a skip never frees another handler, whatever the engine's settings.
func TestSkipsOfEngines(t *testing.T) {
	for why, set := range map[string]func(*gin.Engine){
		"RemoveExtraSlash":   func(e *gin.Engine) { e.RemoveExtraSlash = true },
		"UseRawPath":         func(e *gin.Engine) { e.UseRawPath = true },
		"both":               func(e *gin.Engine) { e.UseRawPath, e.RemoveExtraSlash = true, true },
		"UnescapePathValues": func(e *gin.Engine) { e.UseRawPath, e.UnescapePathValues = true, false },
	} {
		t.Run(why, func(t *testing.T) {
			adaptertest.RunPaths(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
				r := gin.New()
				set(r)
				r.Use(all(app.Guards)...)
				routes(r, app)
				return app.Cleaned(r)
			}})
		})
	}
}

func TestClientIP(t *testing.T) {
	trust := func(networks ...string) func(*gin.Engine) {
		return func(e *gin.Engine) { must.Do(t, e.SetTrustedProxies(networks)) }
	}
	cloudflare := func(networks ...string) func(*gin.Engine) {
		return func(e *gin.Engine) {
			trust(networks...)(e)
			e.TrustedPlatform = gin.PlatformCloudflare
		}
	}
	other := func(e *gin.Engine) { e.RemoteIPHeaders = []string{"X-Client"} }
	for _, row := range []struct {
		name         string
		engine       func(*gin.Engine)
		peer, header string
		want         string // a key, or what the error says
	}{
		{"a trusted proxy", trust("10.0.0.0/8"), "10.0.0.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"an IPv6 client is its /64", trust("10.0.0.0/8"), "10.0.0.1:80", "X-Forwarded-For: 2001:db8:1:2:3::4", "ip:2001:db8:1:2::/64"},
		{"an untrusted peer", trust("10.0.0.0/8"), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"no proxy", trust(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"a trusted network for documentation", trust("192.0.2.0/24"), "192.0.2.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"by default", func(*gin.Engine) {}, "203.0.113.9:80", "", "SetTrustedProxies"},
		{"all of IPv4", trust("0.0.0.0/0"), "203.0.113.9:80", "", "SetTrustedProxies"},
		{"all of IPv6", trust("10.0.0.0/8", "::/0"), "203.0.113.9:80", "", "SetTrustedProxies"},
		{"another header, of everybody", other, "203.0.113.9:80", "X-Client: 198.51.100.7", "SetTrustedProxies"},
		{"a platform", cloudflare(), "203.0.113.9:80", "Cf-Connecting-Ip: 198.51.100.7", "ip:198.51.100.7"},
		{"a platform, and everybody", cloudflare("0.0.0.0/0"), "203.0.113.9:80", "Cf-Connecting-Ip: 198.51.100.7", "SetTrustedProxies"},
		{"a platform that sends no address", cloudflare(), "203.0.113.9:80", "Cf-Connecting-Ip: x", `got "x"`},
		{"a Unix socket", trust(), "@", "", "no key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := gin.New()
			row.engine(e)
			var key string
			var err error
			e.Use(ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(9).By(func(r *http.Request) (string, error) {
				before := *r
				if key, err = ginlimit.ClientIP(r); r.RemoteAddr != before.RemoteAddr || len(r.Header) != len(before.Header) {
					t.Errorf("the request is now %+v", r)
				}
				return "k", nil
			})}))))
			e.GET("/", func(c *gin.Context) { expect.Equal(t, c.Request.RemoteAddr, row.peer, "the handler gets the peer") })
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = row.peer
			if name, value, ok := strings.Cut(row.header, ": "); ok {
				r.Header.Set(name, value)
			}
			e.ServeHTTP(httptest.NewRecorder(), r)
			if key != row.want && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %q, %v, want %s", key, err, row.want)
			}
			if err != nil && key != "" || err == nil && key == "" {
				t.Errorf("got %q, %v", key, err)
			}
		})
	}
	key, err := ginlimit.ClientIP(httptest.NewRequest(http.MethodGet, "/", nil))
	expect.True(t, key == "" && errors.Is(err, core.ErrInvalid), "without the middleware: %q, %v", key, err)
}
