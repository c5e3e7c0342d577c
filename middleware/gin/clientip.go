package ginlimit

import (
	"fmt"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/seen"
)

// ClientIP is a key func for the address that c.ClientIP returns: "ip:203.0.113.9", or "ip:2001:db8:1:2::/64" for an IPv6
// /64. Use it if the engine knows your proxies from SetTrustedProxies or TrustedPlatform. Otherwise keyfunc.ClientIP is
// simpler.
//
// It fails with ErrInvalid (status 500) if gin trusts every peer, as it does by default, because any client could then
// choose its key. ClientIP checks this by asking gin for the client of a request with forged headers. A TrustedPlatform
// with your own header looks the same: use keyfunc.Address for that, and make sure that the platform overwrites the header.
// ClientIP fails with ErrNoKey if gin knows no address, for example behind a Unix socket.
func ClientIP(r *http.Request) (string, error) {
	c, ok := ContextOf(r)
	if !ok {
		return "", fmt.Errorf("%w: ginlimit.ClientIP is for limiters mounted by ginlimit.New", core.ErrInvalid)
	}
	outer := c.Request
	defer func() { c.Request = outer }()
	return seen.Key(r, func(r *http.Request) string {
		c.Request = r
		return c.ClientIP()
	}, "call engine.SetTrustedProxies with the networks of your proxies, or with nil if there are none")
}
