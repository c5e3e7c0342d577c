package rulefile

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/keyfunc"
)

// proxies sets the key func of ip.
func (r *reader) proxies(f field) {
	r.ip = keyfunc.RemoteIP
	if r.offline {
		r.ip = offlineIP(0)
	}
	if f.key == nil {
		return
	}
	fields := r.fields(f.value, "proxies", proxyFields)
	if fields == nil {
		return
	}
	var c keyfunc.ClientIP
	wrong := len(r.found)
	if trusted, ok := fields["trusted"]; ok {
		c.Trusted = r.prefixes(trusted)
	}
	if header, ok := fields["header"]; ok {
		c.Header = r.text(header)
	}
	c.Unix = r.oneOf(fields["unix"], bools) == 1
	c.Hops = r.number(fields["hops"], 1, 32)
	c.IPv6Bits = r.number(fields["ipv6_bits"], 32, 128)
	if len(r.found) > wrong {
		return
	}
	if !slices.ContainsFunc([]string{"trusted", "hops", "unix"}, func(name string) bool { return fields[name].key != nil }) {
		r.add(f.key.spot, "proxies: no proxy is trusted; want trusted, hops or unix")
		return
	}
	key, err := keyfunc.NewClientIP(c)
	if err != nil {
		at := f.key.spot
		if header, ok := fields["header"]; ok && strings.Contains(err.Error(), "ClientIP.Header") {
			at = header.value.spot
		}
		r.addError(at, err)
		return
	}
	r.ipv6Bits = c.IPv6Bits
	if r.ip = key; r.offline {
		r.ip = offlineIP(c.IPv6Bits)
	}
}

// prefixes reads networks and addresses.
func (r *reader) prefixes(f field) (prefixes []netip.Prefix) {
	for _, n := range r.texts(f) {
		p, err := netip.ParsePrefix(n.text)
		if addr, e := netip.ParseAddr(n.text); e == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			r.add(n.spot, "%q is not a network such as 10.0.0.0/8, nor an address", n.text)
			continue
		}
		if _, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{p}}); err != nil {
			r.addError(n.spot, err)
			continue
		}
		prefixes = append(prefixes, p)
	}
	return prefixes
}

// number returns a whole number from low to high, or 0 if the field is not there.
func (r *reader) number(f field, low, high int) int {
	if f.key == nil {
		return 0
	}
	text := r.text(f)
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < low || n > high) {
		r.add(f.value.spot, "%s: want a whole number from %d to %d, got %q", f.key.text, low, high, text)
	}
	return n
}
