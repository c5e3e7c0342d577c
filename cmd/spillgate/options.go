package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/rulefile"
)

// options are the flags of the demo as they were typed.
type options struct {
	addr    string
	limits  string
	key     string
	headers string
	trust   []string
	redis   string
	rules   string
	once    bool
	quiet   bool
}

// A plan is the configuration of the demo that its flags describe.
type plan struct {
	addr   string
	limits []core.Limit
	key    identity
	write  headers.Writer
	redis  string // URL of the server that keeps the state; empty for memory
	rules  string // file that shop was read from; empty if it is built in
	shop   *rulefile.File
	once   bool
	quiet  bool
}

// An identity is a key func, with the header that a client sends for it.
type identity struct {
	of     core.KeyFunc
	about  string      // completes "so many requests per .."
	header http.Header // of the requests that the demo sends
}

// plan reads all flags. It returns a usageError for the first that is wrong.
func (o options) plan() (p plan, err error) {
	p = plan{addr: o.addr, redis: o.redis, rules: o.rules, once: o.once, quiet: o.quiet}
	if _, err := net.ResolveTCPAddr("tcp", o.addr); err != nil {
		return p, misuse("--addr: %q is not an address to listen on, such as 127.0.0.1:8080: %v", o.addr, err)
	}
	if p.limits, err = core.ParseLimits(o.limits); err != nil {
		return p, misuse("--limits: %s", oneLine(err))
	}
	if p.key, err = o.identity(); err != nil {
		return p, err
	}
	if p.shop, err = o.shop(); err != nil {
		return p, err
	}
	switch o.headers {
	case "github":
		p.write = headers.GitHub
	case "ietf":
		p.write = headers.IETF
	case "both":
		p.write = headers.Join(headers.GitHub, headers.IETF)
	default:
		return p, misuse("--headers: %q is not github, ietf or both", o.headers)
	}
	return p, nil
}

// shop reads the file of --rules or, without it, the one that is built in.
func (o options) shop() (*rulefile.File, error) {
	if o.rules == "" {
		return rulefile.Parse(shopRules, shopFuncs)
	}
	if _, err := rulefile.Read(o.rules); err != nil {
		return nil, misuse("--rules: %s", oneLine(err))
	}
	return rulefile.Load(o.rules, shopFuncs)
}

// identity reads --key and --trust.
func (o options) identity() (identity, error) {
	kind, name, named := strings.Cut(o.key, ":")
	switch {
	case o.key == "ip":
		return o.clientAddress()
	case !named || kind != "header" && kind != "apikey":
		return identity{}, misuse("--key: %q is not ip, header:NAME or apikey:NAME", o.key)
	case !headerName(name):
		return identity{}, misuse("--key: %q is not the name of a header: use letters, digits and hyphens", name)
	case slices.Contains(notSent, http.CanonicalHeaderKey(name)):
		return identity{}, misuse("--key: the demo cannot send a %s of its own; take another header", name)
	case len(o.trust) > 0:
		return identity{}, misuse("--trust says whose X-Forwarded-For to believe; it needs --key ip")
	case kind == "apikey":
		return identity{keyfunc.APIKey(name), "API key in " + name, http.Header{name: {"demo-secret"}}}, nil
	default:
		return identity{keyfunc.Header(name), "value of " + name, http.Header{name: {"demo"}}}, nil
	}
}

// clientAddress is the identity of --key ip: the TCP peer or, behind a trusted proxy, the client it names.
func (o options) clientAddress() (identity, error) {
	if len(o.trust) == 0 {
		return identity{keyfunc.RemoteIP, "client address", http.Header{}}, nil
	}
	var c keyfunc.ClientIP
	for _, cidr := range o.trust {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return identity{}, misuse("--trust: %q is not an address range, such as 10.0.0.0/8", cidr)
		}
		c.Trusted = append(c.Trusted, prefix)
	}
	key, err := keyfunc.NewClientIP(c)
	if err != nil {
		return identity{}, misuse("--trust: %s", oneLine(err))
	}
	about := fmt.Sprintf("client address, as %s may forward it", strings.Join(o.trust, " or "))
	return identity{key, about, http.Header{"X-Forwarded-For": {"203.0.113.9"}}}, nil
}

// notSent are the headers that an http.Client does not send as they are set.
var notSent = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

// headerName reports whether s is a header name that a shell, too, reads as one word.
func headerName(s string) bool {
	for _, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}
