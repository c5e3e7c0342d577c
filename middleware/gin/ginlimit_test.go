package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
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

// use guards an engine by Use.
func use(app adaptertest.App) http.Handler {
	r := gin.New()
	r.Use(all(app.Guards)...)
	routes(r, app)
	return app.Cleaned(r)
}

// group guards the routes of a group.
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
		if !aborted {
			t.Errorf("%s: the chain is not aborted", why)
		}
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
	if want := []string{"/api/users/{id}", "/files/{path...}", ""}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
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
		if err != nil || logins != row.logins || d.Results[0].Remaining != 97 {
			t.Errorf("%s: %d logins ran, want %d; %+v left, %v", why, logins, row.logins, d.Results, err)
		}
	}
}

func TestNilLimiter(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New(nil) did not panic")
		}
	}()
	ginlimit.New(nil)
}
