package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// WithHosts lets the page be opened under the given hosts, in addition to localhost and loopback addresses. A host is a
// name such as "admin.example.com" or an IP address, without scheme and port. A name does not include its subdomains.
// Use WithHosts if the server listens on another address, or is behind a reverse proxy that passes the Host on.
// WithHosts may be given several times. It panics if a host is invalid.
func WithHosts(hosts ...string) Option {
	var errs []error
	for _, host := range hosts {
		if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
			errs = append(errs, fmt.Errorf("spillgate: %w: dashboard.WithHosts: %q is not a host, want a name such as \"admin.example.com\" or an IP address, without scheme and port",
				core.ErrInvalid, host))
		}
	}
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
	return func(h *handler) {
		for _, host := range hosts {
			h.hosts[canonicalHost(host)] = true
		}
	}
}

// hostName matches the names that browsers send: they convert other letters to Punycode.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

// mayServe reports whether the page may be opened under the Host of r. In DNS rebinding, a website's name resolves to
// the address of this server, so for the browser the website and the page have the same origin. But the browser sends
// the website's name as Host.
func (h *handler) mayServe(r *http.Request) bool {
	host := canonicalHost((&url.URL{Host: r.Host}).Hostname())
	addr, _ := netip.ParseAddr(host)
	return host == "localhost" || addr.IsLoopback() || h.hosts[host]
}

// canonicalHost returns a host in the form that hosts are compared in.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return host
}
