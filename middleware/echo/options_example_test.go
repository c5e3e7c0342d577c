package echolimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// answer sends a request to a router with this middleware.
func answer(limit echo.MiddlewareFunc, from string) *httptest.ResponseRecorder {
	r := echo.New()
	r.Use(limit)
	r.GET("/", func(echo.Context) error { return nil })
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = from
	r.ServeHTTP(w, req)
	return w
}

const client = "203.0.113.9:40000"

func ExampleWithHeaders() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	w := answer(echolimit.New(limiter, echolimit.WithHeaders(headers.IETF)), client)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output: "default";r=99;t=1
}

func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(echolimit.New(limiter, echolimit.WithDenyHandler(func(c echo.Context, _ core.Decision) error {
		return c.String(http.StatusTooManyRequests, "Come back later.")
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 429 Come back later.
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(echolimit.New(limiter, echolimit.WithErrorHandler(func(c echo.Context, err error) error {
		if errors.Is(err, core.ErrNoKey) {
			return c.String(http.StatusUnauthorized, "Send your key in X-Api-Key.")
		}
		log.Print(err)
		return echolimit.WriteError(c, err)
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 401 Send your key in X-Api-Key.
}

// An error handler that logs and sends the default answer.
func ExampleWriteError() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(echolimit.New(limiter, echolimit.WithErrorHandler(func(c echo.Context, err error) error {
		fmt.Println(err)
		return echolimit.WriteError(c, err)
	})), client)
	fmt.Println(w.Code)
	// Output:
	// spillgate: rule "default": API key in header X-Api-Key: no key
	// 400
}

// A deny handler that logs, adds a header field and sends the default response.
func ExampleWriteDenial() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(echolimit.New(limiter, echolimit.WithDenyHandler(func(c echo.Context, d core.Decision) error {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Limit)
		c.Response().Header().Set("Link", `</plans>; rel="help"`)
		return echolimit.WriteDenial(c, d)
	})), client)
	fmt.Println(w.Code, w.Header().Get("Link"))
	// Output:
	// denied by 0/1m
	// 429 </plans>; rel="help"
}

// A key func that reads what an authentication in front has set.
func ExampleContextOf() {
	user := keyfunc.User(func(r *http.Request) (string, bool) {
		c, ok := echolimit.ContextOf(r)
		if !ok {
			return "", false
		}
		id, ok := c.Get("user").(string)
		return id, ok
	})
	limiter := core.Must(core.New([]core.Rule{core.PerHour(100).By(user)}))
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", "42")
			return next(c)
		}
	}, echolimit.New(limiter))
	e.GET("/", func(echo.Context) error { return nil })
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	d, _ := limiter.Take(context.Background(), core.Claim{Key: "user:42", Peek: true})
	fmt.Println(d.Results[0].Remaining)
	// Output: 99
}
