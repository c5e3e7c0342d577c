package rulefile

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// offlineIP returns a key func of RemoteAddr, which is an address without a port or a host name.
func offlineIP(ipv6Bits int) core.KeyFunc {
	known := &knownKeys{seed: maphash.MakeSeed()}
	peer := keyfunc.ClientIP{IPv6Bits: ipv6Bits}
	return func(r *http.Request) (string, error) {
		known.Lock()
		defer known.Unlock()
		k := known.of(r.RemoteAddr)
		if k.client == r.RemoteAddr && k.key != "" {
			return k.key, nil
		}
		key, err := keyOf(r.RemoteAddr, peer)
		if err == nil {
			*k = knownKey{strings.Clone(r.RemoteAddr), key}
		}
		return key, err
	}
}

func keyOf(client string, peer keyfunc.ClientIP) (string, error) {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return "ip:" + strings.ToLower(client), nil
	}
	if addr = addr.Unmap(); addr.Is4() {
		return "ip:" + addr.String(), nil
	}
	return peer.Key(&http.Request{RemoteAddr: netip.AddrPortFrom(addr, 1).String()})
}

// knownKeys caches the keys of some clients, so that the address of a busy client is not parsed for each request.
type knownKeys struct {
	sync.Mutex
	seed maphash.Seed
	keys [4096]knownKey
}

type knownKey struct{ client, key string }

// of returns the slot of a client. Clients with the same hash share one.
func (k *knownKeys) of(client string) *knownKey {
	return &k.keys[maphash.String(k.seed, client)%uint64(len(k.keys))]
}
