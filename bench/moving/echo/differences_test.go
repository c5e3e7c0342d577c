// Package echo checks what docs/moving/echo.md says.
package echo

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
)

const client = "203.0.113.9:4000"

func app(limit func(*echo.Echo)) *echo.Echo {
	e := echo.New()
	limit(e)
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	return e
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{"before": app(before), "after": app(after)} {
			if got := try.Admitted(h, 20, client, "/"); got != 10 {
				t.Errorf("%s: admitted %d of 20, want 10", name, got)
			}
			time.Sleep(6 * time.Second)
			if got := try.Admitted(h, 20, client, "/"); got != 1 {
				t.Errorf("%s: admitted %d after 6s, want 1", name, got)
			}
		}
	})
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := app(before), app(after)
		try.Admitted(old, 10, client, "/")
		try.Admitted(now, 10, client, "/")
		if w := try.Get(old, client, "/"); w.Code != 429 || w.Body.String() != `{"message":"rate limit exceeded"}`+"\n" || w.Header().Get("Retry-After") != "" {
			t.Errorf("before: %d %q %v", w.Code, w.Body, w.Header())
		}
		if w := try.Get(now, client, "/"); w.Code != 429 || w.Header().Get("Retry-After") != "6" {
			t.Errorf("after: %d %q %v", w.Code, w.Body, w.Header())
		}
	})
}

// echo v4 believes X-Forwarded-For of any client if the application sets no IPExtractor.
func TestForgedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := app(func(e *echo.Echo) { e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStore(1))) })
		now := app(after)
		admitted, limited := 0, 0
		for i := range 50 {
			forged := "198.51.100." + string(rune('0'+i%10)) + string(rune('0'+i/10))
			admitted += try.Admitted(old, 1, client, "/", "X-Forwarded-For", forged)
			limited += try.Admitted(now, 1, client, "/", "X-Forwarded-For", forged)
		}
		if admitted != 50 || limited != 10 {
			t.Errorf("admitted %d before, want 50; %d after, want 10", admitted, limited)
		}
	})
}

// A record that is idle for ExpiresIn is forgotten, whatever the rate.
func TestASlowLimitIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := app(func(e *echo.Echo) {
			e.IPExtractor = echo.ExtractIPDirect()
			e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{Rate: 5.0 / 3600, Burst: 5})))
		})
		if got := try.Admitted(h, 10, client, "/"); got != 5 {
			t.Errorf("admitted %d of 10, want 5", got)
		}
		time.Sleep(3*time.Minute + time.Second)
		try.Get(h, "198.51.100.1:4000", "/") // any request may clean up
		if got := try.Admitted(h, 10, client, "/"); got != 5 {
			t.Errorf("admitted %d after three minutes, want all 5 again", got)
		}
	})
}
