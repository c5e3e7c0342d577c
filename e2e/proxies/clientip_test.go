package proxies

import (
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// proxies are the prefixes that an application trusts here; loopback6 includes IPv6 as well.
var (
	proxies   = []netip.Prefix{netip.MustParsePrefix(edge + "/32"), netip.MustParsePrefix(inner + "/32")}
	loopback6 = []netip.Prefix{proxies[0], proxies[1], netip.MustParsePrefix("::1/128")}
)

// The keys of clients and of proxies.
const (
	client4   = "ip:" + client
	client6   = "ip:::/64"
	edgeOnly  = "ip:" + edge
	innerOnly = "ip:" + inner
)

// A mode is a configuration, and its key in each topology that it fits.
type mode struct {
	name   string
	config keyfunc.ClientIP
	want   map[string]string // topology -> key
}

// resolved are the keys if the correct prefixes are trusted.
var resolved = map[string]string{
	"one proxy":                         client4,
	"two proxies":                       client4,
	"an IPv6 client":                    client6,
	"an IPv6 client and two proxies":    client6,
	"a Unix socket between two proxies": "ip:unresolved:" + inner, // the second nginx writes "unix:" for its peer
	"past the proxy":                    client4,
	"past the proxy, on a Unix socket":  "ip:unix",
}

// nearest are the keys if one hop is counted. That is right for one proxy. With two, all clients share a key.
var nearest = map[string]string{
	"one proxy":                        client4,
	"two proxies":                      edgeOnly,
	"an IPv6 client":                   client6,
	"an IPv6 proxy":                    client4,
	"a Unix socket to the application": client4,
}

var (
	secondNearest = map[string]string{"two proxies": client4, "an IPv6 client and two proxies": client6}
	byIPv6        = map[string]string{"an IPv6 proxy": client4, "one proxy": client4, "two proxies": client4}
	byUnix        = map[string]string{"a Unix socket to the application": client4, "one proxy": edgeOnly, "past the proxy": client4}
	evading       = map[string]string{
		"one proxy": client4, "an IPv6 client": client6, "past the proxy": client4, "past the proxy, on a Unix socket": "ip:unix",
	}
	byPeer = map[string]string{
		"one proxy": edgeOnly, "two proxies": innerOnly, "an IPv6 proxy": client6, "a Unix socket to the application": "ip:unix",
		"past the proxy": client4,
	}
)

var modes = []mode{
	{"trusted prefixes", keyfunc.ClientIP{Trusted: proxies}, resolved},
	{"trusted prefixes, Forwarded", keyfunc.ClientIP{Trusted: proxies, Header: "Forwarded"}, resolved},
	{"trusted IPv6 prefixes", keyfunc.ClientIP{Trusted: loopback6}, byIPv6},
	{"trusted IPv6 prefixes, Forwarded", keyfunc.ClientIP{Trusted: loopback6, Header: "Forwarded"}, byIPv6},
	{"Unix", keyfunc.ClientIP{Unix: true}, byUnix},
	{"Unix, Forwarded", keyfunc.ClientIP{Unix: true, Header: "Forwarded"}, byUnix},
	{"one hop", keyfunc.ClientIP{Hops: 1}, nearest},
	{"one hop, Forwarded", keyfunc.ClientIP{Hops: 1, Header: "Forwarded"}, nearest},
	{"two hops", keyfunc.ClientIP{Hops: 2}, secondNearest},
	{"two hops, Forwarded", keyfunc.ClientIP{Hops: 2, Header: "Forwarded"}, secondNearest},
	{"one hop from trusted prefixes", keyfunc.ClientIP{Trusted: proxies, Hops: 1}, evading},
	{"one hop from trusted prefixes, Forwarded", keyfunc.ClientIP{Trusted: proxies, Hops: 1, Header: "Forwarded"}, evading},
	{"a single value", keyfunc.ClientIP{Trusted: proxies, Header: "X-Real-IP"}, evading},
	{"nobody trusted", keyfunc.ClientIP{}, byPeer},
}

// A recorder records the key of the last request.
type recorder struct {
	mu  sync.Mutex
	key string
}

func (n *recorder) set(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key = key
}

func (n *recorder) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := n.key
	n.key = ""
	return key
}

// limiter returns a limiter of three per hour and client that records its keys.
func (n *recorder) limiter(t *testing.T, c keyfunc.ClientIP) *core.Limiter {
	find := must.Get(keyfunc.NewClientIP(c))(t)
	return core.Must(core.New([]core.Rule{core.PerHour(3).Using(core.SlidingLog).By(func(r *http.Request) (string, error) {
		key, err := find(r)
		n.set(key)
		return key, err
	})}))
}

// TestClientCannotChooseKey sends every attack through every topology to every adapter in every mode that fits. The key must
// depend only on the client's address, so exactly three requests are admitted.
func TestClientCannotChooseKey(t *testing.T) {
	for _, way := range topologies {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			if way.ipv6 {
				needIPv6(t)
			}
			var keys recorder
			fits := 0
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
						fits++
						t.Run(m.name+"/"+f.Name, func(t *testing.T) { tryAll(t, c, &keys, "Case: "+m.name+"/"+f.Name, want) })
					}
				}
			}
			expect.NotEqual(t, fits, 0, "no mode fits this topology")
		})
	}
}

// tryAll sends every attack, and checks each key and that exactly the first three requests are admitted.
func tryAll(t *testing.T, c *http.Client, keys *recorder, which, want string) {
	for i, a := range attacks {
		got := wire.Send(t, c, wire.Request(t, http.MethodGet, "http://example.com/", nil, append([]string{which}, a.fields...)...))
		expect.Equal(t, keys.take(), want, "%s: key", a.why)
		expect.Equal(t, got.StatusCode, map[bool]int{true: 200, false: 429}[i < 3], "%s: status for request %d of a limit of 3 (%s)", a.why, i+1, got.Body)
	}
}
