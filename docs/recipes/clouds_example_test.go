package recipes

import (
	"net/netip"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// prefixes parses networks. A list from a constant of the program cannot be wrong at run time.
func prefixes(networks ...string) (all []netip.Prefix) {
	for _, n := range networks {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

// behindIngress is for pods behind an ingress controller that runs in the cluster. podNetwork is the network of the
// controller's pods, as narrow as your cluster lets you make it.
func behindIngress(podNetwork string) (core.KeyFunc, error) {
	return keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: prefixes(podNetwork)})
}

// behindALB is for targets of an AWS Application Load Balancer, which appends to X-Forwarded-For. subnets contain the
// load balancer.
func behindALB(subnets ...string) (core.KeyFunc, error) {
	return keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: prefixes(subnets...)})
}

// cloudflare are the networks of https://www.cloudflare.com/ips/. Compare them with that page before you use them.
var cloudflare = prefixes(
	"173.245.48.0/20", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "141.101.64.0/18", "108.162.192.0/18",
	"190.93.240.0/20", "188.114.96.0/20", "197.234.240.0/22", "198.41.128.0/17", "162.158.0.0/15", "104.16.0.0/13",
	"104.24.0.0/14", "172.64.0.0/13", "131.0.72.0/22",
	"2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32", "2a06:98c0::/29", "2c0f:f248::/32",
)

// behindCloudflare is for servers that Cloudflare connects to. Have your firewall admit nobody else.
func behindCloudflare() (core.KeyFunc, error) {
	return keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: cloudflare, Header: "CF-Connecting-IP"})
}
