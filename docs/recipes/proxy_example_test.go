package recipes

import (
	"net/netip"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// behindProxies limits each client behind proxies in 10.0.0.0/8, which write X-Forwarded-For.
func behindProxies() (*core.Limiter, error) {
	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		return nil, err
	}
	return core.New([]core.Rule{core.PerMinute(100).By(ip)})
}
