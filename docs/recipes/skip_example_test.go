package recipes

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// monitored counts neither health checks nor CORS preflights.
func monitored() *core.Limiter {
	probe := func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == "/healthz" }
	rules := []core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}
	return core.Must(core.New(rules, core.WithSkip(probe), core.WithSkip(core.Preflight)))
}

// friends limits every address except partners'. It runs where RemoteAddr is the client, not a proxy.
func friends(ip core.KeyFunc, partners ...netip.Prefix) *core.Limiter {
	rule := core.PerMinute(100).By(ip)
	rule.Match = func(r *http.Request) bool {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		return err != nil || !slices.ContainsFunc(partners, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) })
	}
	return core.Must(core.New([]core.Rule{rule}))
}
