package keyfunc

import (
	"net/netip"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

func BenchmarkRemoteIP(b *testing.B) {
	for _, remote := range []string{"203.0.113.9:4000", "[2001:db8:1:2::3]:4000"} {
		b.Run(remote, func(b *testing.B) {
			r := request(remote)
			b.ReportAllocs()
			for b.Loop() {
				must.Get(RemoteIP(r))(b)
			}
		})
	}
}

func BenchmarkClientIP(b *testing.B) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	for _, row := range []struct {
		name, header, value string
	}{
		{"list", "X-Forwarded-For", "1.1.1.1, 198.51.100.7, 10.0.0.2"},
		{"forwarded", "Forwarded", `for=1.1.1.1, for="[2001:db8::7]:4711";proto=https, for=10.0.0.2`},
		{"single", "CF-Connecting-IP", "198.51.100.7"},
	} {
		key := must.Get(NewClientIP(ClientIP{Trusted: proxies, Header: row.header}))(b)
		b.Run(row.name, func(b *testing.B) {
			r := request("10.0.0.1:80", row.header, row.value)
			b.ReportAllocs()
			for b.Loop() {
				must.Get(key(r))(b)
			}
		})
	}
}
