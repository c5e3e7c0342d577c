package keyfunc

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/ipcases"
)

// Each value is one line of the header, or several separated by a newline.
func TestForwarded(t *testing.T) {
	behind := ClientIP{Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48"), Header: "forwarded"}
	const stop = "ip:unresolved:10.0.0.1"
	for _, row := range []struct{ why, value, want string }{
		{"a token", "for=198.51.100.7", "ip:198.51.100.7"},
		{"a quoted string", `for="198.51.100.7"`, "ip:198.51.100.7"},
		{"a port needs quotes", `for="198.51.100.7:80"`, "ip:198.51.100.7"},
		{"the colon of a port is not a token", "for=198.51.100.7:80", stop},
		{"brackets need quotes", "for=[2001:db8::1]", stop},
		{"IPv6", `for="[2001:db8::1]"`, "ip:2001:db8::/64"},
		{"IPv6 needs brackets", `for="2001:db8::1"`, stop},
		{"mapped IPv6 needs brackets", `for="::ffff:198.51.100.7"`, stop},
		{"mapped", `for="[::ffff:c633:6407]"`, "ip:198.51.100.7"},
		{"an obfuscated port", `for="198.51.100.7:_x"`, "ip:198.51.100.7"},
		{"an obfuscated port with every letter", `for="[2001:db8::1]:_Az0._-"`, "ip:2001:db8::/64"},
		{"an obfuscated port has a letter", `for="198.51.100.7:_"`, stop},
		{"an obfuscated port with another character", `for="198.51.100.7:_a/b"`, stop},
		{"a port too large", `for="198.51.100.7:65536"`, stop},
		{"case", "FoR=198.51.100.7;PROTO=https", "ip:198.51.100.7"},
		{"any order", `by=10.0.0.1;for=198.51.100.7;host="a,b"`, "ip:198.51.100.7"},
		{"whitespace around elements and pairs", "for=1.1.1.1 ,\tfor=198.51.100.7 ; proto=https ", "ip:198.51.100.7"},
		{"empty pairs", ";for=198.51.100.7;;", "ip:198.51.100.7"},
		{"quoted pairs", `for="198.51.100\.7"`, "ip:198.51.100.7"},
		{"quoted pairs from the first letter on", `for="\1\98.51.100.7"`, "ip:198.51.100.7"},
		{"past a trusted hop", `for=1.1.1.1, for=198.51.100.7, for="10.0.0.2:80"`, "ip:198.51.100.7"},
		{"past trusted hops with quotes", `for=198.51.100.7, for=10.0.0.3;host="\",for=1.1.1.1", for="[2001:db8:ffff::1]"`, "ip:198.51.100.7"},
		{"all trusted", "for=10.0.0.3,for=10.0.0.2", "ip:10.0.0.3"},
		{"empty elements", ",for=198.51.100.7,, ,for=10.0.0.2,", "ip:198.51.100.7"},

		{"obfuscated", "for=_hidden", stop},
		{"obfuscated, in quotes", `for="_hidden:80"`, stop},
		{"unknown in any case", "for=UnKnown", stop},
		{"unknown with a port", `for="unknown:80"`, stop},
		{"unknown ends the walk", "for=198.51.100.7, for=unknown", stop},
		{"the hop is the last trusted one", "for=198.51.100.7, for=unknown, for=10.0.0.2", "ip:unresolved:10.0.0.2"},
		{"no for", "by=198.51.100.7", stop},
		{"no for ends the walk", "for=198.51.100.7, proto=https", stop},
		{"only semicolons", "for=198.51.100.7, ;;", stop},
		{"for twice", "for=198.51.100.7;for=198.51.100.8", stop},
		{"for twice in other case", "for=198.51.100.7;FOR=198.51.100.7", stop},
		{"an empty for", "for=", stop},
		{"an empty for in quotes", `for=""`, stop},
		{"a syntax error beside for", "for=198.51.100.7;proto", stop},
		{"a value missing beside for", "for=198.51.100.7;proto=", stop},
		{"a name missing", "for=198.51.100.7;=https", stop},
		{"spaces around =", "for = 198.51.100.7", stop},
		{"text behind a quoted string", `for="198.51.100.7"x`, stop},
		{"text behind a token", `for=198.51.100.7 x`, stop},
		{"a longer name", "xfor=198.51.100.7", stop},
		{"a bare address", "198.51.100.7", stop},

		{"a quote that is never closed", `for=198.51.100.7, for="10.0.0.2`, stop},
		{"a quote that was never opened", `for=198.51.100.7, for=10.0.0.2"`, stop},
		{"an escaped quote does not close", `for="198.51.100.7\"`, stop},
		{"nor in another parameter", `for=198.51.100.7;x="a\"`, stop},
		{"an escaped backslash before the quote", `for=198.51.100.7;x="a\\"`, "ip:198.51.100.7"},
		{"an escaped quote after an escaped backslash", `for=1.1.1.1, for=198.51.100.7;x="\\\",for=9.9.9.9"`, "ip:198.51.100.7"},
		{"a quoted comma is not the end of an element", `for=1.1.1.1;x=", for=198.51.100.7"`, "ip:1.1.1.1"},
		{"the client's open quote does not swallow the proxy's element", `for="1.1.1.1, for=198.51.100.7`, "ip:198.51.100.7"},
		{"nor one that a proxy's quotes seem to close", `for=1.1.1.1;x=", for="[2001:db8::7]:1"`, "ip:2001:db8::/64"},
		{"nor a trailing backslash", `for=1.1.1.1;x="\, for="198.51.100.7"`, "ip:198.51.100.7"},
		{"nor a hop that is walked past", `for="x, for="198.51.100.7", for="10.0.0.2"`, "ip:198.51.100.7"},
		{"two lines are one list", "for=1.1.1.1, for=198.51.100.7\nfor=10.0.0.2", "ip:198.51.100.7"},
		{"a quoted string ends with its line", "for=198.51.100.7;x=\"\n\",for=10.0.0.2", "ip:unresolved:10.0.0.2"},
		{"an open quote harms only its line", "for=\"\nfor=198.51.100.7", "ip:198.51.100.7"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request("10.0.0.1:80")
			r.Header["Forwarded"] = strings.Split(row.value, "\n")
			checkClientIP(t, behind, r, row.want)
		})
	}
}

