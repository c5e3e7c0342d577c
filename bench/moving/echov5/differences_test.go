// Package echov5 checks what docs/moving/echo.md says about echo v5.
package echov5

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/internal/expect"
)

func app(limit func(*echo.Echo)) *echo.Echo {
	e := echo.New()
	limit(e)
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	return e
}

// Both limiters admit the same requests, sent at uneven times over some minutes, and respond alike.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: 10.0 / 60, Burst: 10, ExpiresIn: time.Minute,
		})
		old, now := app(func(e *echo.Echo) { e.Use(middleware.RateLimiter(store)) }), app(same)
		try.SameBytes(t, old, now, 7*time.Second, "/")
		failing := app(func(e *echo.Echo) {
			e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
				Store:               store,
				IdentifierExtractor: func(*echo.Context) (string, error) { return "", errors.New("no address") },
			}))
		})
		expect.Equal(t, try.Wire(t, now, "nobody", "/"), try.Wire(t, failing, try.Client, "/"), "no address")
	})
}
