package rulefile

import (
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func prefixesOf(texts ...string) (list []network) {
	for i, text := range texts {
		list = append(list, network{netip.MustParsePrefix(text), int32(i)})
	}
	return list
}

func TestTheLongestPrefixIsFound(t *testing.T) {
	n := newNetworks(prefixesOf("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.1.4.0/24", "203.0.113.0/24", "255.255.255.0/24", "2001:db8::/32", "2001:db8:1::/48", "::/1"))
	for _, tt := range []struct {
		address string
		want    int32
	}{
		{"9.255.255.255", none}, {"10.0.0.0", 0}, {"10.0.255.255", 0}, {"10.1.0.0", 1}, {"10.1.2.0", 2}, {"10.1.2.2", 2}, {"10.1.2.3", 3}, {"10.1.2.4", 2},
		{"10.1.3.0", 1}, {"10.1.4.255", 4}, {"10.1.5.0", 1}, {"10.2.0.0", 0}, {"10.255.255.255", 0}, {"11.0.0.0", none}, {"203.0.113.7", 5}, {"203.0.114.0", none},
		{"255.255.255.255", 6}, {"0.0.0.0", none}, {"2001:db8::", 7}, {"2001:db8:1:2::", 8}, {"2001:db8:2::", 7}, {"2001:db9::", 9}, {"8000::", none},
	} {
		expect.Equal(t, n.find(netip.MustParseAddr(tt.address)), tt.want, "%s: got prefix", tt.address)
	}
	expect.Equal(t, newNetworks(nil).find(netip.MustParseAddr("10.0.0.1")), none, "of no prefixes")
}

func TestPrefixSearchEqualsLinearSearch(t *testing.T) {
	testpass.Sequential(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var list []network
		seen := make(map[netip.Prefix]bool)
		for len(list) < 1+r.IntN(40) {
			p := randomAddress(r)
			prefix, _ := p.Prefix(r.IntN(p.BitLen() + 1))
			if !seen[prefix] {
				seen[prefix] = true
				list = append(list, network{prefix, int32(len(list))})
			}
		}
		all := append([]network(nil), list...)
		n := newNetworks(list)
		for range 200 {
			a := randomAddress(r)
			if r.IntN(3) == 0 {
				a = lastOf(all[r.IntN(len(all))].prefix)
			}
			want, bits := int32(none), -1
			for _, p := range all {
				if p.prefix.Contains(a) && p.prefix.Bits() > bits {
					want, bits = p.value, p.prefix.Bits()
				}
			}
			must.Equal(t, n.find(a), want, "seed %d, %v in %v", seed, a, all)
		}
	}
}

// randomAddress returns random addresses, many of which have the same prefix.
func randomAddress(r *rand.Rand) netip.Addr {
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{byte(r.IntN(2) * 255), byte(r.IntN(3)), byte(r.IntN(256)), byte(r.IntN(256))})
	}
	var b [16]byte
	b[0], b[1], b[7], b[8], b[15] = byte(r.IntN(2)*255), byte(r.IntN(2)), byte(r.IntN(256)), byte(r.IntN(2)*128), byte(r.IntN(256))
	return netip.AddrFrom16(b)
}
