package echolimit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

func guard(g adaptertest.Guard) echo.MiddlewareFunc {
	opts := []echolimit.Option{echolimit.WithHeaders(g.Headers), echolimit.WithDenyHandler(nil), echolimit.WithErrorHandler(nil)}
	if g.Deny != nil {
		opts = append(opts, echolimit.WithDenyHandler(func(c echo.Context, d core.Decision) error {
			g.Deny(c.Response(), c.Request(), d)
			return nil
		}))
	}
	if g.Fail != nil {
		opts = append(opts, echolimit.WithErrorHandler(func(c echo.Context, err error) error {
			g.Fail(c.Response(), c.Request(), err)
			return nil
		}))
	}
	if g.Log != nil {
		opts = append(opts, echolimit.WithErrorHandler(func(c echo.Context, err error) error {
			g.Log(err)
			return echolimit.WriteError(c, err)
		}))
	}
	if g.Denied != nil {
		opts = append(opts, echolimit.WithDenyHandler(func(c echo.Context, d core.Decision) error {
			g.Denied(c.Response().Header(), d)
			return echolimit.WriteDenial(c, d)
		}))
	}
	return echolimit.New(g.Limiter, opts...)
}

func all(guards []adaptertest.Guard) (ms []echo.MiddlewareFunc) {
	for _, g := range guards {
		ms = append(ms, guard(g))
	}
	return ms
}

// adder is an *echo.Echo or an *echo.Group.
type adder interface {
	Add(method, path string, h echo.HandlerFunc, ms ...echo.MiddlewareFunc) *echo.Route
}

func routes(e adder, app adaptertest.App) {
	for _, route := range app.Routes {
		for _, method := range adaptertest.Methods {
			e.Add(method, adaptertest.Colons(route.Pattern), func(c echo.Context) error {
				route.Handler(c.Response(), c.Request())
				return nil
			}, all(route.Guards)...)
		}
	}
}

// use guards an instance by Use.
func use(app adaptertest.App) http.Handler {
	e := echo.New()
	e.Pre(echo.WrapMiddleware(app.Cleaned))
	e.Use(all(app.Guards)...)
	routes(e, app)
	return e
}

// pre guards an instance by Pre, before the router.
func pre(app adaptertest.App) http.Handler {
	e := echo.New()
	e.Pre(all(app.Guards)...)
	e.Pre(echo.WrapMiddleware(app.Cleaned))
	routes(e, app)
	return e
}

// group guards the routes of a group.
func group(app adaptertest.App) http.Handler {
	e := echo.New()
	e.Pre(echo.WrapMiddleware(app.Cleaned))
	routes(e.Group("", all(app.Guards)...), app)
	return e
}

func TestContract(t *testing.T) {
	t.Run("Use", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: use}) })
	t.Run("Pre", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: pre}) })
	t.Run("Group", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: group, RoutedOnly: true}) })
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: use}) }

func TestNilLimiter(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New(nil) returned; want the mistake to show at once")
		}
	}()
	echolimit.New(nil)
}
