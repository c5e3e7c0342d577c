package rulefile

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// networks finds the longest of its prefixes that contains an address. It has two sorted lists of ranges that do not
// overlap, so the time of a look-up does not depend on the lengths of the prefixes.
type networks struct {
	v4, v6 []span
	first4 []int32 // the range of v4 with which each /16 begins
}

// A span is a range of addresses, from its start to the start of the next one.
type span struct {
	high, low uint64 // an IPv4 address is a number in low
	value     int32  // value of the longest prefix, or none
}

const none = -1

// A network is a prefix and the number that look-ups of its addresses return.
type network struct {
	prefix netip.Prefix
	value  int32
}

// newNetworks returns the networks of prefixes, which have no host bits set.
func newNetworks(prefixes []network) *networks {
	var v4, v6 []network
	for _, p := range prefixes {
		if p.prefix.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	n := &networks{v4: spans(v4), v6: spans(v6)}
	if len(n.v4) > 0 {
		n.first4 = make([]int32, 1<<16)
		for i, s := range n.v4 {
			for at := s.low >> 16; at < 1<<16; at++ {
				if at<<16 < s.low {
					continue
				}
				n.first4[at] = int32(i)
				if i+1 < len(n.v4) && n.v4[i+1].low>>16 <= at {
					break
				}
			}
		}
	}
	return n
}

func numberOf(a netip.Addr) (high, low uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// spans returns ranges, the first of which begins at the lowest address.
func spans(prefixes []network) (list []span) {
	if len(prefixes) == 0 {
		return nil
	}
	slices.SortFunc(prefixes, func(a, b network) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	list = append(list, span{value: none})
	add := func(high, low uint64, value int32) {
		if last := &list[len(list)-1]; last.high == high && last.low == low {
			last.value = value
			return
		}
		list = append(list, span{high, low, value})
	}
	var open []network // each contains the next
	closeUntil := func(next netip.Addr) {
		for len(open) > 0 && (!next.IsValid() || !open[len(open)-1].prefix.Contains(next)) {
			after, outer := lastOf(open[len(open)-1].prefix).Next(), int32(none)
			if open = open[:len(open)-1]; len(open) > 0 {
				outer = open[len(open)-1].value
			}
			if after.IsValid() {
				high, low := numberOf(after)
				add(high, low, outer)
			}
		}
	}
	for _, p := range prefixes {
		closeUntil(p.prefix.Addr())
		high, low := numberOf(p.prefix.Addr())
		add(high, low, p.value)
		open = append(open, p)
	}
	closeUntil(netip.Addr{})
	return list
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(b); bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// find returns the value of the longest prefix that contains an address, or none.
func (n *networks) find(a netip.Addr) int32 {
	high, low := numberOf(a)
	list := n.v6
	if a.Is4() {
		if list = n.v4; len(list) == 0 {
			return none
		}
		first, end := n.first4[low>>16], len(list)
		if low>>16 < 1<<16-1 {
			end = int(n.first4[low>>16+1]) + 1
		}
		list = list[first:end]
	}
	if len(list) == 0 {
		return none
	}
	after := sort.Search(len(list), func(i int) bool {
		return list[i].high > high || list[i].high == high && list[i].low > low
	})
	return list[after-1].value
}

// addressOf returns the address in a key of package keyfunc: the address in "ip:203.0.113.9", or the first address of
// "ip:2001:db8::/64".
func addressOf(key string) (netip.Addr, bool) {
	text, ok := strings.CutPrefix(key, "ip:")
	if !ok {
		return netip.Addr{}, false
	}
	text, _, _ = strings.Cut(text, "/")
	a, err := netip.ParseAddr(text)
	return a, err == nil
}
