// Package seen turns the client address that a framework reports into a key, unless the framework trusts every peer.
package seen

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// strangers are peers that no server trusts: addresses for documentation (RFC 5737, RFC 3849, RFC 9637). There are
// several of each family, because a test may trust one of them.
var strangers = [][]string{
	{"192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1"},
	{"[2001:db8::1]:1", "[3fff::1]:1"},
}

// claims are addresses for forged headers: one for benchmarks (RFC 2544), and a private one, because some versions of
// echo check whether they trust the claimed address instead of the peer.
var claims = []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("10.255.255.254")}

// platform are the headers that gin reads if its TrustedPlatform says so. The platform overwrites them, so a server
// that reads them does not trust every peer.
var platform = []string{"X-Appengine-Remote-Addr", "Cf-Connecting-Ip", "Fly-Client-Ip"}

// Key returns the key of the address that see finds for r. It fails with ErrInvalid if see finds an address that an
// untrusted peer has forged in a header. The error contains remedy, which says what to do.
func Key(r *http.Request, see func(*http.Request) string, remedy string) (string, error) {
	for _, peers := range strangers {
		for _, claim := range claims {
			if believesAll(r, see, peers, claim) {
				return "", fmt.Errorf("%w: the framework believes the address that any client writes into a header: %s", core.ErrInvalid, remedy)
			}
		}
	}
	return keyfunc.Address(see)(r)
}

// A Context is echo's Context, of either version.
type Context interface {
	Request() *http.Request
	SetRequest(*http.Request)
	RealIP() string
}

// RealIP is Key for the address that c.RealIP returns. It fails with ErrInvalid unless ok, which says that r has the context c.
func RealIP(r *http.Request, c Context, ok bool) (string, error) {
	if !ok {
		return "", fmt.Errorf("%w: echolimit.RealIP is for limiters mounted by echolimit.New", core.ErrInvalid)
	}
	outer := c.Request()
	defer func() { c.SetRequest(outer) }()
	return Key(r, func(r *http.Request) string {
		c.SetRequest(r)
		return c.RealIP()
	}, "set e.IPExtractor to echo.ExtractIPFromXFFHeader or echo.ExtractIPDirect")
}

// believesAll reports whether see finds the claimed address, whichever of the peers claims it.
func believesAll(r *http.Request, see func(*http.Request) string, peers []string, claim netip.Addr) bool {
	return !slices.ContainsFunc(peers, func(peer string) bool {
		found, err := netip.ParseAddr(see(forge(r, peer, claim.String())))
		return err != nil || found.Unmap() != claim
	})
}

// forge returns a request like r from a peer that claims an address in every header of r, because see may read any of
// them, and in the two headers that frameworks read by default.
func forge(r *http.Request, peer, claim string) *http.Request {
	h := http.Header{"X-Forwarded-For": {claim}, "X-Real-Ip": {claim}}
	for name := range r.Header {
		if !slices.Contains(platform, name) {
			h[name] = []string{claim}
		}
	}
	f := r.WithContext(r.Context())
	f.Header, f.RemoteAddr = h, peer
	return f
}