// TestForwardedWork would take hours if the parser searched for quotes or backslashes repeatedly, in quadratic time.
func TestForwardedWork(t *testing.T) {
	behind := ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "Forwarded"}
	for _, unit := range []string{`"`, `\`, `\"`, `""`, `,`, `;`, `a="",`, `a="\"";`} {
		value := strings.Repeat(unit, 1<<20/len(unit)) + `"`
		checkClientIP(t, behind, request("10.0.0.1:80", "Forwarded", value), "ip:unresolved:10.0.0.1")
	}
}

func TestClientIPCases(t *testing.T) {
	for _, c := range ipcases.All(t) {
		t.Run(c.Name, func(t *testing.T) {
			r := request(c.RemoteAddr)
			for _, h := range c.Headers {
				r.Header.Add(h[0], h[1])
			}
			checkClientIP(t, ClientIP(c.Config), r, c.Want)
		})
	}
}

const (
	xff    = "X-Forwarded-For"
	garble = "198.51.100.7, garbage"
)

func TestClientIPRules(t *testing.T) {
	ten := prefixes("10.0.0.0/8", "2001:db8:ffff::/48")
	behind := ClientIP{Trusted: ten}
	hops := func(n int) ClientIP { return ClientIP{Trusted: ten, Hops: n} }
	cf := ClientIP{Trusted: ten, Header: "cf-connecting-ip"}
	nat := ClientIP{Trusted: prefixes("10.0.0.0/8", "64:ff9b::/96")}
	link := ClientIP{Trusted: prefixes("fe80::/10")}
	for _, row := range []struct {
		why    string
		config ClientIP
		remote string
		lines  []string
		want   string
	}{
		{"1: a trusted prefix ends where it ends", behind, "11.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:11.0.0.1"},
		{"1: a header alone makes nobody trusted", ClientIP{Header: "X-Real-IP"}, "10.0.0.1:80", []string{"X-Real-IP", "198.51.100.7"}, "ip:10.0.0.1"},
		{"1: an IPv6 peer", behind, "[2001:db8:ffff::1]:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"1: a mapped peer", behind, "[::ffff:10.0.0.1]:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"2: Forwarded is not read for X-Forwarded-For", behind, "10.0.0.1:80", []string{"Forwarded", "for=198.51.100.7"}, "ip:10.0.0.1"},
		{"2: X-Forwarded-For is not read for Forwarded", ClientIP{Trusted: ten, Header: "forwarded"}, "10.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:10.0.0.1"},
		{"2: the name may be given in any case", ClientIP{Trusted: ten, Header: "x-forwarded-FOR"}, "10.0.0.1:80", []string{xff, "1.1.1.1, 198.51.100.7"}, "ip:198.51.100.7"},
		{"3: past several trusted hops", behind, "10.0.0.1:80", []string{xff, "1.1.1.1,198.51.100.7 ,10.0.0.3,\t10.0.0.2"}, "ip:198.51.100.7"},
		{"3: all trusted, the furthest", behind, "10.0.0.1:80", []string{xff, "10.0.0.3, 10.0.0.2"}, "ip:10.0.0.3"},
		{"3: all trusted over two lines", behind, "10.0.0.1:80", []string{xff, "10.0.0.4, 10.0.0.3", xff, "10.0.0.2"}, "ip:10.0.0.4"},
		{"3: empty elements are skipped", behind, "10.0.0.1:80", []string{xff, ", 198.51.100.7,, ,10.0.0.2, ", xff, ""}, "ip:198.51.100.7"},
		{"3: nothing but empty elements", behind, "10.0.0.1:80", []string{xff, " , ,"}, "ip:10.0.0.1"},
		{"3: no header", behind, "10.0.0.1:80", nil, "ip:10.0.0.1"},
		{"4: the hop is the last trusted one", behind, "10.0.0.1:80", []string{xff, "1.1.1.1, garbage, 10.0.0.2"}, "ip:unresolved:10.0.0.2"},
		{"4: an IPv6 hop shows as its prefix", behind, "[2001:db8:ffff:1::5]:80", []string{xff, garble}, "ip:unresolved:2001:db8:ffff:1::/64"},
		{"4: a mapped hop shows as IPv4", behind, "10.0.0.1:80", []string{xff, "x, ::ffff:10.0.0.2"}, "ip:unresolved:10.0.0.2"},
		{"4: a NAT64 hop shows as IPv4", nat, "10.0.0.1:80", []string{xff, "x, 64:ff9b::c633:6409"}, "ip:unresolved:198.51.100.9"},
		{"4: a link-local hop keeps its zone", link, "[fe80::1%eth0]:80", []string{xff, "x"}, "ip:unresolved:fe80::1%eth0"},
		{"4: quotes are garbage in a plain list", behind, "10.0.0.1:80", []string{xff, `"198.51.100.7"`}, "ip:unresolved:10.0.0.1"},
		{"4: unknown", behind, "10.0.0.1:80", []string{xff, "198.51.100.7, unknown"}, "ip:unresolved:10.0.0.1"},
		{"4: leading zeros", behind, "10.0.0.1:80", []string{xff, "198.51.100.07"}, "ip:unresolved:10.0.0.1"},
		{"4: two addresses without a comma", behind, "10.0.0.1:80", []string{xff, "198.51.100.7 198.51.100.8"}, "ip:unresolved:10.0.0.1"},
		{"5: elements need not be trusted", hops(2), "10.0.0.1:80", []string{xff, "9.9.9.9, 198.51.100.7, 192.0.2.2"}, "ip:198.51.100.7"},
		{"5: the client may be a trusted address", hops(1), "10.0.0.1:80", []string{xff, "198.51.100.7, 10.0.0.2"}, "ip:10.0.0.2"},
		{"5: exactly as long as the count", hops(2), "10.0.0.1:80", []string{xff, "198.51.100.7", xff, "192.0.2.2"}, "ip:198.51.100.7"},
		{"5: garbage on the way", hops(2), "10.0.0.1:80", []string{xff, garble}, "ip:unresolved:10.0.0.1"},
		{"5: garbage beyond is not looked at", hops(1), "10.0.0.1:80", []string{xff, "garbage, 198.51.100.7"}, "ip:198.51.100.7"},
		{"5: a hop that is only counted is not verified", hops(2), "10.0.0.1:80", []string{xff, "garbage, 10.0.0.2"}, "ip:unresolved:10.0.0.1"},
		{"5: no header is a short chain", hops(1), "10.0.0.1:80", nil, "ip:unresolved:10.0.0.1"},
		{"5: empty elements do not count", hops(2), "10.0.0.1:80", []string{xff, "198.51.100.7,,192.0.2.2,"}, "ip:198.51.100.7"},
		{"5: with Trusted, the peer must be trusted", hops(1), "203.0.113.9:80", []string{xff, "198.51.100.7"}, "ip:203.0.113.9"},
		{"5: without Trusted every peer is believed", ClientIP{Hops: 1}, "203.0.113.9:80", []string{xff, "1.1.1.1, 198.51.100.7"}, "ip:198.51.100.7"},
		{"5: Unix too", ClientIP{Hops: 1}, "@", []string{xff, "1.1.1.1, 198.51.100.7"}, "ip:198.51.100.7"},
		{"5: with Trusted, Unix must be trusted", hops(1), "@", []string{xff, "198.51.100.7"}, "ip:unix"},
		{"5: a single-value header of a believed peer", ClientIP{Hops: 2, Header: "X-Real-IP"}, "203.0.113.9:80", []string{"X-Real-IP", "198.51.100.7"}, "ip:198.51.100.7"},
		{"6: the name in any case", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", "2001:db8:1:2::3"}, "ip:2001:db8:1:2::/64"},
		{"6: absent", cf, "10.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:10.0.0.1"},
		{"6: garbage", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", "x"}, "ip:unresolved:10.0.0.1"},
		{"6: empty is not absent", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", ""}, "ip:unresolved:10.0.0.1"},
		{"6: the last line counts, even if it is garbage", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", "198.51.100.7", "CF-Connecting-IP", "x"}, "ip:unresolved:10.0.0.1"},
		{"6: a list is garbage", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", "1.1.1.1, 198.51.100.7"}, "ip:unresolved:10.0.0.1"},
		{"6: a trusted address is a client like any", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", " 10.0.0.2\t"}, "ip:10.0.0.2"},
		{"6: a name longer than any real one", ClientIP{Trusted: ten, Header: strings.Repeat("x", 100)}, "10.0.0.1:80", []string{strings.Repeat("x", 100), "198.51.100.7"}, "ip:198.51.100.7"},
		{"8: trust is judged before NAT64 is unwrapped", behind, "10.0.0.1:80", []string{xff, "198.51.100.7, 64:ff9b::a00:2"}, "ip:64:ff9b::/64"},
		{"8: a NAT64 peer is not its IPv4 address to Trusted", behind, "[64:ff9b::a00:1]:80", []string{xff, "198.51.100.7"}, "ip:64:ff9b::/64"},
		{"8: a trusted translator", nat, "[64:ff9b::a00:1]:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"13: local NAT64 is the whole address", behind, "10.0.0.1:80", []string{xff, "64:ff9b:1::c633:6407"}, "ip:64:ff9b:1::c633:6407"},
		{"13: whatever the bits of other prefixes", ClientIP{Trusted: ten, IPv6Bits: 32}, "10.0.0.1:80", []string{xff, "64:ff9b:1:2::7"}, "ip:64:ff9b:1:2::7"},
		{"13: without the zone", behind, "10.0.0.1:80", []string{xff, "64:ff9b:1:2::7%eth0"}, "ip:64:ff9b:1:2::7"},
		{"8: bits of the prefix", ClientIP{Trusted: ten, IPv6Bits: 56}, "10.0.0.1:80", []string{xff, "2001:db8:1:2ff::3"}, "ip:2001:db8:1:200::/56"},
		{"8: the fewest bits", ClientIP{Trusted: ten, IPv6Bits: 32}, "10.0.0.1:80", []string{xff, "2001:db8:1:2::3"}, "ip:2001:db8::/32"},
		{"8: the most bits", ClientIP{IPv6Bits: 128}, "[2001:db8:1:2::3]:80", nil, "ip:2001:db8:1:2::3/128"},
		{"8: bits do not touch IPv4", ClientIP{IPv6Bits: 32}, "203.0.113.9:80", nil, "ip:203.0.113.9"},
		{"8: a zone is stripped", behind, "10.0.0.1:80", []string{xff, "2001:db8:1:2::3%eth0"}, "ip:2001:db8:1:2::/64"},
		{"8: also for judging trust", behind, "10.0.0.1:80", []string{xff, "198.51.100.7, 2001:db8:ffff::1%eth0"}, "ip:198.51.100.7"},
		{"8: a mapped address with a zone", behind, "10.0.0.1:80", []string{xff, "::ffff:198.51.100.7%eth0"}, "ip:198.51.100.7"},
		{"8: an IPv4 address has no zone", behind, "10.0.0.1:80", []string{xff, "198.51.100.7%eth0"}, "ip:unresolved:10.0.0.1"},
		{"8: link-local keeps its zone", behind, "10.0.0.1:80", []string{xff, "[FE80::0:1%eth0.7]:1"}, "ip:fe80::1%eth0.7"},
		{"8: the longest zone", behind, "10.0.0.1:80", []string{xff, "fe80::1%-" + strings.Repeat("z", 31)}, "ip:fe80::1%-" + strings.Repeat("z", 31)},
		{"8: a zone in a header is a plain name", behind, "10.0.0.1:80", []string{xff, "fe80::1%a|b"}, "ip:unresolved:10.0.0.1"},
		{"8: and a short one", behind, "10.0.0.1:80", []string{xff, "fe80::1%" + strings.Repeat("a", 33)}, "ip:unresolved:10.0.0.1"},
		{"9: a mapped prefix is IPv4", ClientIP{Trusted: prefixes("::ffff:10.0.0.0/104")}, "10.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"9: host bits of a prefix are ignored", ClientIP{Trusted: prefixes("10.0.0.99/8")}, "10.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"11: Unix with Unix", ClientIP{Unix: true}, "@", []string{xff, "1.1.1.1, 198.51.100.7"}, "ip:198.51.100.7"},
		{"11: Unix in front of trusted hops", ClientIP{Unix: true, Trusted: ten}, "/run/x.sock", []string{xff, "198.51.100.7, 10.0.0.2"}, "ip:198.51.100.7"},
		{"11: Unix without the header", ClientIP{Unix: true}, "@", nil, "ip:unix"},
		{"11: Unix and garbage", ClientIP{Unix: true}, "@", []string{xff, garble}, "ip:unresolved:unix"},
		{"11: Unix does not make TCP peers trusted", ClientIP{Unix: true}, "10.0.0.1:80", []string{xff, "198.51.100.7"}, "ip:10.0.0.1"},
		{"11: Trusted does not make Unix peers trusted", behind, "@", []string{xff, "198.51.100.7"}, "ip:unix"},
		{"8: trust is judged before Teredo is unwrapped", behind, "[2001:0:cb00:7101:8000:1234:f5ff:fffe]:80", []string{xff, "198.51.100.7"}, "ip:2001:0:cb00:7101::/64"},
		{"8: a trusted 6to4 proxy", ClientIP{Trusted: prefixes("2002:a00:2::/48")}, "[2002:a00:2::1]:80", []string{xff, "198.51.100.7"}, "ip:198.51.100.7"},
		{"8: a 6to4 hop shows as IPv4", ClientIP{Trusted: prefixes("2002:c633:6402::/48")}, "[2002:c633:6402::1]:80", []string{xff, "x"}, "ip:unresolved:198.51.100.2"},
		{"13: a private 6to4 hop shows as IPv6", ClientIP{Trusted: prefixes("2002:a00:2::/48")}, "[2002:a00:2::1]:80", []string{xff, "x"}, "ip:unresolved:2002:a00:2::/64"},
		{"8: Forwarded, 6to4", ClientIP{Trusted: ten, Header: "Forwarded"}, "10.0.0.1:80", []string{"Forwarded", `for="[2002:c633:6407::1]"`}, "ip:198.51.100.7"},
		{"8: a single value, mapped with zeros", cf, "10.0.0.1:80", []string{"CF-Connecting-IP", "0000:0000:0000:0000:0000:ffff:c633:6407"}, "ip:198.51.100.7"},
		{"11: an address without a port was rewritten", behind, "203.0.113.9", nil, "invalid"},
		{"11: also if it is trusted", behind, "10.0.0.1", []string{xff, "198.51.100.7"}, "invalid"},
		{"11: also if every peer is believed", ClientIP{Hops: 1}, "10.0.0.1", []string{xff, "198.51.100.7"}, "invalid"},
		{"11: no peer, no key, whatever the header says", ClientIP{Hops: 1}, "", []string{xff, "198.51.100.7"}, "error"},
	} {
		t.Run(row.why, func(t *testing.T) { checkClientIP(t, row.config, request(row.remote, row.lines...), row.want) })
	}
}

func TestChainLength(t *testing.T) {
	ten := prefixes("10.0.0.0/8")
	chain := func(n int) string { return strings.Repeat(", 10.0.0.2", n) }
	for _, row := range []struct {
		why         string
		hops        int
		value, want string
	}{
		{"32 elements, the client among them", 0, "198.51.100.7" + chain(31), "ip:198.51.100.7"},
		{"the client is the 33rd", 0, "198.51.100.7" + chain(32), "ip:unresolved:10.0.0.2"},
		{"32 trusted elements and no more", 0, "10.0.0.3" + chain(31), "ip:10.0.0.3"},
		{"empty elements are examined too", 0, "198.51.100.7" + strings.Repeat(",", 32), "ip:unresolved:10.0.0.1"},
		{"also one at the left end", 0, ",10.0.0.3" + chain(31), "ip:unresolved:10.0.0.3"},
		{"what is left of the client is not counted", 0, strings.Repeat("1.1.1.1,", 1e5) + "198.51.100.7", "ip:198.51.100.7"},
		{"the largest hop count", 32, "9.9.9.9, 198.51.100.7" + chain(31), "ip:198.51.100.7"},
	} {
		t.Run(row.why, func(t *testing.T) {
			checkClientIP(t, ClientIP{Trusted: ten, Hops: row.hops}, request("10.0.0.1:80", xff, row.value), row.want)
		})
	}
}
