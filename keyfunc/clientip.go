package keyfunc

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/spillgate/spillgate/core"
)

// maxElements is how many elements of a header are examined. Real chains of proxies are much shorter.
const maxElements = 32

// ClientIP finds the client behind trusted proxies. Its key has the forms of RemoteIP and one more:
// "ip:unresolved:<hop>" for requests whose header is malformed before it names a client. The hop is the last trusted
// proxy, so such requests share one key per proxy, and clients cannot choose it.
//
// ClientIP reads a header only if the peer is trusted; otherwise the peer is the client. The zero ClientIP trusts
// nobody and is the same as RemoteIP. ClientIP reads a list from the right, where the nearest proxy has written: the
// client is the first address that is not trusted or, if all are trusted, the leftmost one. It examines at most 32
// elements, including empty ones; a longer chain is unresolved.
//
// Equal addresses give equal keys, whatever their notation, and ports and zones are dropped. An IPv6 address that
// embeds the client's IPv4 address counts as that IPv4 address: IPv4-mapped and, if the IPv4 address is public, NAT64
// (64:ff9b::/96), 6to4 (2002::/16) and Teredo (2001::/32). Any other IPv6 address counts as its prefix. Two kinds keep
// their full length: link-local addresses, which also keep their zone, and addresses of local NAT64 (64:ff9b:1::/48),
// whose clients share a prefix.
// Whether an address is trusted depends on the address as received; a mapped address is compared as IPv4.
//
// ClientIP is only as safe as its configuration: if clients can connect from a trusted prefix, or if Hops is too large,
// clients can choose their key. The package documentation says how to verify the configuration before going live.
type ClientIP struct {
	// Trusted are the addresses of the proxies. If the peer is not among them, headers are not read. An IPv4-mapped
	// prefix means the IPv4 prefix, and host bits are ignored. 0.0.0.0/0, ::/0 and any other prefix that contains all
	// IPv4 addresses, mapped ones included, are errors. A netip.Prefix has no zone: a prefix of link-local addresses
	// applies to every link.
	Trusted []netip.Prefix

	// Unix reports whether a Unix-socket peer is a trusted proxy.
	Unix bool

	// Hops, if not 0, is the number of proxies in front, at most 32: the client is the Hops-th element from the right,
	// whether or not it is trusted. All elements up to it must be addresses; a shorter list is unresolved. Without
	// Trusted, every peer is trusted, so make sure that only the proxies can connect. With a single-value header, Hops
	// only means that every peer is trusted.
	Hops int

	// Header is the only header that is read. If empty, it is X-Forwarded-For. "Forwarded" is parsed according to RFC
	// 7239. Any other header, such as CF-Connecting-IP, contains one address: ClientIP reads its last line, and if
	// there is none, the peer is the client. The proxy must overwrite such a header on every request; otherwise clients
	// can set it.
	Header string

	// IPv6Bits is the length of the IPv6 prefix that counts as one client, 32 to 128. If 0, it is 64.
	IPv6Bits int
}

// NewClientIP validates a copy of c and returns its key func. Its error joins all mistakes in c; each wraps ErrInvalid
// and names the field and the value. The key func returns the same errors as Key.
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

// Key returns the key of the client of r. If r.RemoteAddr is not an address with a port, it returns the same errors as
// RemoteIP. If c is invalid, it returns ErrInvalid on each request; prefer NewClientIP, which returns the error once,
// at the start.
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
	return hop.key(prefix, cmp.Or(c.IPv6Bits, prefixBits)), nil
}

// believes reports whether c reads the header of a request from peer.
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

// client returns the client that h names, if peer is trusted. If h is unresolved, client returns the last trusted hop
// and false.
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
