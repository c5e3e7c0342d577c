package keyfunc

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/spillgate/spillgate/core"
)

// maxElements is how many elements of a header are examined. Chains of proxies have a handful.
const maxElements = 32

// ClientIP finds the client behind trusted proxies. Its key has the forms of RemoteIP and one more:
// "ip:unresolved:<hop>" for all requests whose header becomes malformed before it names a client. The hop is the last
// proxy that was verified, so such requests share one key per proxy and cannot choose it.
//
// A header is read only if the peer is trusted; from any other peer, the peer is the client. The zero ClientIP trusts
// nobody and equals RemoteIP. A list is read from its right end, where the nearest proxy wrote: the client is the first
// address that is not trusted, or the furthest if all are trusted. At most 32 elements are examined, empty ones
// included; a longer chain is unresolved.
//
// Equal addresses give equal keys, whatever their notation, and ports and zones are dropped. An IPv6 address that
// contains the IPv4 address of the client is that IPv4 address: IPv4-mapped, NAT64 (64:ff9b::/96), 6to4 (2002::/16) and
// Teredo (2001::/32). Any other is its prefix, except for two kinds that keep their full length: link-local addresses,
// which also keep their zone, and addresses of local NAT64 (64:ff9b:1::/48), whose clients share a prefix. Trust is judged
// by the address as it was received, mapped ones as IPv4.
//
// It is as good as its configuration: a trusted prefix that clients can connect from, or a Hops that is too large, lets
// clients choose their key. The package documentation says how to verify it before going live.
type ClientIP struct {
	// Trusted are the addresses of the proxies. The peer must be one of these, or headers are not read.
	// Mapped prefixes mean the IPv4 prefix, and host bits are ignored. 0.0.0.0/0, ::/0 and any other prefix that
	// contains all IPv4 addresses, mapped ones included, are errors. A netip.Prefix has no zone: a prefix of link-local
	// addresses applies to every link.
	Trusted []netip.Prefix

	// Unix reports whether a Unix-socket peer is a trusted proxy.
	Unix bool

	// Hops, if not 0, is the number of proxies in front, at most 32: the client is the element at that place from the
	// right, trusted or not. All elements up to it must be addresses, and a shorter chain is unresolved. Without Trusted
	// every peer is believed, so only the proxies may be able to connect. A single-value header has no such places;
	// there Hops only decides that every peer is believed.
	Hops int

	// Header is the only header that is read. If empty, it is X-Forwarded-For. "Forwarded" is parsed by RFC 7239. Of any
	// other, such as CF-Connecting-IP, the last line is one address, and without a line the peer is the client. The
	// proxy must overwrite such a header on every request: otherwise clients write it.
	Header string

	// IPv6Bits is the length of the IPv6 prefix that counts as one client, 32 to 128. If 0, it is 64.
	IPv6Bits int
}

// NewClientIP returns the key func of a copy of c, after validation. Its error joins all mistakes in c; each wraps
// ErrInvalid and names the field and the value. The key func fails like Key.
func NewClientIP(c ClientIP) (core.KeyFunc, error) {
	if errs := c.mistakes(); errs != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("spillgate: %w", errs[i])
		}
		return nil, errors.Join(errs...)
	}
	trusted := make([]netip.Prefix, len(c.Trusted))
	for i, p := range c.Trusted {
		trusted[i] = unmapped(p)
	}
	c.Trusted, c.Header = trusted, http.CanonicalHeaderKey(c.Header)
	return c.find, nil
}

// Key returns the key of the client of r. It fails like RemoteIP if r.RemoteAddr is not an address with a port. If c is
// invalid, it fails with ErrInvalid on each request; prefer NewClientIP, which fails at once.
func (c ClientIP) Key(r *http.Request) (string, error) {
	if errs := c.mistakes(); errs != nil {
		return "", errors.Join(errs...)
	}
	return c.find(r)
}

// find is Key for a valid c.
func (c ClientIP) find(r *http.Request) (string, error) {
	hop, err := peer(r)
	if err != nil {
		return "", err
	}
	prefix := "ip:"
	if c.believes(hop) {
		var ok bool
		if hop, ok = c.client(r.Header, hop); !ok {
			prefix = "ip:unresolved:"
		}
	}
	bits := c.IPv6Bits
	if bits == 0 {
		bits = prefixBits
	}
	return hop.key(prefix, bits), nil
}

// believes reports whether the header of a request from peer is read.
func (c *ClientIP) believes(peer address) bool {
	switch {
	case len(c.Trusted) == 0 && c.Hops > 0:
		return true
	case !peer.ip.IsValid():
		return c.Unix
	}
	return c.trusts(peer.ip)
}

func (c *ClientIP) trusts(ip netip.Addr) bool {
	for _, p := range c.Trusted {
		if unmapped(p).Contains(ip) {
			return true
		}
	}
	return false
}

// client returns the client that h names, if peer is believed. If h is unresolved it returns the last verified hop and
// false.
func (c *ClientIP) client(h http.Header, peer address) (address, bool) {
	var buf [64]byte // avoids an allocation for the name
	switch name := appendCanonical(buf[:0], c.Header); string(name) {
	case "", "X-Forwarded-For":
		return c.walk(elements{lines: h["X-Forwarded-For"]}, parseElement, peer)
	case "Forwarded":
		return c.walk(elements{lines: h["Forwarded"], quoted: true}, parseForwarded, peer)
	default:
		return lastLine(h[string(name)], peer)
	}
}
