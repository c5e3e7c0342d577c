package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

func Example() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	e := echo.New()
	e.Use(echolimit.New(limiter))

	e.GET("/", func(echo.Context) error { return nil })
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"), "of", w.Header().Get("X-RateLimit-Limit"))
	// Output: 99 of 100
}

// The IPExtractor knows the proxies already, so the limiter counts by the address that c.RealIP returns.
func ExampleRealIP() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(echolimit.RealIP)}))
	e := echo.New()
	e.IPExtractor = echo.ExtractIPFromXFFHeader() // trusts private networks
	e.Use(echolimit.New(limiter))

	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	for _, client := range []string{"203.0.113.9", "203.0.113.9", "198.51.100.7"} {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		req.RemoteAddr = "10.0.0.5:41000"
		req.Header.Set("X-Forwarded-For", client)
		e.ServeHTTP(w, req)
		fmt.Println(client, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 203.0.113.9 99
	// 203.0.113.9 98
	// 198.51.100.7 99
}
