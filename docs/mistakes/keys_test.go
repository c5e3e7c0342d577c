package mistakes

import (
	"net/netip"

	"github.com/spillgate/spillgate/keyfunc"
)

func clientIP(c keyfunc.ClientIP) func() error {
	return func() error {
		_, err := keyfunc.NewClientIP(c)
		return err
	}
}

var ofKeys = []mistake{
	{"everybody is trusted", clientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}), "ClientIP.Trusted[0]", "got 0.0.0.0/0", "want the networks of your proxies"},
	{"no prefix is trusted", clientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{{}}}), "ClientIP.Trusted[0]", "got invalid Prefix", "want a prefix such as 10.0.0.0/24"},
	{"too many hops", clientIP(keyfunc.ClientIP{Hops: 33}), "ClientIP.Hops", "got 33", "between 0 and 32"},
	{"no header", clientIP(keyfunc.ClientIP{Hops: 1, Header: "X Y"}), "ClientIP.Header", `got "X Y"`, "the name of a header other than Host"},
	{"too many bits", clientIP(keyfunc.ClientIP{IPv6Bits: 129}), "ClientIP.IPv6Bits", "got 129", "0 or between 32 and 128"},
	{"an API key in no header", panicOf(func() { keyfunc.APIKey("X Api Key") }), "APIKey", `got "X Api Key"`, "the name of a header other than Host"},
	{"the header Host", panicOf(func() { keyfunc.Header("Host") }), "Header", `got "Host"`, "the name of a header other than Host"},
	{"no cookie", panicOf(func() { keyfunc.Cookie("") }), "Cookie", `got ""`, "the name of a cookie"},
	{"no constant", panicOf(func() { keyfunc.Const("") }), "Const", "got an empty one", "needs a key"},
	{"no user func", panicOf(func() { keyfunc.User(nil) }), "User", "got nil", "needs a func"},
	{"nothing first", panicOf(func() { keyfunc.First() }), "First", "at least one", "key func"},
	{"nothing joined", panicOf(func() { keyfunc.Join(keyfunc.RemoteIP, nil) }), "Join", "key func 2 of 2", "is nil"},
	{"no secret", panicOf(func() { keyfunc.Hash(nil, keyfunc.RemoteIP) }), "Hash", "got an empty one", "needs a secret"},
}
