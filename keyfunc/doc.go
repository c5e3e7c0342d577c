// Package keyfunc identifies the client of a request: each func turns a request into the key that a rule counts it
// under.
//
//	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
//	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: proxies})
//	...
//	limiter, err := core.New([]core.Rule{
//		core.PerMinute(100).By(keyfunc.First(keyfunc.APIKey("X-Api-Key"), ip)),
//	})
//
// Every key starts with its kind, so a user named 127.0.0.1 never shares a key with the address:
//
//	RemoteIP     ip:203.0.113.9   ip:2001:db8:1:2::/64   ip:fe80::1%eth0   ip:unix
//	RewrittenIP  the same
//	Address      the same, without ip:unix
//	ClientIP     the same, and ip:unresolved:10.0.0.1
//	User         user:42
//	APIKey       key:<hash>
//	Bearer       bearer:<hash>
//	BasicUser    basic:ann, also for Ann
//	Cookie       cookie:sid:<hash>
//	Header       header:x-tenant:acme
//	Method       method:GET
//	Pattern      route:/users/{id}   route:(none)
//	Const        const:all
//	Join         join:user:42|route:/users/{id}
//	Hash         hash:<hash>
//
// # Errors
//
// A request without the identity that a func looks for fails with an error that wraps core.ErrNoKey. One with an
// identity that is ambiguous or malformed fails with core.ErrBadKey: a header that is sent twice, two cookies of one
// name, "Bearer" without a token. Adapters answer both with 400. First falls back to the next func only after ErrNoKey,
// because the application may serve one of two values that are sent: with a fallback, a client could leave its own
// limit by sending its key twice.
//
// No request shares the key of others by accident, and none passes without a limit. Funcs that are made from constants
// panic where they are made if the constants are wrong. All key funcs are safe for concurrent use.
//
// # What clients can forge
//
// A limit is only as good as its key. What clients can do to each:
//
//	RemoteIP, ClientIP   nothing, except by connecting from other addresses
//	RewrittenIP          nothing, if only trusted code sets RemoteAddr
//	Address              whatever the func that you pass believes
//	User                 nothing, if the id was verified before the limiter asks
//	APIKey, Bearer       make up secrets, until something in front has verified them
//	BasicUser            the same, and send the name of another user
//	Cookie               drop it, make up values, or ask for one new session after the other
//	Header               anything: User-Agent, Accept-Language and X-Tenant are whatever the client says
//	Method, Pattern      not an identity: they say what is requested, not by which client
//
// A key that can be forged fails in two ways. A client can evade the limit, because each made-up value has an allowance
// of its own. And where values can be known, such as names or tenants, a stranger can use up the allowance of another
// client. User agents and session cookies distinguish well-behaved clients, and are useless alone against the others.
//
// So use an unforgeable key beside a forgeable one. All rules of a limiter must hold, so a second rule by ClientIP bounds
// what a client gains by forging. Join(Header("User-Agent"), ip) keeps strangers away from others' limits, because the key
// contains the address, but a client can still evade it without that second rule. Or have the key verified: mount the
// limiter behind authentication and use User, with an outer limiter by address in front, because verification costs
// something too.
//
// First(APIKey("X-Api-Key"), ip) gives customers one key wherever they are and all other clients one per address. If the
// secret is not verified in front of the limiter, it needs the rule by ip beside it like any forgeable key.
//
// # Login pages
//
// Guessing passwords has two forms, and takes two rules. One address tries many names: limit by ClientIP, to a few a
// minute. Many addresses try one name: limit by the name, with a func of your own that reads and normalises it, wrapped
// in Hash since names are personal and easily guessed. With the second rule any client can lock out a known name, so make it
// generous, or Join the name with the address and accept that a large botnet gets more tries. Let both fail closed
// (core.FailClosed) if logins must not be possible without a limit while the store is down.
//
// # Behind a proxy
//
// Behind a proxy, RemoteIP is one key for all clients, and any client can send its own X-Forwarded-For. ClientIP reads that
// header only from proxies that you name, and only its right end, which those proxies wrote. Name the narrowest prefixes
// that contain the proxies and nothing else. All of 10.0.0.0/8 is too much if other machines in it can connect.
//
// nginx, with proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for. Over a Unix socket, set Unix instead of
// Trusted:
//
//	keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}}
//
// Cloudflare, straight to your server. Trusted are the ranges it publishes at https://www.cloudflare.com/ips/; any
// customer of it can connect from them, so have the firewall or authenticated origin pulls admit your own zone only:
//
//	keyfunc.ClientIP{Trusted: cloudflare, Header: "CF-Connecting-IP"}
//
// AWS: an Application Load Balancer appends to X-Forwarded-For unless configured otherwise; Trusted are the subnets it lives
// in. With CloudFront in front of it, two proxies append; if the security group admits only the load balancer, and that
// only CloudFront, counting is simpler than listing:
//
//	keyfunc.ClientIP{Trusted: subnets, Hops: 2}
//
// A Network Load Balancer that preserves client addresses is no proxy to HTTP: use RemoteIP. Google's application load
// balancer appends the client and then itself, so it is Hops: 2 as well.
//
// Hops cannot detect a wrong count: with one too many, the client writes the element that is read. A
// single-value header is safe only if the proxy overwrites it on every request.
//
// Frameworks have functions of their own (gin's ClientIP, echo's and chi's RealIP), which trust by other rules, so RemoteIP
// and ClientIP do not ask them. If you have configured gin's trusted proxies or echo's IPExtractor, ginlimit.ClientIP and
// echolimit.RealIP use that configuration, and fail if the framework trusts everybody. Address takes the address from any
// other func. chi's RealIP writes what it finds to r.RemoteAddr: RemoteIP and ClientIP fail with core.ErrInvalid behind
// it, since a client could choose its key. Mount the limiter outside, or remove the middleware. RewrittenIP is for servers
// where only trusted code sets RemoteAddr.
//
// # Before going live
//
// Log the key for a while, or show it on a page of your own, and send from outside
//
//	curl -H 'X-Forwarded-For: 192.0.2.1' -H 'X-Real-IP: 192.0.2.1' -H 'Forwarded: for=192.0.2.1' https://example.com/
//
// The key must be your own address and the same without those headers. If it is 192.0.2.1, Trusted or Hops is too large
// or the proxy does not overwrite the header. If it is the address of a proxy, that one is missing from Trusted, or it
// sends another header. If it is ip:unresolved, the hop it names is the proxy to look at: it sent something that is no
// address, or a list that is too short for Hops. Then try the same against the server itself, past the proxy: it should
// not answer, and if it does, the key must be the address you connect from. Do all of it once over IPv6.
//
// # A key func of your own
//
// A core.KeyFunc is any func that returns a non-empty string. Start the key with a kind that is not in the list above,
// normalise what can be written in several ways (letter case, for one), and hash secrets. Return an error that wraps
// core.ErrNoKey if the request has no such identity, and one that wraps core.ErrBadKey if it has two, or one that does
// not parse.
package keyfunc
