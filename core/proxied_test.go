package core_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestUntrustedProxyIsLoggedOnce sends requests of two clients through a proxy.
func TestUntrustedProxyIsLoggedOnce(t *testing.T) {
	trusted := func(prefix string) core.KeyFunc {
		return keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix(prefix)}}.Key
	}
	const xff, real = "X-Forwarded-For", "X-Real-IP"
	for why, row := range map[string]struct {
		peer, header, value string
		key                 core.KeyFunc
		want                []string // in the line; none: there must be none
	}{
		"a private peer":     {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`peer=10.0.0.7 header=X-Forwarded-For`, `{Trusted: []netip.Prefix{netip.MustParsePrefix(\"10.0.0.7/32\")}}.Key; rule.Key = ip`}},
		"172.16/12":          {"172.31.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"172.31.0.7/32\"`}},
		"192.168/16":         {"192.168.3.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"192.168.3.7/32\"`}},
		"loopback":           {"127.0.0.1:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`\"127.0.0.1/32\"`}},
		"loopback, IPv6":     {"[::1]:80", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`peer=::1`, `\"::1/128\"`}},
		"private, IPv6":      {"[fd00::7]:80", xff, "2001:db8::1", keyfunc.RemoteIP, []string{`\"fd00::7/128\"`}},
		"link-local":         {"[fe80::7%eth0]:80", xff, "2001:db8::1", keyfunc.RemoteIP, []string{`\"fe80::7/128\"`}},
		"a Unix socket":      {"@", xff, "203.0.113.9", keyfunc.RemoteIP, []string{`keyfunc.ClientIP{Unix: true}.Key`}},
		"several elements":   {"10.0.0.7:80", xff, "10.0.0.7, 203.0.113.9", keyfunc.RemoteIP, []string{`\"10.0.0.7/32\"`}},
		"Forwarded":          {"10.0.0.7:80", "Forwarded", "for=203.0.113.9", keyfunc.RemoteIP, []string{`header=Forwarded`, `, Header: \"Forwarded\"}`}},
		"X-Real-IP":          {"10.0.0.7:80", real, "203.0.113.9", keyfunc.RemoteIP, []string{`Header: \"X-Real-Ip\"}`}},
		"one of two keys":    {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.First(keyfunc.Bearer, keyfunc.RemoteIP), []string{`\"10.0.0.7/32\"`}},
		"another proxy":      {"10.0.0.7:80", xff, "203.0.113.9", trusted("192.168.0.0/16"), []string{`\"10.0.0.7/32\"`}},
		"another header":     {"10.0.0.7:80", real, "203.0.113.9", trusted("10.0.0.0/8"), []string{`header=X-Real-Ip`}},
		"no header":          {"10.0.0.7:80", "Via", "1.1 proxy", keyfunc.RemoteIP, nil},
		"a public peer":      {"198.51.100.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"almost private":     {"172.32.0.7:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"public, IPv6":       {"[2001:db8::7]:80", xff, "203.0.113.9", keyfunc.RemoteIP, nil},
		"a proxy to trust":   {"10.0.0.7:80", xff, "203.0.113.9", trusted("10.0.0.0/8"), nil},
		"a private client":   {"10.0.0.7:80", xff, "10.1.2.3", trusted("10.0.0.0/16"), nil},
		"trusted, IPv6":      {"[fd00::7]:80", xff, "2001:db8::1", trusted("fd00::/8"), nil},
		"the proxy itself":   {"10.0.0.7:80", xff, "10.0.0.7", trusted("10.0.0.0/8"), nil},
		"a neighbor, IPv6":   {"[fd00::7]:80", xff, "fd00::8", trusted("fd00::7/128"), nil},
		"another identity":   {"10.0.0.7:80", xff, "203.0.113.9", keyfunc.Const("all"), nil},
		"an unreadable list": {"10.0.0.7:80", xff, "unknown", trusted("10.0.0.0/8"), nil},
	} {
		t.Run(why, func(t *testing.T) {
			var log bytes.Buffer
			l := core.Must(core.New([]core.Rule{{Name: "api", Key: row.key, Limits: []core.Limit{core.PerHour(9)}}}, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			for range 3 {
				r := get("/")
				r.RemoteAddr = row.peer
				r.Header.Set(row.header, row.value)
				must.Get(l.Check(r))(t)
			}
			lines := strings.Count(log.String(), "\n")
			if row.want == nil && lines != 0 || row.want != nil && lines != 1 {
				t.Errorf("%d lines:\n%s", lines, &log)
			}
			for _, want := range append(row.want, "level=WARN", "rule=api") {
				if row.want != nil && !strings.Contains(log.String(), want) {
					t.Errorf("the log does not say %s:\n%s", want, &log)
				}
			}
		})
	}
}

// The configuration that the log suggests must fix the problem.
func TestSuggestedTrustTellsClientsApart(t *testing.T) {
	for _, peer := range []string{"10.0.0.7", "::1", "fe80::7"} {
		addr := netip.MustParseAddr(peer)
		key := keyfunc.ClientIP{Trusted: []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}}.Key
		for _, client := range []string{"203.0.113.9", "203.0.113.10"} {
			r := get("/")
			r.RemoteAddr = netip.AddrPortFrom(addr, 80).String()
			r.Header.Set("X-Forwarded-For", client)
			if got, err := key(r); got != "ip:"+client || err != nil {
				t.Errorf("%s for %s: got %q, %v", peer, client, got, err)
			}
		}
	}
}

func TestNotedProxyAllocatesNothing(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(keyK)}, core.WithLogger(slog.New(slog.DiscardHandler))))
	check := func(peer, header string) float64 {
		ip := "ip:" + strings.TrimSuffix(peer, ":80")
		rule := core.PerSecond(1_000_000).By(func(*http.Request) (string, error) { return ip, nil })
		must.Do(t, l.SetRules([]core.Rule{rule}))
		r := get("/")
		r.RemoteAddr = peer
		r.Header.Set(header, "203.0.113.9")
		return testing.AllocsPerRun(1000, func() { l.Check(r) })
	}
	for peer, header := range map[string]string{"203.0.113.9:80": "X-Forwarded-For", "10.0.0.7:80": "Via", "10.0.0.8:80": "X-Forwarded-For"} {
		if n := check(peer, header); n > 1 {
			t.Errorf("%s with %s: %v allocations, want 1", peer, header, n)
		}
	}
}
