package rulefile

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// An overrideTable has the limits of single keys of a rule.
type overrideTable struct {
	keys      map[string][]core.Limit
	addresses map[string][]core.Limit // the keys that begin with "ip:"
	networks  *networks
	limits    [][]core.Limit // by the number of a network
	count     int
}

// String returns the number of overrides, or "none".
func (t *overrideTable) String() string {
	if t == nil {
		return "none"
	}
	return strconv.Itoa(t.count)
}

// find returns the limits of a key, or nil if the key has no override. An exact key wins, then the longest prefix.
func (t *overrideTable) find(key string) []core.Limit {
	if !strings.HasPrefix(key, "ip:") {
		return t.keys[key]
	}
	if limits, ok := t.addresses[key]; ok {
		return limits
	}
	if len(t.limits) == 0 {
		return nil
	}
	if a, ok := addressOf(key); ok {
		if n := t.networks.find(a); n != none {
			return t.limits[n]
		}
	}
	return nil
}

// overrides reads the limits of single keys.
func (r *reader) overrides(f field, rule *core.Rule, d *detail) {
	if entries, ok := r.cut[f.key.line]; ok && f.value.kind == noValue {
		f.value = &node{spot: f.key.spot, kind: aTable, table: entries}
	}
	if f.value.kind != aTable || len(f.value.table) == 0 {
		r.unexpected(f, f.value, "a table of keys and their limits")
		return
	}
	t := &overrideTable{keys: make(map[string][]core.Limit), addresses: make(map[string][]core.Limit), count: len(f.value.table)}
	known := make(map[string][]core.Limit) // limits by their text: most keys share the limits of a few plans
	seen := make(map[string]spot, len(f.value.table))
	var list []network
	for _, o := range f.value.table {
		key := o.key.text
		prefix, isNetwork := r.overrideKey(o.key, &d.forms)
		if isNetwork {
			key = prefix.String()
		}
		if r.isRepeated(seen, key, o.key.spot) {
			continue
		}
		limits, ok := known[o.value.text]
		if !ok || o.value.kind != aText {
			limits = r.limitsInstead(o, rule)
			if limits != nil && o.value.kind == aText {
				known[o.value.text] = limits
			}
		}
		switch {
		case isNetwork:
			list = append(list, network{prefix, int32(len(t.limits))})
			t.limits = append(t.limits, limits)
		case strings.HasPrefix(key, "ip:"):
			t.addresses[key] = limits
		default:
			t.keys[key] = limits
		}
	}
	t.networks = newNetworks(list)
	d.overrides = t
	rule.Override = t.find
}

// keyForms are the ways in which the keys of a rule can begin.
type keyForms struct {
	any      bool     // some keys come from a function of the program
	address  bool     // some keys come from ip
	prefixes []string // of all other keys, such as "key:"
}

// add notes a form.
func (k *keyForms) add(prefix string) { k.prefixes = append(k.prefixes, prefix) }

// overrideKey checks the key of an override, and returns its prefix if it is one.
func (r *reader) overrideKey(n *node, forms *keyForms) (prefix netip.Prefix, isNetwork bool) {
	if n.kind != aText || n.text == "" {
		r.add(n.spot, "overrides: a key must be a text such as \"user:42\"")
		return prefix, false
	}
	if p, err := netip.ParsePrefix(n.text); err == nil {
		r.checkNetwork(n, p, forms.address)
		return p.Masked(), true
	}
	if a, err := netip.ParseAddr(n.text); err == nil {
		r.add(n.spot, "overrides: %s is not a key; want \"ip:%s\"", n.text, r.textOf(a))
		return prefix, false
	}
	if strings.HasPrefix(n.text, "ip:") && forms.address {
		r.checkAddress(n, forms)
		return prefix, false
	}
	if forms.any || startsWithOneOf(n.text, forms.prefixes) {
		return prefix, false
	}
	want := forms.prefixes
	if forms.address {
		want = append([]string{"ip:"}, want...)
	}
	if len(want) > 0 { // otherwise the key of the rule is a mistake
		r.add(n.spot, "overrides: no key of this rule is %q; its keys begin with %s", n.text, strings.Join(want, " or "))
	}
	return prefix, false
}

