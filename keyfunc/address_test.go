package keyfunc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestRemoteIP(t *testing.T) {
	for _, row := range []struct{ why, remote, want string }{
		{"IPv4", "203.0.113.9:4000", "ip:203.0.113.9"},
		{"IPv6", "[2001:db8:1:2:3:4:5:6]:4000", "ip:2001:db8:1:2::/64"},
		{"the other /64", "[2001:db8:1:3:3:4:5:6]:4000", "ip:2001:db8:1:3::/64"},
		{"no port", "203.0.113.9", "invalid"},
		{"no port, IPv6", "2001:db8::1", "invalid"},
		{"no port, brackets", "[2001:db8::1]", "invalid"},
		{"no port, mapped", "::ffff:203.0.113.9", "invalid"},
		{"no port, link-local", "fe80::1%eth0", "invalid"},
		{"loopback", "[::1]:1", "ip:::/64"},
		{"mapped, hexadecimal", "[::ffff:cb00:7109]:1", "ip:203.0.113.9"},
		{"mapped, expanded", "[0:0:0:0:0:FFFF:203.0.113.9]:1", "ip:203.0.113.9"},
		{"mapped, with a zone", "[::ffff:203.0.113.9%eth0]:1", "ip:203.0.113.9"},
		{"compatible is not mapped", "[::203.0.113.9]:1", "ip:::/64"},
		{"NAT64", "[64:ff9b::203.0.113.9]:1", "ip:203.0.113.9"},
		{"one bit off NAT64", "[64:ff9b::1:cb00:7109]:1", "ip:64:ff9b::/64"},
		{"local NAT64", "[64:ff9b:1::cb00:7109]:1", "ip:64:ff9b:1::cb00:7109"},
		{"the last local NAT64", "[64:ff9b:1:ffff::1]:1", "ip:64:ff9b:1:ffff::1"},
		{"behind local NAT64", "[64:ff9b:2::1]:1", "ip:64:ff9b:2::/64"},
		{"6to4", "[2002:cb00:7109::1]:1", "ip:203.0.113.9"},
		{"6to4, another subnet and host", "[2002:cb00:7109:ffff:dead:beef:0:1]:1", "ip:203.0.113.9"},
		{"one bit off 6to4", "[2003:cb00:7109::1]:1", "ip:2003:cb00:7109::/64"},
		{"Teredo", "[2001:0:cb00:7101:8000:f227:34ff:8ef6]:1", "ip:203.0.113.9"},
		{"Teredo by another server and port", "[2001:0:1:2:0:1:34ff:8ef6]:1", "ip:203.0.113.9"},
		{"NAT64 of a private address", "[64:ff9b::a00:1]:1", "ip:64:ff9b::/64"},
		{"NAT64 of a loopback address", "[64:ff9b::7f00:1]:1", "ip:64:ff9b::/64"},
		{"6to4 of a private address", "[2002:a00:2:5::1]:1", "ip:2002:a00:2:5::/64"},
		{"6to4 of another private address", "[2002:ac1f:ffff::1]:1", "ip:2002:ac1f:ffff::/64"},
		{"6to4 beside the private addresses", "[2002:ac20::1]:1", "ip:172.32.0.0"},
		{"6to4 of the last private network", "[2002:c0a8:101::1]:1", "ip:2002:c0a8:101::/64"},
		{"6to4 of a link-local address", "[2002:a9fe:a9fe::1]:1", "ip:2002:a9fe:a9fe::/64"},
		{"6to4 of a loopback address", "[2002:7f00:1::1]:1", "ip:2002:7f00:1::/64"},
		{"6to4 of an address behind a carrier's NAT", "[2002:6440:1::1]:1", "ip:2002:6440:1::/64"},
		{"6to4 of no address", "[2002::1]:1", "ip:2002::/64"},
		{"6to4 of the broadcast address", "[2002:ffff:ffff::1]:1", "ip:2002:ffff:ffff::/64"},
		{"Teredo of a private address", "[2001:0:cb00:7101:8000:f227:f5ff:fffe]:1", "ip:2001:0:cb00:7101::/64"},
		{"a mapped private address", "[::ffff:10.0.0.1]:1", "ip:10.0.0.1"},
		{"one bit off Teredo", "[2001:1:cb00:7101:8000:f227:34ff:8ef6]:1", "ip:2001:1:cb00:7101::/64"},
		{"link-local", "[fe80::1%eth0]:1", "ip:fe80::1%eth0"},
		{"link-local on Windows, whose kernel names it", "[fe80::1%Ethernet 2]:1", "ip:fe80::1%Ethernet 2"},
		{"link-local without a zone", "[fe80::1]:1", "ip:fe80::1"},
		{"the last link-local prefix", "[febf::1%1]:1", "ip:febf::1%1"},
		{"site-local is not link-local", "[fec0::1%1]:1", "ip:fec0::/64"},
		{"a zone elsewhere", "[2001:db8::1%eth0]:1", "ip:2001:db8::/64"},
		{"IPv4 link-local is IPv4", "169.254.1.1:1", "ip:169.254.1.1"},
		{"the longest address", "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535", "ip:ffff:ffff:ffff:ffff::/64"},
		{"port 0", "203.0.113.9:0", "ip:203.0.113.9"},
		{"a port of nines", "203.0.113.9:9999", "ip:203.0.113.9"},

		{"Unix on Linux", "@", "ip:unix"},
		{"an abstract name", "@client", "ip:unix"},
		{"a path", "/tmp/client.sock", "ip:unix"},

		{"empty", "", "error"},
		{"a name", "localhost:80", "error"},
		{"port only", ":80", "error"},
		{"no digits in the port", "203.0.113.9:", "error"},
		{"letters in the port", "203.0.113.9:http", "error"},
		{"a port too large", "203.0.113.9:65536", "error"},
		{"a port too long", "203.0.113.9:000080", "error"},
		{"garbage behind the bracket", "[2001:db8::1]x", "error"},
		{"a bracket too few", "[2001:db8::1", "error"},
		{"no port after the bracket", "[2001:db8::1]:", "error"},
		{"IPv4 in brackets", "[203.0.113.9]:80", "error"},
		{"an empty zone", "[fe80::1%]:1", "error"},
		{"spaces", " 203.0.113.9:80", "error"},
		{"three octets", "203.0.113:80", "error"},
		{"an octet too large", "203.0.113.256:80", "error"},
		{"octal", "0203.0.113.9:80", "error"},
		{"one group too many", "[1:2:3:4:5:6:7:8:9]:80", "error"},
		{"longer than any address", "[" + strings.Repeat("1:", 1<<20) + ":]:80", "error"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request(row.remote, "X-Forwarded-For", "1.1.1.1", "Forwarded", "for=1.1.1.1", "X-Real-IP", "1.1.1.1")
			checkKey(t, RemoteIP, r, row.want)
			checkClientIP(t, ClientIP{}, r, row.want)
		})
	}
}

