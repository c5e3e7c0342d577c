package expressratelimit

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each client to 100 requests in 15 minutes, behind one proxy.
func after(next http.Handler) (http.Handler, error) {
	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Hops: 1, IPv6Bits: 56})
	if err != nil {
		return nil, err
	}
	limit := core.Every(100, 15*time.Minute).Using(core.FixedWindow)
	limiter, err := core.New([]core.Rule{limit.By(ip)})
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter)(next), nil
}
