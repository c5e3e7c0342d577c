package recipes

import (
	"net/netip"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// behindProxies limits each client behind two nginx, which write X-Forwarded-For.
func behindProxies() (*core.Limiter, error) {
	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{
		netip.MustParsePrefix("10.0.5.10/32"),
		netip.MustParsePrefix("10.0.5.11/32"),
	}})
	if err != nil {
		return nil, err
	}
	return core.New([]core.Rule{core.PerMinute(100).By(ip)})
}