// RewrittenIP differs from RemoteIP only in accepting an address without a port.
func TestRewrittenIP(t *testing.T) {
	for _, row := range []struct{ remote, want string }{
		{"203.0.113.9", "ip:203.0.113.9"},
		{"203.0.113.9:4000", "ip:203.0.113.9"},
		{"2001:db8:1:2::3", "ip:2001:db8:1:2::/64"},
		{"[2001:db8:1:2::3]", "ip:2001:db8:1:2::/64"},
		{"[2001:db8:1:2::3]:4000", "ip:2001:db8:1:2::/64"},
		{"::ffff:203.0.113.9", "ip:203.0.113.9"},
		{"fe80::1%eth0", "ip:fe80::1%eth0"},
		{"@", "ip:unix"},
		{"", "error"},
		{"localhost", "error"},
		{"203.0.113.9:", "error"},
		{"203.0.113.9, 1.1.1.1", "error"},
	} {
		checkKey(t, RewrittenIP, request(row.remote, "X-Forwarded-For", "1.1.1.1"), row.want)
	}
}

// The error must say what to do, because the mistake is in the application.
func TestRewrittenAddressErrorSaysWhatToDo(t *testing.T) {
	for _, fn := range []core.KeyFunc{RemoteIP, ClientIP{}.Key} {
		_, err := fn(request("203.0.113.9"))
		for _, want := range []string{"203.0.113.9", "no port", "outside of that middleware", "keyfunc.ClientIP", "keyfunc.RewrittenIP"} {
			expect.True(t, err != nil && strings.Contains(err.Error(), want), "got %v, want %q in it", err, want)
		}
	}
}

// On systems other than Linux the peer of a Unix socket has no name. The name that a peer binds may look like an address.
func TestUnixByLocalAddress(t *testing.T) {
	for _, row := range []struct {
		remote string
		local  net.Addr
		want   string
	}{
		{"", &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, "ip:unix"},
		{"client.sock", &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, "ip:unix"},
		{"203.0.113.9:80", &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, "ip:unix"},
		{"[::1]:80", &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, "ip:unix"},
		{"", &net.TCPAddr{}, "error"},
		{"", nil, "error"},
	} {
		r := request(row.remote)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, row.local))
		checkKey(t, RemoteIP, r, row.want)
	}
}

