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
// A program rarely calls [Limiter.Check] itself: the adapters do, such as middleware/stdlib and middleware/chi. They write the
// headers and the answer, such as a 429 or a 400, whose text is in middleware/internal/respond. This package never writes a
// response.
//
// # From a request to a decision
//
// [Limiter.Check] takes a request through these steps:
//
//  1. If the request is one to skip, nothing is charged.
//  2. Every rule that applies and whose cost is not 0 becomes a [Claim]: rule, key, limits and cost. Rules that the limiter has
//     decided for the request before, further out in the chain of handlers, are left out.
//  3. The store decides all claims together, in one call. If one that is not a dry run is denied, none is charged, so
//     that being denied never prolongs the wait.
//  4. The store returns a [Result] per limit of each claim: what remains, and how long to wait for more.
//  5. The results make a [Decision]. Observers are called with it, and adapters put it into the context of the request,
//     where [FromContext] finds it.
//
// [Limiter.Take] starts at step 3, for what is not an HTTP request. [Limiter.Peek] decides without charging.
// [Limiter.Settle] replaces the cost of a decision with its final cost, [Limiter.Refund] gives it back,
// [Limiter.Reset] forgets a key and [Limiter.Ban] denies all its requests for a time.
//
// A rule with [Rule.CostAfter] charges a request when its response has ended. Until then its cost is held.
//
// # Words
//
// A [Limit] is a rate, the burst it tolerates and the [Algorithm] that measures it. Its capacity is the largest cost that
// can be admitted at once. A [Rule] says: requests that match, grouped by a key, may not exceed these limits. A tier is a
// set of limits that takes the place of the rule's own for some requests. A dry run evaluates, charges and reports a
// rule, but never denies. A [Store] keeps what each key has used: a [MemoryStore] in this process, or a server that
// several processes share.
//
// # Reading the code
//
// A request passes through check.go (what rules ask for; internal/routes finds the rules by their Routes), limiter.go (claims to
// decision, by the store behind store_client.go, or by failure.go), and receipt.go (what was charged or held). Adapters enter by
// guard.go and, when the response has ended, leave by finish.go. What each [Algorithm] computes, the refund of a [FixedWindow] for
// example, stands in internal/algorithm for a [MemoryStore], and in internal/redisx/lua for Redis. docs/architecture.md has the
// tree.
//
// # Errors
//
// To be denied is a value, not an error. An error means that no decision was made and that the request must not be
// served: [ErrNoKey] if it has no key, [ErrBadKey] if its key is ambiguous, [ErrInvalid] if a cost, a tier or a claim
// makes no sense, [ErrUnavailable] if the store is down and a rule fails closed. While the store is down, the
// [FailureMode] of each rule decides, and [Decision.Degraded] says why.
package core
