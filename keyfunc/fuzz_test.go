package keyfunc

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

var fuzzProxies = prefixes("10.0.0.0/8", "2001:db8:ffff::/48")

// checkForm checks that key has one of the forms of ClientIP: apart from fixed words, it is an address or a prefix in
// canonical form. The only text that it may copy from a header is the zone of a link-local address.
func checkForm(t *testing.T, key string) {
	t.Helper()
	text, ok := strings.CutPrefix(key, "ip:")
	must.True(t, ok, "key %q has no kind", key)
	text, _ = strings.CutPrefix(text, "unresolved:")
	if text == "unix" {
		return
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		must.True(t, p.String() == text && p == p.Masked() && p.Bits() == 64 && p.Addr().Is6() && !wholeAddress(p.Addr()) && !embedded(p.Addr()).Is4(),
			"key %q is not a prefix in canonical form", key)
		return
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.String() != text || ip.Is4In6() || ip.Is6() && !wholeAddress(ip) {
		t.Fatalf("key %q is not an address in canonical form", key)
	}
}

// keyOf returns the key of a request from remote, and checks its form.
func keyOf(t *testing.T, c ClientIP, remote, header string, lines ...string) string {
	t.Helper()
	key := must.Get(c.Key(&http.Request{RemoteAddr: remote, Header: http.Header{header: lines}}))(t)
	checkForm(t, key)
	return key
}

func FuzzXForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "garbage", "198.51.100.7:5555", "[2001:db8::1]:5", "fe80::1%eth0", "::ffff:c633:6407",
		"64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::1", "2001::f5ff:fffe", ",,\t,", `"1.1.1.1"`, "10.0.0.2, 10.0.0.3", strings.Repeat("10.0.0.2,", 40), "fe80::1%ip:unix"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		const header = "X-Forwarded-For"
		behind := ClientIP{Trusted: fuzzProxies}
		got := keyOf(t, behind, "203.0.113.9:1", header, sent)
		must.Equal(t, got, "ip:203.0.113.9", "an untrusted peer")
		keyOf(t, behind, "10.0.0.1:80", header, sent)
		keyOf(t, ClientIP{Trusted: fuzzProxies, Hops: 2}, "10.0.0.1:80", header, sent)
		for _, lines := range [][]string{{sent + ", 198.51.100.7"}, {sent, "198.51.100.7"}, {sent + ",198.51.100.7:1 , 10.0.0.2"}} {
			must.Equal(t, keyOf(t, behind, "10.0.0.1:80", header, lines...), "ip:198.51.100.7", "lines %q", lines)
		}
		got = keyOf(t, behind, "10.0.0.1:80", header, sent+", x, 10.0.0.2")
		must.Equal(t, got, "ip:unresolved:10.0.0.2", "left of garbage")
		got = keyOf(t, ClientIP{Hops: 2}, "10.0.0.1:80", header, sent+", 198.51.100.7, 192.0.2.1")
		must.Equal(t, got, "ip:198.51.100.7", "counted")
	})
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", "for=1.1.1.1", `for="`, `for="\`, `for="[2001:db8::1]:_x";by=a`, `for=1.1.1.1;x=", for="`, `\"`, `"\\"`,
		"for=unknown", "for=_x", `for="1.1.1\.1"`, ";;,", "for=10.0.0.2, for=10.0.0.3", `for="fe80::1%a b"`, `x="a,b"`, `for=0.0.0.0;0="`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		const header = "Forwarded"
		behind := ClientIP{Trusted: fuzzProxies, Header: header}
		must.Equal(t, keyOf(t, behind, "203.0.113.9:1", header, sent), "ip:203.0.113.9", "an untrusted peer")
		keyOf(t, behind, "10.0.0.1:80", header, sent)
		keyOf(t, ClientIP{Trusted: fuzzProxies, Hops: 2, Header: header}, "10.0.0.1:80", header, sent)
		for _, wrote := range []string{"for=198.51.100.7", `host="a\",b";for="198.51.100.7:_p"`, `for=198.51.100.7;x="\\", for="[2001:db8:ffff::1]"`} {
			for _, lines := range [][]string{{sent + "," + wrote}, {sent, wrote}} {
				must.Equal(t, keyOf(t, behind, "10.0.0.1:80", header, lines...), "ip:198.51.100.7", "lines %q", lines)
			}
		}
		for _, wrote := range []string{"for=unknown", "proto=https", `for=198.51.100.7"`, "for=198.51.100.7;for=198.51.100.8"} {
			if strings.Contains(wrote, `"`) && strings.Contains(sent, `"`) {
				continue // an open quote of the proxy may close a quote of the client
			}
			got := keyOf(t, behind, "10.0.0.1:80", header, sent+", "+wrote)
			must.Equal(t, got, "ip:unresolved:10.0.0.1", "%q before %q", sent, wrote)
		}
	})
}

