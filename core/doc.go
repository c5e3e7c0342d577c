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
//	// user says whose request it is. Package keyfunc has such funcs for addresses, API keys and more.
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
// # To protect a router
//
// Make rules from limits ([PerMinute], [ParseLimits], [AtOnce], [Limit.By], or the structs [Limit] and [Rule]), a limiter
// from rules ([New], [Must]), and pass it to an adapter. Options change its behavior: [WithStore], [WithSkip],
// [WithObserver], [WithTimeout], [WithLogger], [WithFallback].
//
//   - [Failures] and [SetCost] are for costs that are known at the end, with [Rule.CostAfter].
//   - [FailLocal], [FailOpen] and [FailClosed] say what a rule does while the store is down.
//   - [FromContext], [Decision] and [Result] say what was decided.
//   - [Limiter.Take] charges without a request, and [Limiter.Peek] decides without charging. [Limiter.Settle] sets the final
//     cost, [Limiter.Refund] returns all of it, [Limiter.Reset] forgets a key and [Limiter.Ban] bans one.
//   - [Limiter.SetRules] replaces the rules while requests are decided, and [Limiter.StoreHealth] reports on the store.
//   - [ErrNoKey], [ErrBadKey], [ErrInvalid] and [ErrUnavailable] say why nothing was decided.
//
// # To write an adapter or a header format
//
// [Limiter.Guard] returns a [Guard], which decides one request and settles it at the end. A [Router] tells the limiter the
// route. [NewContext] and [Decision.OuterRulesOfSameName] join nested limiters.
//
// # To write a store
//
// A [Store] decides a [Claim] and applies a [Settlement]. [Pair], [LocalTaker], [LeaseStats], [MemoryStats], [Limit.Width] and
// the Validate methods are for stores too. Package storetest has the contract as tests.
//
// # From a request to a decision
//
//  1. If a function given to [WithSkip] reports true, nothing is charged.
//  2. Every rule that applies, and whose cost is not 0, becomes a [Claim]: rule, key, limits and cost. Rules that this
//     limiter has already decided for the request, further out in the chain of handlers, are left out.
//  3. The store decides all claims together, in one call. If a claim that is not a dry run is denied, none is charged. So
//     being denied never makes a client wait longer.
//  4. The store returns a [Result] for each limit of each claim: what remains, and how long to wait for more.
//  5. The results make a [Decision]. Observers are called with it, and adapters put it into the request's context.
//
// [Limiter.Take] starts at step 3. A rule with [Rule.CostAfter] charges a request when its response has ended; until then, its
// cost is held.
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
// [ErrNoKey] if it has no key, [ErrBadKey] if its key is ambiguous, [ErrInvalid] if a cost, a tier or a claim makes no sense,
// and [ErrUnavailable] if the store is down and a rule fails closed. While the store is down, the [FailureMode] of each rule
// decides, and [Decision.Degraded] says why.
//
// # Reading the code
//
// Follow a request through check.go (what rules ask for), limiter.go (claims to decision), failure.go (without the store) and
// receipt.go (what was charged or held). Adapters enter by guard.go, and finish.go settles at the end. internal/algorithm has
// the formulas of each [Algorithm] for a [MemoryStore], and internal/redisx/lua for Redis. docs/architecture.md has the tree.
package core
