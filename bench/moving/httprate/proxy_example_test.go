package httprate

import (
	"net/netip"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

// behindProxies limits each client to 100 requests per minute. The proxies set X-Forwarded-For.
func behindProxies(r chi.Router, proxies ...netip.Prefix) error {
	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: proxies})
	if err != nil {
		return err
	}
	limiter, err := core.New([]core.Rule{core.PerMinute(100).Using(core.SlidingWindow).By(ip)})
	if err != nil {
		return err
	}
	r.Use(chilimit.New(limiter)) // in front of RealIP, which overwrites the address of the proxy
	r.Use(middleware.RealIP)     // for the log
	return nil
}
