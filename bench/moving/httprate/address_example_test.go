package httprate

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

// byClientIP limits each client to 100 requests per minute, by the address that chi's middleware finds.
func byClientIP(r chi.Router, proxies ...string) {
	ip := keyfunc.Address(func(r *http.Request) string { return middleware.GetClientIP(r.Context()) })
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).Using(core.SlidingWindow).By(ip)}))
	r.Use(middleware.ClientIPFromXFF(proxies...))
	r.Use(chilimit.New(limiter))
}
