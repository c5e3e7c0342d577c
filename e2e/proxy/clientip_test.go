package proxy

import (
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/keyfunc"
)

// proxies are the prefixes that an application trusts here.
var proxies = []netip.Prefix{netip.MustParsePrefix(edge + "/32"), netip.MustParsePrefix(inner + "/32")}

// A mode is a configuration, and the key it must give in each topology that it suits.
type mode struct {
	name   string
	config keyfunc.ClientIP
	want   map[string]string // topology -> key
}

// found is what every right way to read a list finds, and what is found of clients that evade the proxy.
func found(more map[string]string) map[string]string {
	keys := map[string]string{
		"one proxy":                      "ip:" + client,
		"two proxies":                    "ip:" + client,
		"an IPv6 client":                 "ip:::/64",
		"an IPv6 client and two proxies": "ip:::/64",
		// The second nginx says "unix:" of its peer, which is nobody.
		"a Unix socket between two proxies": "ip:unresolved:" + inner,
		"past the proxy":                    "ip:" + client,
		"past the proxy, on a Unix socket":  "ip:unix",
	}
	for name, key := range more {
		keys[name] = key
	}
	return keys
}

var modes = []mode{
	{"trusted prefixes", keyfunc.ClientIP{Trusted: proxies}, found(nil)},
	{"trusted prefixes, Forwarded", keyfunc.ClientIP{Trusted: proxies, Header: "Forwarded"}, found(nil)},
	{"trusted prefixes, IPv6", keyfunc.ClientIP{Trusted: append([]netip.Prefix{netip.MustParsePrefix("::1/128")}, proxies...)},
		map[string]string{"an IPv6 proxy": "ip:" + client, "one proxy": "ip:" + client}},
	{"trusted prefixes, IPv6, Forwarded", keyfunc.ClientIP{Trusted: append([]netip.Prefix{netip.MustParsePrefix("::1/128")}, proxies...), Header: "Forwarded"},
		map[string]string{"an IPv6 proxy": "ip:" + client, "two proxies": "ip:" + client}},
	{"Unix", keyfunc.ClientIP{Unix: true},
		map[string]string{"a Unix socket to the application": "ip:" + client, "one proxy": "ip:" + edge, "past the proxy": "ip:" + client}},
	{"Unix, Forwarded", keyfunc.ClientIP{Unix: true, Header: "Forwarded"},
		map[string]string{"a Unix socket to the application": "ip:" + client}},
	{"one hop", keyfunc.ClientIP{Hops: 1},
		map[string]string{"one proxy": "ip:" + client, "two proxies": "ip:" + edge, "an IPv6 client": "ip:::/64", "an IPv6 proxy": "ip:" + client, "a Unix socket to the application": "ip:" + client}},
	{"one hop, Forwarded", keyfunc.ClientIP{Hops: 1, Header: "Forwarded"},
		map[string]string{"one proxy": "ip:" + client, "an IPv6 client": "ip:::/64", "an IPv6 proxy": "ip:" + client, "a Unix socket to the application": "ip:" + client}},
	{"two hops", keyfunc.ClientIP{Hops: 2},
		map[string]string{"two proxies": "ip:" + client, "an IPv6 client and two proxies": "ip:::/64"}},
	{"two hops, Forwarded", keyfunc.ClientIP{Hops: 2, Header: "Forwarded"},
		map[string]string{"two proxies": "ip:" + client, "an IPv6 client and two proxies": "ip:::/64"}},
	{"one hop from trusted prefixes", keyfunc.ClientIP{Trusted: proxies, Hops: 1},
		map[string]string{"one proxy": "ip:" + client, "past the proxy": "ip:" + client, "past the proxy, on a Unix socket": "ip:unix"}},
	{"a single value", keyfunc.ClientIP{Trusted: proxies, Header: "X-Real-IP"},
		map[string]string{"one proxy": "ip:" + client, "an IPv6 client": "ip:::/64", "past the proxy": "ip:" + client, "past the proxy, on a Unix socket": "ip:unix"}},
	{"nobody trusted", keyfunc.ClientIP{},
		map[string]string{"one proxy": "ip:" + edge, "two proxies": "ip:" + inner, "an IPv6 proxy": "ip:::/64", "a Unix socket to the application": "ip:unix", "past the proxy": "ip:" + client}},
}

// A notebook remembers the key that the last request got.
type notebook struct {
	mu  sync.Mutex
	key string
}

func (n *notebook) set(key string) { n.mu.Lock(); n.key = key; n.mu.Unlock() }

// take returns the key and forgets it.
func (n *notebook) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := n.key
	n.key = ""
	return key
}

// limiter returns a limiter of three per hour and client, that notes its keys.
func (n *notebook) limiter(t *testing.T, c keyfunc.ClientIP) *core.Limiter {
	find, err := keyfunc.NewClientIP(c)
	if err != nil {
		t.Fatal(err)
	}
	return core.Must(core.New([]core.Rule{core.PerHour(3).Using(core.SlidingLog).By(func(r *http.Request) (string, error) {
		key, err := find(r)
		n.set(key)
		return key, err
	})}))
}

// TestClientCannotChooseKey sends every attack by every way to every adapter in every mode that suits. The key must be the
// one that the client has by where it is, and so the limit of three holds whatever it sends.
func TestClientCannotChooseKey(t *testing.T) {
	for _, way := range topologies {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			if way.ipv6 {
				needIPv6(t)
			}
			var keys notebook
			suits := 0
			built := map[string]http.Handler{}
			for _, m := range modes {
				for _, f := range apps.Frameworks {
					built[m.name+"/"+f.Name] = f.Build(apps.Limited(keys.limiter(t, m.config), wire.OK))
				}
			}
			addr := way.build(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { built[r.Header.Get("Case")].ServeHTTP(w, r) }))
			c := connect(t, addr, way.from)
			for _, m := range modes {
				want, ok := m.want[way.name]
				for _, f := range apps.Frameworks {
					if ok {
						suits++
						t.Run(m.name+"/"+f.Name, func(t *testing.T) { tryAll(t, c, &keys, "Case: "+m.name+"/"+f.Name, want) })
					}
				}
			}
			if suits == 0 {
				t.Error("no mode suits this topology")
			}
		})
	}
}

// tryAll sends every attack and checks the key each time, and that exactly the first three pass.
func tryAll(t *testing.T, c *http.Client, keys *notebook, which, want string) {
	for i, a := range attacks {
		got := wire.Send(t, c, wire.Request(t, http.MethodGet, "http://example.com/", nil, append([]string{which}, a.fields...)...))
		if key := keys.take(); key != want {
			t.Errorf("%s: key %q, want %q", a.why, key, want)
		}
		if status := map[bool]int{true: 200, false: 429}[i < 3]; got.StatusCode != status {
			t.Errorf("%s: status %d, want %d for request %d of a limit of 3: %s", a.why, got.StatusCode, status, i+1, got.Body)
		}
	}
}
