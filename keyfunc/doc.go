// Package keyfunc says whose request it is: each func turns a request into the key that a rule counts it under.
//
// Every key starts with its kind, so a user named 127.0.0.1 never shares a key with the address:
//
//	RemoteIP     ip:203.0.113.9   ip:2001:db8:1:2::/64   ip:fe80::1%eth0   ip:unix
//	ClientIP     the same, and ip:unresolved:10.0.0.1
//	User         user:42
//	APIKey       key:<hash>
//	Bearer       bearer:<hash>
//	BasicUser    basic:ann
//	Cookie       cookie:sid:<hash>
//	Header       header:x-tenant:acme
//	Method       method:GET
//	Pattern      route:GET /users/{id}   route:GET (none)
//	Const        const:all
//	Join         join:user:42|route:GET /users/{id}
//	Hash         hash:<hash>
//
// A request that has no such identity gets an error that wraps core.ErrNoKey, which adapters answer 400. It never falls
// into a key shared with others by accident, and it never passes without a limit. All key funcs are safe for concurrent
// use.
//
// # What clients can forge
//
// A limit is worth as much as its key. Ask of each what a client can do to it:
//
//	RemoteIP, ClientIP   nothing, except by connecting from other addresses
//	User                 nothing, if the id was verified before the limiter asks
//	APIKey, Bearer       make up secrets, until something in front has verified them
//	BasicUser            the same, and send the name of somebody else
//	Cookie               drop it, make up values, or ask for one new session after the other
//	Header               anything: User-Agent, Accept-Language and X-Tenant are whatever the client says
//	Method, Pattern      not an identity: what is asked for, no matter by whom
//
// A key that can be forged fails in two ways. Its owner can evade the limit, because each made-up value has an
// allowance of its own. And where values can be known, such as names or tenants, a stranger can use up the allowance of
// another. User agents and session cookies are fine for telling well-behaved clients apart, and useless alone against
// the others.
//
// So let an unforgeable key stand beside or in front of a forgeable one. All rules of a limiter must hold, so a rule by
// ClientIP bounds what anybody gains by forging. Join(Header("User-Agent"), ip) keeps strangers away from the allowance
// of others, as their address is part of the key, but evasion stays possible until that second rule exists. Or have the
// key verified: mount the limiter behind authentication and key on User, with an outer limiter by address in front of
// it, because verifying costs something too.
//
// First(APIKey("X-Api-Key"), ip) gives customers one key wherever they are and everybody else one per address. If the
// secret is not verified in front of the limiter, it needs the rule by ip beside it like any forgeable key.
//
// # Login pages
//
// Guessing passwords shows in two ways, and takes two rules. One address tries many names: limit by ClientIP, to a few
// a minute. Many addresses try one name: limit by the name, with a func of your own that reads and normalises it,
// wrapped in Hash since names are personal and easily guessed. The second rule lets anybody lock out a known name, so
// make it generous, or Join the name with the address and accept that a large botnet gets more tries. Let both fail
// closed (core.FailClosed) if a store that is down must not open the door.
//
// # Behind a proxy
//
// Behind a proxy RemoteIP is one key for the whole world, and X-Forwarded-For alone is what any client cares to send.
// ClientIP reads it only from proxies you name, and from the right end only, which is what those proxies wrote.
// Name the narrowest prefixes that hold the proxies and nobody else. All of 10.0.0.0/8 is too much if other tenants of
// that network can connect.
//
// nginx, with proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for. Over a Unix socket, set Unix instead of
// Trusted:
//
//	keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}}
//
// Cloudflare, straight to your server. Trusted are the ranges it publishes at https://www.cloudflare.com/ips/; anybody
// can have an account there, so have the firewall or authenticated origin pulls admit your own zone only:
//
//	keyfunc.ClientIP{Trusted: cloudflare, Header: "CF-Connecting-IP"}
//
// AWS: an Application Load Balancer appends to X-Forwarded-For unless told otherwise; Trusted are the subnets it lives
// in. With CloudFront in front of it, two proxies append; if the security group admits only the load balancer, and that
// only CloudFront, counting is simpler than listing:
//
//	keyfunc.ClientIP{Trusted: subnets, Hops: 2}
//
// A Network Load Balancer that preserves client addresses is no proxy to HTTP: use RemoteIP. Google's application load
// balancer appends the client and then itself, so it is Hops: 2 as well.
//
// Hops counts, and cannot tell when the count is wrong: one too many and the client writes the element that is read. A
// single-value header is safe only if the proxy overwrites it on every request.
//
// Frameworks have answers of their own (gin's ClientIP, echo's RealIP, chi's RealIP). They trust by other rules, so
// nothing here asks them.
//
// # Before going live
//
// Log the key for a while, or show it on a page of your own, and from outside send
//
//	curl -H 'X-Forwarded-For: 192.0.2.1' -H 'X-Real-IP: 192.0.2.1' -H 'Forwarded: for=192.0.2.1' https://example.com/
//
// The key must be your own address and the same without those headers. If it is 192.0.2.1, Trusted or Hops is too large
// or the proxy does not overwrite the header. If it is the address of a proxy, that one is missing from Trusted, or it
// sends another header. If it is ip:unresolved, the hop it names is the proxy to look at: what it sent is no address,
// or too short for Hops. Then try the same against the server itself, past the proxy: it should not answer, and if it
// does, the key must be the address you connect from. Do all of it once over IPv6.
//
// # A key func of your own
//
// A core.KeyFunc is any func that returns a non-empty string. Start the key with a kind that is not in the list above,
// normalise what can be written in several ways (letter case, for one), hash secrets, and fail with an error that wraps
// core.ErrNoKey when there is nothing to go by.
package keyfunc
