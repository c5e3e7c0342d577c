package keyfunc

import (
	"fmt"
	"net/netip"

	"github.com/spillgate/spillgate/core"
)

// mapped4 is the first of the IPv4-mapped addresses, ::ffff:0:0/96.
var mapped4 = netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff})

// mistakes returns an error for each invalid field of c. It allocates nothing if c is valid.
func (c *ClientIP) mistakes() (errs []error) {
	for i, p := range c.Trusted {
		switch {
		case !p.IsValid():
			errs = append(errs, invalid("ClientIP.Trusted[%d] must be a prefix, got %v; want a prefix such as 10.0.0.0/24", i, p))
		case containsAllIPv4(unmapped(p)):
			errs = append(errs, invalid("ClientIP.Trusted[%d] must not contain all IPv4 addresses, got %v; want the networks of your proxies", i, p))
		}
	}
	if c.Hops < 0 || c.Hops > maxElements {
		errs = append(errs, invalid("ClientIP.Hops must be between 0 and %d, got %d", maxElements, c.Hops))
	}
	if c.Header != "" && !readable(c.Header) {
		errs = append(errs, invalid("ClientIP.Header must be the name of a header other than Host, got %q", c.Header))
	}
	if c.IPv6Bits != 0 && (c.IPv6Bits < 32 || c.IPv6Bits > 128) {
		errs = append(errs, invalid("ClientIP.IPv6Bits must be 0 or between 32 and 128, got %d", c.IPv6Bits))
	}
	return errs
}

// unmapped returns the IPv4 prefix if p is a prefix of IPv4-mapped addresses, else p.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// containsAllIPv4 reports whether p, which is unmapped, contains all IPv4 addresses, possibly in their mapped form.
func containsAllIPv4(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() == 0
	}
	return p.Bits() <= 96 && p.Contains(mapped4)
}

// misuse returns the error with which constructors that take constants panic.
func misuse(format string, args ...any) error {
	return fmt.Errorf("spillgate: %w", invalid(format, args...))
}

// invalid returns an error that wraps ErrInvalid. A Limiter puts its prefix in front of the errors of key funcs.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", core.ErrInvalid, fmt.Sprintf(format, args...))
}
