// Package core decides which HTTP requests are admitted. It never writes a response: adapters, such as those below
// middleware, ask it for a decision and answer. It imports the standard library only.
//
// # Words
//
// A [Limit] is a rate, which is a number of requests per period, the burst it tolerates and the [Algorithm] that
// measures it. Its capacity is the largest cost that can be admitted at once.
//
// A [Rule] says: requests that match, grouped by a key, may not exceed these limits. The key comes from a [KeyFunc] and
// says whose request it is. The cost of a request, usually 1, is how many requests it counts for. A tier is a set of
// limits that takes the place of the rule's own for some requests. A dry run evaluates, charges and reports a rule, but
// never denies.
//
// A [Limiter] holds rules. A [Store] keeps what each key has used: a [MemoryStore] in this process, or a server that
// several processes share.
//
// # From a request to a decision
//
// [Limiter.Check] takes a request through these steps:
//
//  1. If the request is one to skip, or carries a decision of the limiter already, nothing is charged.
//  2. Every rule that matches and whose cost is not 0 becomes a [Claim]: rule, key, limits and cost.
//  3. The store decides all claims together, in one call. If one that is not a dry run is denied, none is charged, so
//     that being refused never prolongs the wait.
//  4. It returns a [Result] per limit of each claim: what remains, and how long to wait for more.
//  5. The results make a [Decision]. Observers are told of it, and adapters put it into the context of the request,
//     where [FromContext] finds it.
//
// [Limiter.Take] starts at step 3, for what is not an HTTP request. [Limiter.Peek] decides without charging,
// [Limiter.Refund] gives back what a decision was charged, and [Limiter.Reset] forgets a key.
//
// # Errors
//
// To be denied is a value, not an error. An error means that no decision was made and that the request must not be
// served: [ErrNoKey] if it has no key, [ErrInvalid] if a cost, a tier or a claim makes no sense, [ErrUnavailable] if the
// store is down and a rule fails closed. While the store is down, the [FailureMode] of each rule decides, and
// [Decision.Degraded] says why.
package core
