package echo

import (
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// before limits each address to 10 requests per minute.
func before(e *echo.Echo) {
	e.IPExtractor = echo.ExtractIPDirect()
	store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: 10.0 / 60, Burst: 10, ExpiresIn: time.Minute,
	})
	e.Use(middleware.RateLimiter(store))
}
