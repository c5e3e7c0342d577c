package rulefile

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/logger"
	"github.com/spillgate/spillgate/internal/routes"
)

// A skip says which requests no rule of a file applies to.
type skip struct {
	networks  *networks
	ip        core.KeyFunc
	trusts    bool          // the file says which proxies to trust
	proxied   atomic.Bool   // why has logged that a proxy is not trusted
	routes    *routes.Index // nil for none
	preflight bool
}

// passes reports whether r is not skipped.
func (s *skip) passes(r *http.Request) bool { return s.why(r) == "" }

// why returns the reason to skip r, or "" if there is none. A request without an address is not skipped because of its
// address, and neither is a request from a proxy that the file does not trust: the address is then the proxy's.
func (s *skip) why(r *http.Request) string {
	if s.preflight && core.Preflight(r) {
		return "it is a preflight"
	}
	if s.routes != nil && s.routes.Covers(r) {
		return "its route is skipped"
	}
	if s.networks == nil {
		return ""
	}
	key, err := s.ip(r)
	if err != nil {
		return ""
	}
	if a, ok := addressOf(key); !ok || s.networks.find(a) == none {
		return ""
	}
	if header := forwardedBy(r); header != "" && !s.trusts {
		if s.proxied.CompareAndSwap(false, true) {
			logger.Of(r.Context()).WarnContext(r.Context(), "spillgate: skip.addresses skips nobody behind a proxy that the rules file does not trust",
				slog.String("peer", r.RemoteAddr), slog.String("header", header))
		}
		return ""
	}
	return "its address is skipped"
}

// forwardedBy returns the name of a header field of r that only proxies send, or "" if there is none.
func forwardedBy(r *http.Request) string {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", name == "X-Envoy-External-Address",
			strings.HasPrefix(name, "X-Forwarded"), strings.HasSuffix(name, "-Forwarded-For"),
			strings.HasSuffix(name, "-Client-Ip"), strings.HasSuffix(name, "-Connecting-Ip"):
			return name
		}
	}
	return ""
}

// skips reads the requests that no rule applies to.
func (r *reader) skips(f field, trusts bool) {
	if f.key == nil {
		return
	}
	fields := r.fields(f.value, "skip", skipFields)
	if fields == nil {
		return
	}
	s := &skip{ip: r.ip, trusts: trusts, preflight: r.oneOf(fields["preflight"], bools) == 1}
	if addresses, ok := fields["addresses"]; ok {
		var list []network
		for _, n := range r.texts(addresses) {
			p, err := netip.ParsePrefix(n.text)
			if a, e := netip.ParseAddr(n.text); e == nil && a.Is4() {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				r.add(n.spot, "%q is not a network such as 10.0.0.0/8, nor an IPv4 address", n.text)
				continue
			}
			r.checkNetwork(n, p, true)
			list = append(list, network{p.Masked(), 0})
		}
		if s.networks = newNetworks(list); !trusts {
			r.warn(addresses.key.spot, "behind a proxy nobody is skipped by address: the file trusts no proxies")
		}
	}
	if patterns, ok := fields["routes"]; ok {
		s.routes = r.skipRoutes(patterns)
	}
	if !slices.ContainsFunc(skipFields, func(name string) bool { return fields[name].key != nil }) {
		r.add(f.key.spot, "skip: want addresses, routes or preflight")
	}
	r.skip = s
}

// skipRoutes reads the patterns of requests to skip.
func (r *reader) skipRoutes(f field) *routes.Index {
	var patterns []string
	for _, n := range r.texts(f) {
		if !r.paths.add(n.text) {
			r.add(n.spot, "there are too many patterns, with wildcards or a slash at the end, or for one path")
			return nil
		}
		if _, mistakes := routes.New([][]string{{n.text}}); len(mistakes) > 0 {
			r.add(n.spot, "%s", mistakes[0].Text)
			continue
		}
		host, path := splitRoute(n.text)
		if host != "" {
			r.add(n.spot, "route %q has a host, which the client chooses; want a pattern without it: skips only read the path", n.text)
			continue
		}
		if plain, err := url.PathUnescape(path); err == nil && routes.Ambiguous(plain) {
			r.add(n.spot, "route %q can never be skipped: servers differ in how they read \\, ;, %% and control characters in a path", n.text)
			continue
		}
		patterns = append(patterns, n.text)
	}
	if len(patterns) == 0 {
		return nil
	}
	index, mistakes := routes.New([][]string{patterns})
	for _, m := range mistakes {
		r.add(f.value.spot, "%s", m.Text)
	}
	return index
}
