package peers

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"

	echolimit "github.com/spillgate/spillgate/middleware/echo"
	echolimit5 "github.com/spillgate/spillgate/middleware/echov5"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

// A Router is a web framework with one route, GET /, that calls done.
type Router func(done func()) http.Handler

// Gin is a router of github.com/gin-gonic/gin with these middlewares.
func Gin(use ...gin.HandlerFunc) Router {
	return func(done func()) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Use(use...)
		r.GET("/", func(c *gin.Context) {
			done()
			c.Status(http.StatusOK)
		})
		return r
	}
}

// EchoRouter is a router of github.com/labstack/echo/v4 with these middlewares.
func EchoRouter(use ...echo.MiddlewareFunc) Router {
	return func(done func()) http.Handler {
		e := echo.New()
		e.Use(use...)
		e.GET("/", func(c echo.Context) error {
			done()
			return c.NoContent(http.StatusOK)
		})
		return e
	}
}

// Echo5Router is a router of github.com/labstack/echo/v5 with these middlewares.
func Echo5Router(use ...echo5.MiddlewareFunc) Router {
	return func(done func()) http.Handler {
		e := echo5.New()
		e.Use(use...)
		e.GET("/", func(c *echo5.Context) error {
			done()
			return c.NoContent(http.StatusOK)
		})
		return e
	}
}

// NetHTTP is a bare handler behind m, if it is not nil.
func NetHTTP(m *Middleware) Router {
	return func(done func()) http.Handler {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			done()
			w.WriteHeader(http.StatusOK)
		})
		if m != nil {
			h = m.Wrap(h)
		}
		return h
	}
}

// SpillgateGin is the adapter for gin.
func SpillgateGin(l Limit) gin.HandlerFunc { return ginlimit.New(newLimiter(l)) }

// SpillgateEcho is the adapter for echo v4.
func SpillgateEcho(l Limit) echo.MiddlewareFunc { return echolimit.New(newLimiter(l)) }

// SpillgateEcho5 is the adapter for echo v5.
func SpillgateEcho5(l Limit) echo5.MiddlewareFunc { return echolimit5.New(newLimiter(l)) }

// UluleGin is the gin middleware of github.com/ulule/limiter.
func UluleGin(l Limit) gin.HandlerFunc { return ululegin.NewMiddleware(newUlule(l)) }

// UluleEcho is the net/http middleware of github.com/ulule/limiter, which has none for echo, in echo's wrapper.
func UluleEcho(l Limit) echo.MiddlewareFunc { return echo.WrapMiddleware(UluleHTTP(l).Wrap) }

// UluleEcho5 is UluleEcho for echo v5.
func UluleEcho5(l Limit) echo5.MiddlewareFunc { return echo5.WrapMiddleware(UluleHTTP(l).Wrap) }

// EchoOwn is the limiter that comes with echo. It writes no headers.
func EchoOwn(l Limit) echo.MiddlewareFunc { return middleware.RateLimiter(newEcho(l)) }

// Echo5Own is the limiter that comes with echo v5. It writes no headers.
func Echo5Own(l Limit) echo5.MiddlewareFunc {
	return middleware5.RateLimiter(middleware5.NewRateLimiterMemoryStoreWithConfig(middleware5.RateLimiterMemoryStoreConfig{
		Rate: l.perSecond(), Burst: l.Rate, ExpiresIn: 2 * l.Period,
	}))
}
