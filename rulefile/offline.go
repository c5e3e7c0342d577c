package rulefile

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// offlineIP returns a key func of RemoteAddr, which is an address without a port or a host name.
func offlineIP(ipv6Bits int) core.KeyFunc {
	peer := keyfunc.ClientIP{IPv6Bits: ipv6Bits}
	return func(r *http.Request) (string, error) {
		client := r.RemoteAddr
		switch addr, err := netip.ParseAddr(client); {
		case err != nil:
			return "ip:" + strings.ToLower(client), nil
		case addr.Is4(): // it has only one text
			return "ip:" + client, nil
		}
		return peer.Key(&http.Request{RemoteAddr: "[" + client + "]:1"})
	}
}
