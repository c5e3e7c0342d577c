package echolimit

import (
	"net/http"

	"github.com/spillgate/spillgate/middleware/internal/seen"
)

// RealIP is a key func for the address that c.RealIP returns: "ip:203.0.113.9", or "ip:2001:db8:1:2::/64" for an IPv6 /64.
// Use it if e.IPExtractor knows your proxies. Otherwise keyfunc.ClientIP is simpler.
//
// It fails with ErrInvalid (status 500) if echo trusts every peer, as older versions do without an IPExtractor, because
// any client could then choose its key. RealIP checks this by asking echo for the client of a request with forged
// headers. An IPExtractor that reads a header from any peer looks the same: use keyfunc.Address for that, and make sure
// that your proxy overwrites the header. RealIP fails with ErrNoKey if echo knows no address, for example behind a Unix
// socket.
func RealIP(r *http.Request) (string, error) {
	c, ok := ContextOf(r)
	return seen.RealIP(r, c, ok)
}
