package keyfunc

import (
	"fmt"
	"net"
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// prefixBits is how much of an IPv6 address makes a key: a subscriber commonly has at least a /64 to pick addresses
// from.
const prefixBits = 64

// RemoteIP is the address of the TCP peer: "ip:203.0.113.9", "ip:2001:db8:1:2::/64" for all of an IPv6 /64, or
// "ip:unix" for every peer on a Unix socket. No header can change it. It fails with ErrNoKey if r.RemoteAddr is not an
// address.
//
// Behind a proxy it is the same key for all clients: use ClientIP there.
func RemoteIP(r *http.Request) (string, error) {
	if key := peer4(r.RemoteAddr); key != "" {
		return key, nil
	}
	a, err := peer(r)
	if err != nil {
		return "", err
	}
	return a.key("ip:", prefixBits), nil
}

// peer returns the address at the other end of the connection.
func peer(r *http.Request) (address, error) {
	if a, ok := parseHost(r.RemoteAddr); ok {
		return a, nil
	}
	if unixPeer(r) {
		return address{}, nil
	}
	return address{}, fmt.Errorf("remote address %.64q: %w", r.RemoteAddr, core.ErrNoKey)
}

// unixPeer reports whether r, whose peer is not an IP address, came through a Unix socket. There the name of the peer
// is "@" on Linux unless it bound one, and is empty on other systems, where the server's own address tells.
func unixPeer(r *http.Request) bool {
	if name := r.RemoteAddr; name != "" && (name[0] == '@' || name[0] == '/') {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}
