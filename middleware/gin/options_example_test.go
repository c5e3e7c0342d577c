package ginlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

// answer sends a request to a router with this middleware.
func answer(limit gin.HandlerFunc, from string) *httptest.ResponseRecorder {
	r := gin.New()
	r.Use(limit)
	r.GET("/", func(*gin.Context) {})
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = from
	r.ServeHTTP(w, req)
	return w
}

const client = "203.0.113.9:40000"

func ExampleWithHeaders() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	w := answer(ginlimit.New(limiter, ginlimit.WithHeaders(headers.IETF)), client)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output: "default";r=99;t=1
}

func ExampleWithDenyHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(ginlimit.New(limiter, ginlimit.WithDenyHandler(func(c *gin.Context, _ core.Decision) {
		c.String(http.StatusTooManyRequests, "Come back later.")
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 429 Come back later.
}

func ExampleWithErrorHandler() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(ginlimit.New(limiter, ginlimit.WithErrorHandler(func(c *gin.Context, err error) {
		if errors.Is(err, core.ErrNoKey) {
			c.String(http.StatusUnauthorized, "Send your key in X-Api-Key.")
			return
		}
		log.Print(err)
		ginlimit.WriteError(c, err)
	})), client)
	fmt.Println(w.Code, w.Body)
	// Output: 401 Send your key in X-Api-Key.
}

// An error handler that logs and sends the default answer.
func ExampleWriteError() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.APIKey("X-Api-Key"))}))
	w := answer(ginlimit.New(limiter, ginlimit.WithErrorHandler(func(c *gin.Context, err error) {
		fmt.Println(err)
		ginlimit.WriteError(c, err)
	})), client)
	fmt.Println(w.Code)
	// Output:
	// spillgate: rule "default": API key in header X-Api-Key: no key
	// 400
}

// A deny handler that logs, adds a header field and sends the default response.
func ExampleWriteDenial() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)}))
	w := answer(ginlimit.New(limiter, ginlimit.WithDenyHandler(func(c *gin.Context, d core.Decision) {
		tightest, _ := d.Tightest()
		fmt.Println("denied by", tightest.Limit)
		c.Header("Link", `</plans>; rel="help"`)
		ginlimit.WriteDenial(c, d)
	})), client)
	fmt.Println(w.Code, w.Header().Get("Link"))
	// Output:
	// denied by 0/1m
	// 429 </plans>; rel="help"
}

// A key func that reads what an authentication in front has set.
func ExampleContextOf() {
	user := keyfunc.User(func(r *http.Request) (string, bool) {
		c, ok := ginlimit.ContextOf(r)
		return c.GetString("user"), ok
	})
	limiter := core.Must(core.New([]core.Rule{core.PerHour(100).By(user)}))
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", "42") }, ginlimit.New(limiter))
	r.GET("/", func(*gin.Context) {})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	d, _ := limiter.Take(context.Background(), core.Claim{Key: "user:42", Peek: true})
	fmt.Println(d.Results[0].Remaining)
	// Output: 99
}
