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

// WithHosts lets the page be opened under the given hosts, in addition to localhost and loopback addresses. A host is a name such as
// "admin.example.com" or an IP address, without scheme and port; a name does not include the names below it. Use it for a page that
// listens on another address, and for a page behind a reverse proxy that passes the Host field on. WithHosts may be given several
// times, and panics if a host has another form.
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

// mayServe reports whether the page may be opened under the Host of r. A website whose name resolves to the address of this server
// (DNS rebinding) has the same origin as the page in a browser, and could read it; but the browser sends the name of that website.
func (h *handler) mayServe(r *http.Request) bool {
	host := canonicalHost((&url.URL{Host: r.Host}).Hostname())
	addr, _ := netip.ParseAddr(host)
	return host == "localhost" || addr.IsLoopback() || h.hosts[host]
}

// canonicalHost returns a host in the form in which hosts are compared.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return host
}
