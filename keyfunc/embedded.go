package keyfunc

import "net/netip"

// IPv6 prefixes of translators and tunnels for IPv4 clients.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // translators, RFC 6052 §2.1: the last 32 bits
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // translators with an address layout of their own, RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // 6to4, RFC 3056 §2: the 32 bits after the prefix
	teredo     = netip.MustParsePrefix("2001::/32")      // Teredo, RFC 4380 §4: the last 32 bits, inverted
)

// embedded returns the IPv4 address of the client behind ip, or ip if it embeds none. A client of 6to4 or Teredo can
// choose the other bits of its address freely.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:]))
	case teredo.Contains(ip):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return ip
}

// wholeAddress reports whether a client is identified by all bits of ip, which embeds no known IPv4 address. That is so
// on a local link, and behind a translator of RFC 8215, whose clients share a /64.
func wholeAddress(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || localNAT64.Contains(ip)
}
