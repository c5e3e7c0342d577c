package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func Example() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	r := gin.New()
	r.Use(ginlimit.New(limiter))

	r.GET("/", func(*gin.Context) {})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"), "of", w.Header().Get("X-RateLimit-Limit"))
	// Output: 99 of 100
}

// The engine knows the proxies already, so the limiter counts by the address that c.ClientIP returns.
func ExampleClientIP() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(ginlimit.ClientIP)}))
	r := gin.New()
	if err := r.SetTrustedProxies([]string{"10.0.0.5"}); err != nil {
		panic(err)
	}
	r.Use(ginlimit.New(limiter))

	r.GET("/", func(*gin.Context) {})
	for _, client := range []string{"203.0.113.9", "203.0.113.9", "198.51.100.7"} {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		req.RemoteAddr = "10.0.0.5:41000"
		req.Header.Set("X-Forwarded-For", client)
		r.ServeHTTP(w, req)
		fmt.Println(client, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 203.0.113.9 99
	// 203.0.113.9 98
	// 198.51.100.7 99
}
