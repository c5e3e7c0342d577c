package ginlimit

import (
	"fmt"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/seen"
)

// ClientIP is the key of the address that c.ClientIP returns: "ip:203.0.113.9", "ip:2001:db8:1:2::/64" for all of an IPv6 /64.
// Use it if the engine knows your proxies, by SetTrustedProxies or TrustedPlatform. Otherwise keyfunc.ClientIP is simpler.
//
// It fails with ErrInvalid, which is status 500, if gin trusts every peer: so it does by default, and any client could choose
// its key. ClientIP finds out by asking gin about the address that a stranger forges in the headers of the request. A
// TrustedPlatform with a header of your own looks the same: for that, use keyfunc.Address, and make sure that the platform
// overwrites the header. ClientIP fails with ErrNoKey if gin knows no address, as behind a Unix socket.
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
