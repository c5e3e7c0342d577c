package accesslog

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// setClient reads a client: an address or a host name, with or without a port, or a list of addresses that begins with
// the client's, as in X-Forwarded-For.
func (e *Entry) setClient(s string) error {
	var ok bool
	if e.Client, ok = address(s); !ok {
		if e.Client, ok = hostName(s); !ok {
			return partsError{fmt.Errorf("the client is %.60q, want an address or a host name", s)}
		}
	}
	return nil
}

// address returns the first address of a list without its port, brackets and quotes. It skips "-", which stands for an
// empty X-Forwarded-For.
func address(s string) (string, bool) {
	if len(s) == 0 || s[0] > 'f' || 'G' <= s[0] && s[0] <= 'Z' { // spares ParseAddr most host names
		return "", false
	}
	if isAddress(s) {
		return s, true
	}
	s = strings.Trim(s, `"'() `)
	for first, rest, more := strings.Cut(s, ","); more && strings.Trim(first, " -") == ""; first, rest, more = strings.Cut(s, ",") {
		s = rest
	}
	s, _, _ = strings.Cut(s, ",")
	s = strings.TrimSpace(s)
	if inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"); isAddress(inner) {
		return inner, true
	}
	return beforePort(s)
}

// beforePort returns the address in front of a port. An IPv6 address may have no brackets.
func beforePort(s string) (string, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || !isPort(s[i+1:]) {
		return "", false
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s[:i], "["), "]")
	return host, isAddress(host)
}

// isAddress reports whether s is an address. ParseAddr takes all that follows a % for the zone, even "fe80::1%eth0]:80".
func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && !strings.ContainsAny(a.Zone(), "], ")
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// hostName returns s without its port if it is a host name. The last label of a host name is not a number, which tells
// it from a mistyped address; "unknown" is what proxies write for a client that they hide.
func hostName(s string) (string, bool) {
	if name, port, ok := strings.Cut(s, ":"); ok && isPort(port) {
		s = name
	}
	last := s[strings.LastIndexByte(strings.TrimSuffix(s, "."), '.')+1:]
	if s == "" || len(s) > 253 || s == "unknown" || strings.Trim(last, "-.0123456789") == "" {
		return "", false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '.' && c != '_' && (c != '-' || i == 0) {
			return "", false
		}
	}
	return s, true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}
