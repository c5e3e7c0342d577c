// Package redisstore keeps the state of limits in Redis, so that all processes that use the same Redis share them,
// exactly. It makes the same decisions as core.MemoryStore, in a script, by the clock of the Redis server. All limits
// of all claims of a request take one round trip.
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(client, redisstore.WithPrefix("shop")) // a prefix for each service
//	limiter, err := core.New(rules, core.WithStore(store))
//
// # Which Redis
//
// Redis 7.0 and newer, and Valkey: a single server, one behind Sentinel, or a Redis Cluster. The scripts need not be
// loaded beforehand, and survive restarts, failovers and SCRIPT FLUSH. Any go-redis client works, with any options. By
// default, go-redis sends a command again if the reply was lost, and ignores the deadline of a context. This package
// prevents both: it sends a decision once, and its methods return when their context is done. Set ContextTimeoutEnabled,
// so that this takes no goroutine for each call: see New.
//
// A failover loses the charges that the replica had not received yet: for each key, at most one capacity is admitted
// twice.
//
// # Memory
//
// Set maxmemory-policy to noeviction. With any other policy, a full server removes keys that still count, and a denied
// client gets its whole limit again. The store logs one warning if it finds another policy. Every key expires ten
// seconds after its limits have fully recovered. docs/redis.md says how much memory a key takes.
//
// # Keys
//
//	spillgate:7:{ip:203.0.113.9}:login
//
// is the key of the rule login and that address: a hash with the states of all limits. The number is the version of the
// format. In identities and rules, the store writes a byte as %XX if it is not printable ASCII, or is a percent sign, a
// brace or a space; in a rule, also a colon. It stores an identity of more than 128 bytes as # and 128 bits of its
// SHA-256. With WithKeySecret, it stores every identity as * and a keyed hash.
//
// # Leases
//
// For a rule with a Lease, the store charges requests of busy keys ahead of time: as many as this process used in the
// last Lease, and at most half of what remains in Redis. It then decides these requests in memory, within microseconds,
// and returns what is unused when the lease ends. The charges in Redis never exceed the limit. A key that is
// used once per Lease costs one round trip, as without leases. While Redis is down, the process can use up its leases.
// Store.LeaseStats counts leases; docs/redis.md says when to use them, and what is admitted at most.
//
// # Redis Cluster
//
// All keys of one identity share a slot, so a request with one identity is decided by one script on one node, exactly.
// A request with several identities is decided in the slots of all of them at the same time. If one slot denies it, the
// store gives back what the other slots have charged before it returns, and each result has what remains after that.
// So:
//
//   - No limit is ever exceeded, and when Take returns, a denied request has been charged nothing. There are two
//     exceptions. If a token bucket was charged for several requests at the same time and all of them were denied
//     elsewhere, the bucket may keep, for each request but the last, what it refills in one round trip. And what a key
//     has used under another tier may recover as slowly afterwards as under the tier of the denied request.
//   - Before Take returns, for one more round trip, the cost counts in the slots that admitted it, and another request
//     may be denied because of it.
//   - If the process or the connection dies in that time, the cost stays charged until it drains or its window ends.
//
// While a slot migrates, the keys of one identity may be on two nodes. Requests that need several of these keys are
// then decided in the same way. Each decision is charged once, even if it is redirected.
//
// After a node has failed, the store makes the client look for the new master, at most every 500ms.
//
// # Ring
//
// A *redis.Ring works like a Cluster as long as its shards do not change. When a shard goes down or comes back, the
// Ring moves identities to other shards, where their counters restart.
package redisstore
