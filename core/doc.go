// Package core decides which HTTP requests are admitted:
//
//	package main
//
//	import (
//		"errors"
//		"log"
//		"net/http"
//
//		"github.com/spillgate/spillgate/core"
//	)
//
//	// user identifies the sender of a request. Package keyfunc has key funcs for addresses, API keys and more.
//	func user(r *http.Request) (string, error) {
//		name, _, ok := r.BasicAuth()
//		if !ok {
//			return "", core.ErrNoKey
//		}
//		return "user:" + name, nil
//	}
//
//	func main() {
//		limiter := core.Must(core.New([]core.Rule{
//			{Name: "api", Key: user, Limits: []core.Limit{core.PerSecond(10), core.PerMinute(120)}},
//			{Name: "login", Key: user, Limits: core.MustParseLimits("5/10m"), Routes: []string{"POST /login"}},
//		}))
//		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//			d, err := limiter.Check(r)
//			switch {
//			case errors.Is(err, core.ErrNoKey):
//				http.Error(w, "who are you?", http.StatusUnauthorized)
//			case err != nil:
//				http.Error(w, "cannot decide", http.StatusServiceUnavailable)
//			case !d.Allowed:
//				http.Error(w, "retry after "+d.RetryAfter().String(), http.StatusTooManyRequests)
//			default:
//				_, _ = w.Write([]byte("hello\n"))
//			}
//		})
//		log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
//	}
//
// You rarely call [Limiter.Check] yourself: adapters do, such as middleware/stdlib and middleware/chi. They write the headers
// and respond to denials and errors. This package never writes a response.
//
// # For protecting a router
//
// Make limits, then rules from limits, then a limiter from rules, and pass the limiter to an adapter.
//
//   - Limits: [PerSecond] to [PerYear], [Every], [AtOnce], [ParseLimits] or the struct [Limit]. [PerMonth], [Limit.In] and
//     [Limit.From] make windows of a [Calendar].
//   - Rules: [Limit.By] or the struct [Rule].
//   - The limiter: [New] or [Must]. Its options are [WithStore], [WithSkip] (see [Preflight]), [WithObserver], [WithTimeout],
//     [WithLogger], [WithFallback] and [WithMaxWaiting].
//   - The state: a [MemoryStore], or package redisstore.
//   - Costs that are known when the response ends: [Rule.CostAfter] with [Failures] or [SetCost].
//   - What a rule does while the store is down: [FailLocal], [FailOpen] or [FailClosed].
//   - What was decided: [FromContext], [Decision] and [Result]; for logs and metrics, an [Observer].
//   - Why nothing was decided: [ErrNoKey], [ErrBadKey], [ErrInvalid] or [ErrUnavailable].
//   - Jobs, logins and tokens without a request: [Limiter.Take], or [Limiter.Wait] to sleep until the turn of the job.
//     [Limiter.Settle] sets a decision's final cost, [Limiter.Refund] sets it to 0, and [Limiter.Renew] keeps a hold.
//   - What a client has left: [Limiter.Usage] for all rules, [Limiter.UsageOf] for one rule and key, [Limiter.Peek] for one
//     request. None of them charges anything.
//   - Operation: [Limiter.Reset] forgets a key, [Limiter.Ban] bans one, and [Limiter.Grant] adds requests to one.
//     [Limiter.SetRules] replaces the rules, and [Limiter.StoreHealth] describes the store.
//
// # For writing an adapter, a key func or a header format
//
// [Limiter.Guard] returns a [Guard], which decides one request and settles it at the end. A [Router] finds the route of a
// request, and key funcs ask for it with [Route] or [RoutePattern]. [NewContext] joins the decisions of nested limiters.
// [WithoutDecision] leaves another request's decisions out. [Decision.Tightest] and [Decision.OuterRulesOfSameName] are for headers.
//
// # For writing a store
//
// A [Store] decides a [Claim] and applies a [Settlement]. [Pair], [LocalTaker], [LeaseStats], [MemoryStats], [Limit.Width] and
// the Validate methods are for stores too. Package storetest tests the contract of a store.
//
// # From a request to a decision
//
//  1. If a function given to [WithSkip] reports true, the request is admitted and nothing is charged.
//  2. For every rule that applies and whose cost is not 0, the limiter makes a [Claim]: rule, key, limits and cost. It leaves
//     out rules that it has already decided for this request where the limiter is also mounted further out.
//  3. The store decides all claims together, in one call. If it denies a claim that is not a dry run, it charges none.
//     So a denial never makes a client wait longer.
//  4. The store returns a [Result] for each limit of each claim: what remains, and how long to wait for more.
//  5. The limiter makes a [Decision] from the results and calls the observers. Adapters store the decision in the
//     request's context.
//
// [Limiter.Take] starts at step 3. A rule with [Rule.CostAfter] holds the cost of a request and charges it when the response
// has ended.
//
// # Words
//
// A [Limit] is a rate, the burst it tolerates and the [Algorithm] that measures it. Its capacity is the largest cost that it
// can admit at once. A [Rule] says: requests that match, grouped by a key, may not exceed these limits. A tier is a set of
// limits that replaces the rule's own for some requests. A dry run evaluates, charges and reports a rule, but never denies. A
// [Store] keeps what each key has used: a [MemoryStore] in this process, or a server that several processes share.
//
// # Errors
//
// A denial is a value, not an error. An error means that no decision was made and that the request must not be served:
// [ErrNoKey] if it has no key, [ErrBadKey] if its key is ambiguous, [ErrInvalid] if a cost, a tier or a claim is invalid,
// and [ErrUnavailable] if the store is down and a rule fails closed. While the store is down, the [FailureMode] of each rule
// decides, and [Decision.Degraded] says why.
//
// # Reading the code
//
// Follow a request through guard.go, which adapters call, check.go (rules to claims), store_client.go (claims to a decision, with
// or without the store), receipt.go (the charges and holds of a request) and hold.go, which settles at the end. The formulas of
// each [Algorithm] are in internal/algorithm for a [MemoryStore] and in internal/redisx/lua for Redis.
// docs/architecture.md describes the tree.
package core