func startsWithOneOf(key string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(key, p) && len(key) > len(p) || key == p && !strings.HasSuffix(p, ":") {
			return true
		}
	}
	return false
}

// checkNetwork adds the mistakes in a prefix of addresses.
func (r *reader) checkNetwork(n *node, p netip.Prefix, isAddress bool) {
	switch {
	case !isAddress:
		r.add(n.spot, "%s is a network, and the key of this rule is not ip", n.text)
	case p != p.Masked():
		r.add(n.spot, "%s has host bits set; want %s", n.text, r.networkOf(p))
	case p.Addr().Is4In6():
		r.add(n.spot, "%s is an IPv4 network in IPv6 form; want it in IPv4 form", n.text)
	case p.Addr().Is6() && p.Bits() > r.bits():
		r.add(n.spot, "%s is longer than /%d, the prefix that counts as one client", n.text, r.bits())
	case p.Bits() >= 32 && sixToFour.Contains(p.Addr()):
		if a, err := netip.ParseAddr(r.textOf(p.Addr())); err == nil { // otherwise the embedded address is not public
			r.add(n.spot, "%s matches no client: the key of a 6to4 address is its IPv4 address; want %s", n.text,
				netip.PrefixFrom(a, min(p.Bits()-sixToFour.Bits(), 32)).Masked())
		}
	}
}

// sixToFour are the addresses of 6to4: the 32 bits after the prefix are an IPv4 address. A network of /32 or longer embeds a part of
// one IPv4 /16, whose addresses are nearly always all public, or all not.
var sixToFour = netip.MustParsePrefix("2002::/16")

// checkAddress adds a mistake if an address is not written as the key func ip writes it.
func (r *reader) checkAddress(n *node, forms *keyForms) {
	form, text := "ip:", strings.TrimPrefix(n.text, "ip:")
	if rest, ok := strings.CutPrefix(text, "unresolved:"); ok {
		form, text = "ip:unresolved:", rest
	}
	want := ""
	if p, err := netip.ParsePrefix(text); err == nil {
		if !p.Addr().Is6() || p.Bits() != r.bits() || p != p.Masked() {
			r.add(n.spot, "%q is not a key; for a network, want %s without ip:", n.text, r.networkOf(p))
			return
		}
		want = p.String()
	} else if a, err := netip.ParseAddr(text); err == nil {
		want = r.textOf(a)
	} else if text != "unix" && !forms.any {
		r.add(n.spot, "%q is not a key; want an address behind %s, or ip:unix", n.text, form)
	}
	if want != "" && want != text {
		r.add(n.spot, "%q is not a key; want %q", n.text, form+want)
	}
}

// textOf returns the client at a as the key func ip writes it.
func (r *reader) textOf(a netip.Addr) string {
	key, _ := keyfunc.Address(func(*http.Request) string { return a.String() })(nil)
	if text := strings.TrimPrefix(key, "ip:"); !strings.Contains(text, "/") { // whatever ipv6_bits is
		return text
	}
	p, _ := a.Prefix(r.bits())
	return p.String()
}

// networkOf returns the network nearest to p that an override or a skip can name.
func (r *reader) networkOf(p netip.Prefix) netip.Prefix {
	a, bits := p.Addr(), p.Bits()
	switch {
	case a.Is4In6() && bits >= 96:
		a, bits = a.Unmap(), bits-96
	case a.Is6():
		bits = min(bits, r.bits())
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// defaultBits is the length of the IPv6 prefix that package keyfunc counts as one client.
const defaultBits = 64

// bits returns the length of the IPv6 prefix that ip counts as one client.
func (r *reader) bits() int {
	if r.ipv6Bits == 0 {
		return defaultBits
	}
	return r.ipv6Bits
}
