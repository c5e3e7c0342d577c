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
	c.Hops = r.number(fields["hops"])
	c.IPv6Bits = r.number(fields["ipv6_bits"])
	if len(r.found) > wrong {
		return
	}
	if !slices.ContainsFunc([]string{"trusted", "hops", "unix"}, func(name string) bool { return fields[name].key != nil }) {
		r.add(f.key.spot, "proxies: no proxy is trusted; want trusted, hops or unix")
		return
	}
	key, err := keyfunc.NewClientIP(c)
	if err != nil {
		r.addError(placeOf(err, f, fields), err)
		return
	}
	r.ipv6Bits = c.IPv6Bits
	if r.ip = key; r.offline {
		r.ip = offlineIP(c.IPv6Bits)
	}
}

// placeOf returns the place of the field of proxies that an error of package keyfunc names.
func placeOf(err error, f field, fields map[string]field) spot {
	for text, name := range map[string]string{"ClientIP.Header": "header", "ClientIP.Hops": "hops", "ClientIP.IPv6Bits": "ipv6_bits"} {
		if strings.Contains(err.Error(), text) && fields[name].value != nil {
			return fields[name].value.spot
		}
	}
	return f.key.spot
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

// number returns a whole number, or 0 if the field is not there.
func (r *reader) number(f field) int {
	if f.key == nil {
		return 0
	}
	text := r.text(f)
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 1) {
		r.add(f.value.spot, "%s: want a whole number of at least 1, got %q", f.key.text, text)
	}
	return n
}
