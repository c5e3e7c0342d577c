package keyfunc

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// prefixBits is the length of the IPv6 prefix that is one client: a subscriber commonly has at least a /64.
const prefixBits = 64

// RemoteIP uses the address of the TCP peer: "ip:203.0.113.9", "ip:2001:db8:1:2::/64" for all of an IPv6 /64, or
// "ip:unix" for every peer on a Unix socket.
//
// It fails with ErrNoKey if r.RemoteAddr is not an address. It fails with ErrInvalid if r.RemoteAddr is an address
// without a port. net/http sets a port, so a middleware has rewritten RemoteAddr, probably from a header that any
// client can send, as chi's RealIP does. Mount the limiter outside of that middleware, or use ClientIP. RemoteIP cannot
// detect a middleware that also writes a port.
//
// Behind a proxy, RemoteIP is the same key for all clients: use ClientIP there.
func RemoteIP(r *http.Request) (string, error) {
	if key := peer4(r.RemoteAddr); key != "" && !overUnix(r) {
		return key, nil
	}
	a, err := peer(r)
	if err != nil {
		return "", err
	}
	return a.key("ip:", prefixBits), nil
}

// peer4 returns the key of a peer whose RemoteAddr is an IPv4 address with a port, or "" for any other. Such an address
// has only one text, so the key is a copy of it: this avoids parsing and formatting on the hot path. Like netip, peer4
// requires four numbers without leading zeros; validPort says what a port is.
func peer4(remote string) string {
	const separators = "...:"
	part, start, number := 0, 0, 0 // part 4 is the port
	for i := range len(remote) {
		switch c := remote[i]; {
		case '0' <= c && c <= '9':
			if number = number*10 + int(c-'0'); number > 65535 {
				return ""
			}
		case i == start, part == 4, c != separators[part], number > 255, remote[start] == '0' && i > start+1:
			return ""
		default:
			part, start, number = part+1, i+1, 0
		}
	}
	if digits := len(remote) - start; part < 4 || digits == 0 || digits > 5 {
		return ""
	}
	var b [len("ip:255.255.255.255")]byte
	return string(append(append(b[:0], "ip:"...), remote[:start-1]...))
}

// RewrittenIP is RemoteIP for servers where something trusted sets r.RemoteAddr, such as an adapter for AWS Lambda. It
// takes an address with or without a port.
//
// It is unsafe if any middleware or adapter in front takes RemoteAddr from a header that clients can send, because
// clients can then choose their key.
func RewrittenIP(r *http.Request) (string, error) {
	a, err := rewrittenPeer(r)
	if err != nil {
		return "", err
	}
	return a.key("ip:", prefixBits), nil
}

// Address uses the address that get returns, in the format of RemoteIP: "ip:203.0.113.9", "ip:2001:db8:1:2::/64" for
// all of an IPv6 /64. Use it if something that you trust already knows the client's address, such as a framework that
// you have configured for your proxies. get returns the address with or without a port, or "" if there is none.
//
// The key fails with ErrNoKey if get returns "", and with ErrInvalid if get returns anything else that is not an address.
// Address panics if get is nil.
//
// It is unsafe if get uses a header that clients can send. ginlimit.ClientIP and echolimit.RealIP check that.
func Address(get func(*http.Request) string) core.KeyFunc {
	if get == nil {
		panic(misuse("Address needs a func, got nil"))
	}
	return func(r *http.Request) (string, error) {
		text := get(r)
		a, ok := parseHost(text)
		switch {
		case text == "":
			return "", fmt.Errorf("the address of the client is not known: %w", core.ErrNoKey)
		case !ok:
			return "", invalid("the address of the client must be an IP address, got %.64q", text)
		}
		return a.key("ip:", prefixBits), nil
	}
}

var errNoServer = fmt.Errorf("%w: the remote address is empty, so no server received the request; in tests, make it by httptest.NewRequest", core.ErrNoKey)

// peer returns the address at the other end of the connection, as net/http sets it. The peer on a Unix socket may have bound
// a name that looks like an address.
func peer(r *http.Request) (address, error) {
	a, err := rewrittenPeer(r)
	switch {
	case err != nil || !a.ip.IsValid():
		return a, err
	case !hasPort(r.RemoteAddr):
		return address{}, invalid("remote address %.64q has no port, so a middleware has rewritten it: mount the limiter outside of that "+
			"middleware, with keyfunc.ClientIP behind a proxy, or use keyfunc.RewrittenIP if only trusted code sets the address", r.RemoteAddr)
	case overUnix(r):
		return address{}, nil
	}
	return a, nil
}

// rewrittenPeer returns the address in r.RemoteAddr, with or without a port, or the zero address for a peer on a Unix socket. On
// Linux, the name of such a peer is "@" unless the peer has bound one. On other systems the name is empty, so rewrittenPeer looks
// at the server's own address.
func rewrittenPeer(r *http.Request) (address, error) {
	name := r.RemoteAddr
	a, ok := parseHost(name)
	switch {
	case ok, strings.HasPrefix(name, "@"), strings.HasPrefix(name, "/"), overUnix(r):
		return a, nil
	case name == "":
		return a, errNoServer
	}
	return a, fmt.Errorf("remote address %.64q: %w", name, core.ErrNoKey)
}

// hasPort reports whether remote, an address that parseHost accepts, ends in a port.
func hasPort(remote string) bool {
	_, port, _ := splitPort(remote)
	return strings.HasPrefix(port, ":")
}

// overUnix reports whether the server received r through a Unix socket.
func overUnix(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}
