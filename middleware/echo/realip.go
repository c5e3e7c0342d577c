package echolimit

import (
	"fmt"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/seen"
)

// RealIP is a key func for the address that c.RealIP returns: "ip:203.0.113.9", or "ip:2001:db8:1:2::/64" for an IPv6 /64.
// Use it if e.IPExtractor knows your proxies. Otherwise keyfunc.ClientIP is simpler.
//
// It fails with ErrInvalid, which is status 500, if echo believes every peer, as older versions do without an IPExtractor: any
// client could choose its key. RealIP finds out by asking echo about the address that a stranger forges in the headers of the request.
// An IPExtractor that reads a header whoever the peer is looks the same: for that, use keyfunc.Address, and make sure that
// your proxy overwrites the header. RealIP fails with ErrNoKey if echo knows no address, as behind a Unix socket.
func RealIP(r *http.Request) (string, error) {
	c, ok := ContextOf(r)
	if !ok {
		return "", fmt.Errorf("%w: echolimit.RealIP is for limiters mounted by echolimit.New", core.ErrInvalid)
	}
	outer := c.Request()
	defer func() { c.SetRequest(outer) }()
	return seen.Key(r, func(r *http.Request) string {
		c.SetRequest(r)
		return c.RealIP()
	}, "set e.IPExtractor to echo.ExtractIPFromXFFHeader or echo.ExtractIPDirect")
}
