package keyfunc

import (
	"net/netip"
	"strings"
)

// maxAddress is the length of the longest text of an address without a zone.
const maxAddress = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// An address is a hop of a request: a peer or an element of a header. IPv4-mapped addresses are stored as IPv4. The
// zero address is the peer on a Unix socket.
type address struct {
	ip   netip.Addr // never has a zone: netip would allocate for it
	zone string
}

// parseHost reads an address with or without brackets and a port, like a RemoteAddr or an element of X-Forwarded-For.
func parseHost(s string) (address, bool) {
	host, port, ok := splitPort(s)
	if !ok || !validPort(port) {
		return address{}, false
	}
	return parseAddress(host)
}

// splitPort cuts the port, with its colon, off s. Brackets are stripped; only an IPv6 address may have them. Without
// brackets, one colon separates the port, and several colons mean an IPv6 address.
func splitPort(s string) (host, port string, ok bool) {
	if strings.HasPrefix(s, "[") {
		host, port, ok = strings.Cut(s[1:], "]")
		return host, port, ok && strings.IndexByte(host, ':') >= 0
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		return s[:i], s[i:], true
	}
	return s, "", true
}

// validPort reports whether s is empty or a colon and a number up to 65535 in at most five digits.
func validPort(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) < len(":1") || len(s) > len(":65535") {
		return false
	}
	n := 0
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n <= 65535
}

// parseAddress reads an address that has neither brackets nor a port.
func parseAddress(s string) (address, bool) {
	text, zone, zoned := strings.Cut(s, "%")
	if zoned && (zone == "" || strings.IndexByte(text, ':') < 0) || !addressText(text) {
		return address{}, false
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return address{}, false
	}
	return address{ip: ip.Unmap(), zone: zone}, true
}

// addressText reports whether s could be an address, judged by its length and its characters. Most malformed elements
// fail here, without the error that netip would allocate.
func addressText(s string) bool {
	if len(s) > maxAddress {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= ':', c == '.', 'a' <= c|0x20 && c|0x20 <= 'f':
		default:
			return false
		}
	}
	return true
}

// key returns prefix and the canonical text of the client at a: an IPv4 address, an IPv6 prefix of bits, or a whole IPv6
// address, which keeps its zone if it is link-local. The string is the only allocation.
func (a address) key(prefix string, bits int) string {
	var buf [96]byte
	b := append(buf[:0], prefix...)
	switch ip := embedded(a.ip); {
	case !ip.IsValid():
		b = append(b, "unix"...)
	case ip.Is4():
		b = ip.AppendTo(b)
	case wholeAddress(ip):
		b = ip.AppendTo(b)
		if a.zone != "" && ip.IsLinkLocalUnicast() {
			b = append(append(b, '%'), a.zone...)
		}
	default:
		b = netip.PrefixFrom(ip, bits).Masked().AppendTo(b)
	}
	return string(b)
}
