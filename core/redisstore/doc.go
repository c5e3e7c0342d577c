// Package redisstore keeps the state of limits in Redis, so that all processes that use the same Redis share them,
// exactly. It decides as core.MemoryStore does, in a script, by the clock of the server: one round trip for all limits
// of all claims of a request.
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	store := redisstore.New(client, redisstore.WithPrefix("shop")) // a prefix for each service
//	limiter, err := core.New(rules, core.WithStore(store))
//
// # Which Redis
//
// Redis 7.0 and newer, and Valkey: a single server, one behind Sentinel, or a Redis Cluster. The scripts need not be
// loaded beforehand, and survive restarts, failovers and SCRIPT FLUSH. Any go-redis client will do with its default
// options. Those repeat a command whose reply got lost and pay no heed to the deadline of a context; this package does
// not let them: a decision is sent once, and a method returns when its context is done.
//
// A failover loses what the replica had not received yet: for each key, at most one capacity is admitted twice.
//
// # Memory
//
// Set maxmemory-policy to noeviction. Under any other policy a full server removes keys that still count, and a denied client
// gets its whole limit again; the store logs one warning if it finds another policy. Every key expires within a second of
// the time at which its limits have fully recovered. How much memory a key takes is in docs/redis.md.
//
// # Keys
//
//	spillgate:4:{ip:203.0.113.9}:login
//
// is the pair of rule login and that address: a hash with a field for each limit. 2 is the version of the format. In identities and
// rules, whatever is not printable ASCII is written %XX, as are percent signs, braces and spaces, and colons in a rule.
// An identity of more than 128 bytes is stored as # and 128 bits of its SHA-256. With WithKeySecret all identities are
// stored as * and a keyed hash.
//
// # Leases
//
// A rule with a Lease has requests of busy keys charged ahead: at most half of what remains in Redis, for as many requests as
// this process used in the last Lease. They are decided in memory, within microseconds, and what is not used is given back when
// the lease ends. What Redis has charged never exceeds the limit. A key that is not asked for again within a Lease costs what it
// costs without. While Redis is down a lease may be used up. Store.LeaseStats counts; docs/redis.md says when to lease, and what
// is admitted at most.
//
// # Redis Cluster
//
// All keys of one identity share a slot, so a request with claims of one identity is one script on one node, and exact.
// A request with several identities is decided in the slots of each at once. If one denies, what the others were charged
// is given back before the request is answered; a result then says what remains after that. So:
//
//   - No limit is ever exceeded, and once a denied request has been answered it has been charged nothing. The exception
//     is a token bucket that several requests at once were charged to and denied elsewhere: of each but the last, what
//     the bucket refills in a round trip may stay charged.
//   - Until then, for the time of one more round trip, its cost stands in the slots that admitted it, where another
//     request may be denied for it.
//   - If the process or the connection dies in between, that cost stays until it drains by itself or its window ends, at
//     the latest when the limit would have recovered from it.
//
// While a slot migrates, keys of one identity may be on two nodes; requests for several of them are decided in the same
// way in the meantime. Each decision is charged once, wherever it is redirected to.
//
// After the failure of a node the store has the client look for the new master, at most every 500ms.
//
// # Ring
//
// A *redis.Ring works as well, one identity at a time as on a Cluster, as long as its shards stay what they are. When
// a shard goes down or comes back, the Ring moves identities to other shards, where they start over.
package redisstore
