package rulefile

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
)

// networks finds the longest of its prefixes that contains an address. It has two sorted lists of ranges that do not
// overlap, so the time of a look-up does not depend on the lengths of the prefixes.
type networks struct {
	// Ranges of IPv4 addresses: where each starts, and its value. first4 has the last range that starts at or before each /16.
	starts4 []uint32
	values4 []int32
	first4  []int32

	v6 []span
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
	n := &networks{v6: spans(v6)}
	for _, s := range spans(v4) {
		n.starts4, n.values4 = append(n.starts4, uint32(s.low)), append(n.values4, s.value)
	}
	if len(n.starts4) > 0 {
		n.first4 = make([]int32, 1<<16)
		last := 0
		for at := range n.first4 {
			for last+1 < len(n.starts4) && n.starts4[last+1] <= uint32(at)<<16 {
				last++
			}
			n.first4[at] = int32(last)
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
	switch {
	case a.Is4() && len(n.first4) > 0:
		return n.find4(uint32(low))
	case a.Is4() || len(n.v6) == 0:
		return none
	}
	first, end := 0, len(n.v6) // the range is one of these
	for end-first > 1 {
		middle := (first + end) >> 1
		if s := &n.v6[middle]; s.high < high || s.high == high && s.low <= low {
			first = middle
		} else {
			end = middle
		}
	}
	return n.v6[first].value
}

func (n *networks) find4(a uint32) int32 {
	block := a >> 16
	first, end := n.first4[block], int32(len(n.starts4))
	if int(block)+1 < len(n.first4) {
		end = n.first4[block+1] + 1
	}
	for end-first > 1 {
		middle := (first + end) >> 1
		if n.starts4[middle] <= a {
			first = middle
		} else {
			end = middle
		}
	}
	return n.values4[first]
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
