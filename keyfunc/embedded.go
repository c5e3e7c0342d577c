package keyfunc

import "net/netip"

// IPv6 prefixes of translators and tunnels for IPv4 clients.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // translators, RFC 6052 §2.1: the last 32 bits
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // translators with an address layout of their own, RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // 6to4, RFC 3056 §2: the 32 bits after the prefix
	teredo     = netip.MustParsePrefix("2001::/32")      // Teredo, RFC 4380 §4: the last 32 bits, inverted
)

// sharedSpace has the addresses of clients behind a carrier's NAT, RFC 6598. They mean nothing outside of that network.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// embedded returns the IPv4 address of the client behind ip, or ip if it embeds none. A client of 6to4 or Teredo can
// choose the other bits of its address freely. An IPv4 address that is not global is not the client's: anybody can
// write one, such as 10.0.0.1, into an IPv6 address, and what applies to a private network must not apply to it.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b, client := ip.As16(), ip
	switch {
	case nat64.Contains(ip):
		client = netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		client = netip.AddrFrom4([4]byte(b[2:]))
	case teredo.Contains(ip):
		client = netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	if !client.IsGlobalUnicast() || client.IsPrivate() || sharedSpace.Contains(client) {
		return ip
	}
	return client
}

// wholeAddress reports whether a client is identified by all bits of ip, which embeds no known IPv4 address. That is so
// on a local link, and behind a translator of RFC 8215, whose clients share a /64.
func wholeAddress(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || localNAT64.Contains(ip)
}