func FuzzRemoteAddr(f *testing.F) {
	for _, s := range []string{"", "@", "/x", "203.0.113.9:1", "[::1]:1", "fe80::1%eth0", "[fe80::1%25]:0", "1.2.3.4:65536", "[1.2.3.4]:5", ":", "[", "]", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, remote string) {
		r := request(remote, "X-Forwarded-For", "1.1.1.1", "Forwarded", "for=1.1.1.1")
		key, err := RemoteIP(r)
		again, err2 := ClientIP{Trusted: prefixes("255.255.255.255/32")}.Key(r)
		must.True(t, key == again && (err == nil) == (err2 == nil), "RemoteIP: %q, %v; ClientIP: %q, %v", key, err, again, err2)
		rewritten, err2 := RewrittenIP(r)
		if err != nil {
			must.True(t, key == "" && errors.Is(err, core.ErrNoKey) != errors.Is(err, core.ErrInvalid) && errors.Is(err, core.ErrInvalid) == (err2 == nil),
				"RemoteIP: %q, %v; RewrittenIP: %q, %v", key, err, rewritten, err2)
			return
		}
		checkForm(t, key)
		must.True(t, rewritten == key && err2 == nil, "RemoteIP: %q; RewrittenIP: %q, %v", key, rewritten, err2)
		if p, err := netip.ParseAddrPort(remote); err == nil && p.Addr().Is4() && !strings.HasPrefix(key, "ip:"+p.Addr().String()) {
			t.Fatalf("remote %q: got %q", remote, key)
		}
	})
}

// split reverses Join, as its documentation allows.
func split(t *testing.T, key string) []string {
	key, ok := strings.CutPrefix(key, "join:")
	must.True(t, ok, "key %q has no kind", key)
	parts := []string{""}
	for i := 0; i < len(key); i++ {
		last := &parts[len(parts)-1]
		switch key[i] {
		case '|':
			parts = append(parts, "")
			continue
		case '\\':
			i++
		}
		*last += key[i : i+1]
	}
	return parts
}

func FuzzJoin(f *testing.F) {
	f.Add("user:42", "route:/users/{id}", "x")
	f.Add("a|b", `\`, `|\|`)
	f.Add("", "b", "c")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		parts := []string{a, b, c}
		var fns []core.KeyFunc
		for _, s := range parts {
			fns = append(fns, func(*http.Request) (string, error) { return s, nil })
		}
		for n := 1; n <= len(parts); n++ {
			key, err := Join(fns[:n]...)(request(""))
			if parts[n-1] == "" {
				must.True(t, key == "" && errors.Is(err, core.ErrNoKey), "join of %q: got %q, %v", parts[:n], key, err)
				return
			}
			got := split(t, key)
			must.Equal(t, len(got), n, "join of %q: %q has parts", parts[:n], key)
			for i := range got {
				must.Equal(t, got[i], parts[i], "join of %q: %q has the element", parts[:n], key)
			}
		}
	})
}