func TestKeyIsTheOnlyAllocation(t *testing.T) {
	ten := prefixes("10.0.0.0/8", "::ffff:192.168.0.0/112", "2001:db8:ffff::/48", "fe80::/10")
	long := "198.51.100.7" + strings.Repeat(", 10.0.0.2", 31)
	for _, row := range []struct {
		why    string
		config ClientIP
		r      *http.Request
	}{
		{"IPv4 peer", ClientIP{}, request("203.0.113.9:4000")},
		{"IPv6 peer", ClientIP{}, request("[2001:db8:1:2:3:4:5:6]:4000")},
		{"link-local peer", ClientIP{}, request("[fe80::1%eth0]:4000")},
		{"6to4 peer", ClientIP{}, request("[2002:cb00:7109::1]:4000")},
		{"local NAT64 peer", ClientIP{}, request("[64:ff9b:1::cb00:7109]:4000")},
		{"Unix peer", ClientIP{}, request("@")},
		{"list", ClientIP{Trusted: ten}, request("10.0.0.1:80", xff, "1.1.1.1, [2001:db8::1]:80, 192.168.0.1", xff, "fe80::1%eth0")},
		{"long list", ClientIP{Trusted: ten}, request("10.0.0.1:80", xff, long)},
		{"hops", ClientIP{Hops: 2}, request("10.0.0.1:80", xff, "198.51.100.7, 10.0.0.2")},
		{"garbage", ClientIP{Trusted: ten}, request("10.0.0.1:80", xff, garble)},
		{"much garbage", ClientIP{Trusted: ten}, request("10.0.0.1:80", xff, strings.Repeat("1:", 1<<16))},
		{"single value", ClientIP{Trusted: ten, Header: "CF-Connecting-IP"}, request("10.0.0.1:80", "CF-Connecting-IP", "2001:db8::1")},
		{"forwarded", ClientIP{Trusted: ten, Header: "Forwarded"}, request("10.0.0.1:80", "Forwarded", `for="[2001:db8::1]:_x";by="a\"b";proto=https, for=10.0.0.2`)},
		{"forwarded, unknown", ClientIP{Trusted: ten, Header: "forwarded"}, request("10.0.0.1:80", "Forwarded", "for=unknown")},
	} {
		t.Run(row.why, func(t *testing.T) {
			fn := must.Get(NewClientIP(row.config))(t)
			for name, fn := range map[string]func(*http.Request) (string, error){"Key": row.config.Key, "NewClientIP": fn, "RemoteIP": RemoteIP} {
				expect.AtMost(t, testing.AllocsPerRun(100, func() { _, _ = fn(row.r) }), 1, "%s: allocations", name)
			}
		})
	}
}

// A request that http.NewRequest makes for a test has no remote address.
func TestErrorOfARequestWithoutAddressNamesHttptest(t *testing.T) {
	for _, fn := range []core.KeyFunc{RemoteIP, RewrittenIP, ClientIP{}.Key} {
		_, err := fn(&http.Request{})
		expect.True(t, errors.Is(err, core.ErrNoKey) && strings.Contains(err.Error(), "httptest.NewRequest"), "got %v", err)
	}
}

func TestClientIPMistakes(t *testing.T) {
	for _, row := range []struct {
		why    string
		config ClientIP
		want   string // in the error; "" for none
	}{
		{"the zero value is RemoteIP", ClientIP{}, ""},
		{"the most", ClientIP{Trusted: prefixes("10.0.0.0/8"), Hops: 32, IPv6Bits: 128}, ""},
		{"32 bits", ClientIP{IPv6Bits: 32}, ""},
		{"half of IPv4 is odd but not all", ClientIP{Trusted: prefixes("0.0.0.0/1", "::ffff:128.0.0.0/97")}, ""},
		{"IPv6 without the mapped part", ClientIP{Trusted: prefixes("2000::/3", "64:ff9b::/96", "::1/128", "::/96")}, ""},
		{"all of IPv4", ClientIP{Trusted: prefixes("0.0.0.0/0")}, "Trusted[0] must not contain all IPv4 addresses, got 0.0.0.0/0"},
		{"all of IPv4, written otherwise", ClientIP{Trusted: prefixes("10.0.0.0/8", "1.2.3.4/0")}, "Trusted[1]"},
		{"all of IPv6", ClientIP{Trusted: prefixes("::/0")}, "got ::/0"},
		{"all mapped", ClientIP{Trusted: prefixes("::ffff:0:0/96")}, "got ::ffff:0.0.0.0/96"},
		{"all mapped and more", ClientIP{Trusted: prefixes("::ffff:10.0.0.0/95")}, "got ::ffff:10.0.0.0/95"},
		{"all mapped and much more", ClientIP{Trusted: prefixes("::/64")}, "got ::/64"},
		{"no prefix", ClientIP{Trusted: make([]netip.Prefix, 1)}, "Trusted[0] must be a prefix, got invalid Prefix"},
		{"negative hops", ClientIP{Hops: -1}, "Hops must be between 0 and 32, got -1"},
		{"hops that are never examined", ClientIP{Hops: 33}, "got 33"},
		{"few bits", ClientIP{IPv6Bits: 31}, "IPv6Bits must be 0 or between 32 and 128, got 31"},
		{"many bits", ClientIP{IPv6Bits: 129}, "got 129"},
		{"negative bits", ClientIP{IPv6Bits: -64}, "got -64"},
		{"not a header", ClientIP{Header: "X Real IP"}, `Header must be the name of a header other than Host, got "X Real IP"`},
		{"a header with its colon", ClientIP{Header: "X-Real-IP:"}, "Header"},
		{"net/http keeps Host elsewhere", ClientIP{Header: "host"}, "Header"},
	} {
		t.Run(row.why, func(t *testing.T) {
			fn, err := NewClientIP(row.config)
			key, keyErr := row.config.Key(request("203.0.113.9:1"))
			if row.want == "" {
				expect.True(t, err == nil && keyErr == nil && key == "ip:203.0.113.9", "got %v; %q, %v", err, key, keyErr)
				return
			}
			expect.True(t, fn == nil && errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), row.want),
				"NewClientIP: got %v, want %q", err, row.want)
			expect.True(t, key == "" && errors.Is(keyErr, core.ErrInvalid) && keyErr.Error() == strings.ReplaceAll(err.Error(), "spillgate: ", ""),
				"Key: got %q, %v, want %v", key, keyErr, err)
		})
	}
}

