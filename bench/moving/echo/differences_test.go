// Package echo checks what docs/moving/echo.md says.
package echo

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

func app(limit func(*echo.Echo)) *echo.Echo {
	e := echo.New()
	limit(e)
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	return e
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{"before": app(before), "after": app(after)} {
			expect.Equal(t, try.Admitted(h, 20, try.Client, "/"), 10, "%s: admitted of 20", name)
			time.Sleep(6 * time.Second)
			expect.Equal(t, try.Admitted(h, 20, try.Client, "/"), 1, "%s: admitted after 6s", name)
		}
	})
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := app(before), app(after)
		try.Admitted(old, 10, try.Client, "/")
		try.Admitted(now, 10, try.Client, "/")
		if w := try.Get(old, try.Client, "/"); w.Code != 429 || w.Body.String() != `{"message":"rate limit exceeded"}`+"\n" || w.Header().Get("Retry-After") != "" {
			t.Errorf("before: %d %q %v", w.Code, w.Body, w.Header())
		}
		w := try.Get(now, try.Client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "6", "after: %d %q %v", w.Code, w.Body, w.Header())
	})
}

// Since v4.16.3, echo believes X-Forwarded-For of no client if the application sets no IPExtractor.
func TestForgedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := app(func(e *echo.Echo) { e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStore(1))) })
		now := app(after)
		admitted, limited := 0, 0
		for i := range 50 {
			forged := "198.51.100." + string(rune('0'+i%10)) + string(rune('0'+i/10))
			admitted += try.Admitted(old, 1, try.Client, "/", "X-Forwarded-For", forged)
			limited += try.Admitted(now, 1, try.Client, "/", "X-Forwarded-For", forged)
		}
		expect.True(t, admitted == 1 && limited == 10, "admitted %d before, want 1; %d after, want 10", admitted, limited)
	})
}

// A record that is idle for ExpiresIn is forgotten, whatever the rate.
func TestASlowLimitIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := app(func(e *echo.Echo) {
			e.IPExtractor = echo.ExtractIPDirect()
			e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{Rate: 5.0 / 3600, Burst: 5})))
		})
		expect.Equal(t, try.Admitted(h, 10, try.Client, "/"), 5, "admitted of 10")
		time.Sleep(3*time.Minute + time.Second)
		try.Get(h, "198.51.100.1:4000", "/") // any request may make echo drop old records
		expect.Equal(t, try.Admitted(h, 10, try.Client, "/"), 5, "admitted after three minutes")
	})
}

// Both limiters admit the same requests, sent at uneven times over some minutes, and respond alike.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := app(before), app(same)
		try.SameBytes(t, old, now, 7*time.Second, "/")
		failing := app(func(e *echo.Echo) {
			e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
				Store:               middleware.NewRateLimiterMemoryStore(1),
				IdentifierExtractor: func(echo.Context) (string, error) { return "", errors.New("no address") },
			}))
		})
		expect.Equal(t, try.Wire(t, now, "nobody", "/"), try.Wire(t, failing, try.Client, "/"), "no address")
	})
}

func own(config middleware.RateLimiterMemoryStoreConfig) http.Handler {
	return app(func(e *echo.Echo) {
		e.IPExtractor = echo.ExtractIPDirect()
		e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(config)))
	})
}

func TestZeroAndFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			h    http.Handler
			want int
		}{
			"Rate: 0":                    {own(middleware.RateLimiterMemoryStoreConfig{}), 1},
			"Rate: 0.5":                  {own(middleware.RateLimiterMemoryStoreConfig{Rate: 0.5}), 1},
			"Rate: 10.0 / 3":             {own(middleware.RateLimiterMemoryStoreConfig{Rate: 10.0 / 3}), 4},
			"Rate: 10.0 / 3, Burst: 10":  {own(middleware.RateLimiterMemoryStoreConfig{Rate: 10.0 / 3, Burst: 10}), 10},
			"PerSecond(0)":               {try.Limited(core.PerSecond(0)), 0},
			"PerSecond(2).WithBurst(0)":  {try.Limited(core.PerSecond(2).WithBurst(0)), 2},
			"Every(10, 3s)":              {try.Limited(core.Every(10, 3*time.Second)), 10},
			"Every(1, 2s)":               {try.Limited(core.Every(1, 2*time.Second)), 1},
			"Every(10, 3s).WithBurst(4)": {try.Limited(core.Every(10, 3*time.Second).WithBurst(4)), 4},
		} {
			expect.Equal(t, try.Admitted(test.h, 20, try.Client, "/"), test.want, "%s: admitted of 20", name)
		}
	})
}
