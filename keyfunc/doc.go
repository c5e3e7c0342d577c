// Package keyfunc identifies the client of a request: each func returns the key under which a rule counts the request.
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
// If a request does not have the identity that a func looks for, the error wraps core.ErrNoKey. If the identity is
// ambiguous or malformed (a header sent twice, two cookies of one name, "Bearer" without a token), the error wraps
// core.ErrBadKey. Adapters respond to both with 400. First falls back to the next func only after ErrNoKey. If it also did
// so after ErrBadKey, a client could escape its own limit by sending its key twice, while the application serves one of
// the two.
//
// No request shares a key with others by accident, and no request passes without a limit. Constructors that take
// constants, such as APIKey, panic if a constant is invalid. All key funcs are safe for concurrent use.
//
// # What clients can forge
//
// A limit is only as safe as its key. This is what clients can forge:
//
//	RemoteIP, ClientIP   nothing, except by connecting from other addresses
//	RewrittenIP          nothing, if only trusted code sets RemoteAddr
//	Address              whatever the func that you pass believes
//	User                 nothing, if the id was verified before the limiter asks
//	APIKey, Bearer       make up secrets, until something in front has verified them; spell a JWT in several ways
//	BasicUser            the same, and send the name of another user
//	Cookie               drop it, make up or respell values, or ask for one new session after the other
//	Header               anything: User-Agent, Accept-Language and X-Tenant are whatever the client says
//	Method, Pattern      not an identity: they say what is requested, not by which client
//
// A key that can be forged fails in two ways. A client can evade the limit, because each made-up value has its own
// limit. And if values can be known, such as names or tenants, a stranger can use up another client's limit. User
// agents and session cookies distinguish well-behaved clients only.
//
// So use an unforgeable key beside a forgeable one. All rules of a limiter must hold, so a second rule by ClientIP
// bounds how much a client gains by forging. Join(Header("User-Agent"), ip) keeps strangers away from others' limits,
// because the key contains the address, but a client can still evade it without that second rule. Or use a verified
// key: mount the limiter behind authentication and use User, with another limiter by address in front of the
// authentication, because verification costs something too.
//
// First(APIKey("X-Api-Key"), ip) gives each customer one key, wherever the customer connects from, and all other
// clients one key per address. If nothing in front of the limiter verifies the secret, add a rule by ip, as for any
// forgeable key.
//
// # Login pages
//
// Password guessing has two forms, so you need two rules. One address tries many names: limit by ClientIP, to a few a
// minute. Many addresses try one name: limit by the name, with a func of your own that reads and normalizes it, wrapped
// in Hash because names are personal data and easily guessed. With the second rule, any client can lock out a name that
// it knows. So make this limit generous, or Join the name with the address and accept that a large botnet gets more
// tries. If nobody may log in without a limit while the store is down, let both rules fail closed (core.FailClosed).
//
// # Behind a proxy
//
// Behind a proxy, RemoteIP is the same key for all clients, and any client can send its own X-Forwarded-For. ClientIP
// reads that header only from proxies that you trust, and only its right end, which those proxies wrote. Trust the
// narrowest prefixes that contain the proxies and nothing else. All of 10.0.0.0/8 is too much if other machines in it
// can connect.
//
// nginx, with proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for. Over a Unix socket, set Unix instead of
// Trusted:
//
//	keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}}
//
// Cloudflare, directly in front of your server: Trusted are the ranges published at https://www.cloudflare.com/ips/.
// Any customer of Cloudflare can connect from these ranges, so admit only your own zone: by authenticated origin pulls
// with a certificate of your own, because all customers share Cloudflare's:
//
//	keyfunc.ClientIP{Trusted: cloudflare, Header: "CF-Connecting-IP"}
//
// AWS: an Application Load Balancer appends to X-Forwarded-For unless configured otherwise; Trusted are its subnets.
// With CloudFront in front of it, two proxies append. If your security group admits only the load balancer, and the
// load balancer's security group admits only CloudFront, it is simpler to count the proxies:
//
//	keyfunc.ClientIP{Trusted: subnets, Hops: 2}
//
// A Network Load Balancer that preserves client addresses is not an HTTP proxy: use RemoteIP. Google's application load
// balancer appends the client's address and then its own, so it needs Hops: 2 as well.
//
// Hops cannot detect a wrong count: if it is too large, the client writes the element that is read. A single-value
// header is safe only if the proxy overwrites it on every request.
//
// Frameworks have their own functions (gin's ClientIP, echo's and chi's RealIP), which trust other proxies, so RemoteIP
// and ClientIP do not use them. If you have configured gin's trusted proxies or echo's IPExtractor, ginlimit.ClientIP
// and echolimit.RealIP use that configuration, and fail if the framework trusts everybody. Address takes the address
// from any other func. chi's RealIP writes the address that it finds to r.RemoteAddr. Behind it, RemoteIP and ClientIP
// return core.ErrInvalid, because clients could choose their key. Mount the limiter outside of RealIP, or remove
// RealIP. RewrittenIP is for servers where only trusted code sets RemoteAddr.
//
// # Before going live
//
// Log the key for a while, or show it on a page of your own, and send this request from outside:
//
//	curl -H 'X-Forwarded-For: 192.0.2.1' -H 'X-Real-IP: 192.0.2.1' -H 'Forwarded: for=192.0.2.1' https://example.com/
//
// The key must be your own address, and the same without those headers. If the key is 192.0.2.1, Trusted or Hops is too
// large, or the proxy does not overwrite the header. If the key is the address of a proxy, that proxy is missing from
// Trusted, or it sends another header. If the key is ip:unresolved, look at the proxy that the key names: it sent
// something that is not an address, or a list that is too short for Hops. Then send the same request directly to the
// server, past the proxy. The server should not answer; if it does, the key must be the address that you connect from.
// Repeat all of this over IPv6.
//
// # A key func of your own
//
// A core.KeyFunc is any func that returns a non-empty string. Start the key with a kind that is not in the list above,
// normalize spellings (such as letter case), and hash secrets. If the request has no such identity, return an error
// that wraps core.ErrNoKey. If it has two, or one that does not parse, return an error that wraps core.ErrBadKey.
package keyfunc