func TestClientIPAllMistakesAtOnce(t *testing.T) {
	_, err := NewClientIP(ClientIP{Trusted: prefixes("0.0.0.0/0", "::/0"), Hops: -1, Header: " ", IPv6Bits: 1})
	lines := strings.Split(err.Error(), "\n")
	must.Equal(t, len(lines), 5, "mistakes (%v)", err)
	for _, line := range lines {
		expect.True(t, strings.HasPrefix(line, "spillgate: invalid: ClientIP."), "got %q", line)
	}
}

func TestNewClientIPCopies(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	fn := must.Get(NewClientIP(ClientIP{Trusted: trusted}))(t)
	trusted[0] = netip.MustParsePrefix("192.0.2.0/24")
	checkKey(t, fn, request("10.0.0.1:80", xff, "198.51.100.7"), "ip:198.51.100.7")
}

// checkPeer4 checks that peer4 agrees with the parser on IPv4 addresses with a port, and returns "" for everything else.
func checkPeer4(t *testing.T, remote string) {
	t.Helper()
	want := ""
	if a, ok := parseHost(remote); ok && a.ip.Is4() && strings.Count(remote, ":") == 1 { // a mapped address has more
		want = a.key("ip:", prefixBits)
	}
	expect.Equal(t, peer4(remote), want, "remote %q", remote)
}

func TestPeer4(t *testing.T) {
	for _, remote := range []string{
		"203.0.113.9:4000", "203.0.113.9", "0.0.0.0:0", "255.255.255.255:65535", "1.2.3.4:65536", "1.2.3.4:", "1.2.3.4:080",
		"1.2.3.4x", "1.2.3.4:x", "1.2.3.4 ", "1.2.3.4.5:1", "1.2.3.4.", "1.2.3:1", "1.2.3.", "1..3.4", ".1.2.3", "1.2.3.256:1",
		"1.2.3.1234:1", "18446744073709551617.2.3.4:1", "1.2.3.04:1", "1.2.3.00:1", "01.2.3.4:1", "1.2.3.4:1:1", "1.2.3.4%a", "::ffff:1.2.3.4", "[1.2.3.4]:1", "", "1", "@",
	} {
		checkPeer4(t, remote)
	}
	for range 20_000 {
		checkPeer4(t, garbled4())
	}
}

// garbled4 returns an IPv4 address with a port in which one byte is replaced.
func garbled4() string {
	var b []byte
	for i := range 4 {
		b = append(strconv.AppendInt(b, rand.Int64N(260), 10), ".:"[i/3])
	}
	b = strconv.AppendInt(b, rand.Int64N(70_000), 10)
	const replacements = "0123456789.:[]%ax "
	b[rand.IntN(len(b))] = replacements[rand.IntN(len(replacements))]
	return string(b)
}

func FuzzPeer4(f *testing.F) {
	for _, s := range []string{"203.0.113.9:4000", "1.2.3.04", "1.2.3.4:99999", "256.1.1.1", "[::1]:1"} {
		f.Add(s)
	}
	f.Fuzz(checkPeer4)
}
