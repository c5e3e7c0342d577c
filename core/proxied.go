package core

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
)

// forwarding are the headers in which proxies name the client, in canonical form.
var forwarding = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"}

// unresolved is in a key of keyfunc.ClientIP before the last proxy that it could verify.
const unresolved = "unresolved:"

// noteProxy logs, once per limiter, that the key of a is the address of a peer that seems to be a proxy, or names a proxy that adds
// fewer addresses than keyfunc.ClientIP expects, so that all clients behind the proxy share one limit. This is the most common
// mistake, and a test without the proxy does not show it.
func (l *Limiter) noteProxy(r *http.Request, a *asked) {
	if l.proxied.Load() {
		return
	}
	header, peer, ok := proxyOf(a.key, r)
	if !ok || !l.proxied.CompareAndSwap(false, true) {
		return
	}
	if strings.HasPrefix(a.key, "ip:"+unresolved) {
		l.reporter.log().WarnContext(r.Context(), "spillgate: clients share one limit, because X-Forwarded-For has fewer addresses than ClientIP.Hops",
			slog.String("rule", a.rule.Name), slog.String("peer", peer.String()))
		return
	}
	from, trust := "a Unix socket", "Unix: true"
	if peer.IsValid() {
		from = peer.String()
		trust = fmt.Sprintf("Trusted: []netip.Prefix{netip.MustParsePrefix(%q)}", netip.PrefixFrom(peer, peer.BitLen()))
	}
	if header != forwarding[0] {
		trust += fmt.Sprintf(", Header: %q", header)
	}
	l.reporter.log().WarnContext(r.Context(), "spillgate: all clients behind a proxy share one limit; if the peer is your proxy, trust it",
		slog.String("rule", a.rule.Name), slog.String("peer", from), slog.String("header", header),
		slog.String("mend", fmt.Sprintf("ip := keyfunc.ClientIP{%s}.Key; rule.Key = ip", trust)))
}

// mayBeProxy reports whether key can be the key of the peer at remote and the peer can be in a private network. It is a
// cheap test for the hot path; proxyOf makes the exact one.
func mayBeProxy(key, remote string) bool {
	key, ok := strings.CutPrefix(key, "ip:")
	remote = strings.TrimPrefix(remote, "[")
	switch {
	case !ok || key == "":
		return false
	case key == "unix":
		return true
	case remote == "" || key[0] != remote[0]:
		return strings.HasPrefix(key, unresolved)
	case remote[0] == '1':
		return strings.HasPrefix(remote, "10.") || strings.HasPrefix(remote, "127.") || strings.HasPrefix(remote, "172.") ||
			strings.HasPrefix(remote, "192.168.")
	}
	return remote[0] == ':' || remote[0] == 'f'
}

// proxyOf returns the header in which r names a client although key is the peer's, and the address of the peer, which is
// private, unless key is unresolved. The address is not valid for a Unix socket.
func proxyOf(key string, r *http.Request) (header string, peer netip.Addr, ok bool) {
	var lines []string
	for i := 0; i < len(forwarding) && len(lines) == 0; i++ {
		header = forwarding[i]
		lines = r.Header[header]
	}
	text, short := strings.CutPrefix(strings.TrimPrefix(key, "ip:"), unresolved)
	if len(lines) == 0 || key == "ip:unix" {
		return header, peer, len(lines) > 0
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", peer, false
	}
	peer = at.Addr().Unmap().WithZone("")
	one, err := netip.ParsePrefix(text)
	if err != nil {
		a, _ := netip.ParseAddr(text)
		one = netip.PrefixFrom(a.WithZone(""), a.BitLen())
	}
	last := lines[len(lines)-1]
	last = last[strings.LastIndexByte(last, ',')+1:]
	client, err := netip.ParseAddr(strings.TrimSpace(last))
	switch {
	case !one.Contains(peer):
		return "", peer, false
	case short: // or garbled
		return header, peer, err == nil && header == forwarding[0]
	}
	return header, peer, isPrivate(peer) && (err != nil || !one.Contains(client.Unmap())) // otherwise the client is the proxy, or in the same network
}

// isPrivate reports whether ip is not an address of the internet.
func isPrivate(ip netip.Addr) bool {
	return ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()
}
