package core

import (
	"net/http"
	"strings"
	"time"
)

// A KeyFunc identifies the sender of r by a string that starts with the kind of identity: "ip:203.0.113.9", "user:42".
// Its error wraps ErrNoKey if the request has no such identity. It must be safe for concurrent use. Package keyfunc has
// the common ones.
type KeyFunc func(r *http.Request) (string, error)

// A Rule says: requests that match, grouped by a key, may not exceed these limits. Its functions may be called
// concurrently. If one panics, its request fails with an error.
type Rule struct {
	// Name labels the rule in decisions, headers, metrics and stored keys. It must be printable ASCII and unique within a
	// limiter. The default is "default".
	Name string

	// Key identifies the sender of a request. Key may be nil if only Limiter.Take uses the rule, because a Claim has a
	// key. If a rule without a Key applies to a request, Check returns ErrInvalid. So keep such rules in a limiter of
	// their own, without an adapter.
	Key KeyFunc

	// Limits are the limits of each key, 1 to 16. All of them must hold.
	Limits []Limit

	// Routes selects the requests that the rule applies to, by patterns of http.ServeMux: "POST /login", "/api/",
	// "/users/{id}". If empty, the rule applies to every request.
	//
	// All rules with a matching pattern apply, not only the one with the most specific pattern. New reports two patterns
	// that ServeMux would not accept together, such as "/a/{x}" and "/{y}/b". GET includes HEAD.
	//
	// Patterns match the whole path of r.URL, cleaned: "//login", "/x/../login" and "/login/" are "/login", so "/api/"
	// matches "/api" too. Routers can interpret a path differently if it has escapes such as "%2F" or needs cleaning. A
	// pattern applies if it matches any of these interpretations, or the method and path that the adapter's router routes
	// by, which middleware in front of the limiter may have set. If your router serves other paths with the same handler,
	// such as "/LOGIN" or "/login.json", add a pattern for each. The last parameter of an echo route,
	// "/users/:id", also matches slashes: use "/users/".
	//
	// A pattern without a slash at its start has a host: "api/users" is for the host "api".
	// Hosts are compared without regard to case, port and a final dot. A client can send any Host, so use a pattern
	// with a host only if requests with another Host do not reach the same handler.
	Routes []string

	// Match reports whether the rule applies to a request that matches Routes. If nil, it applies to all of them.
	Match func(*http.Request) bool

	// Cost returns how many requests this request counts as. If nil, every request costs 1. A request that costs 0 is
	// free under this rule. If Cost returns a negative number, Check returns ErrInvalid.
	Cost func(*http.Request) int

	// Tier returns the limits that apply to this request in place of Limits. If Tier is nil or returns none, Limits
	// apply. If Tier returns an invalid limit, Check returns ErrInvalid.
	//
	// If Tier cannot find the limits, because its database is down, it has four choices: return nil, and Limits apply;
	// return the last limits that it knows; return a limit of rate 0, which denies the request; or panic, and Check
	// returns ErrInvalid (status 500). OnFailure does not apply: it is about the store. Limiter.Take does not call
	// Tier: set Claim.Limits.
	Tier func(*http.Request) []Limit

	// Override returns the limits of one key, in place of Limits and Tier: a partner's plan, for example, or a rate of
	// 0 for an abusive network. If Override is nil or returns none, Tier and Limits apply. Check calls Override once
	// per request, after Key; Limiter.Take calls it for a claim without Limits. If Override returns an invalid limit,
	// they return ErrInvalid.
	Override func(key string) []Limit

	// DryRun makes the rule evaluate, charge and report, but never deny. A request without a key still gets an error.
	DryRun bool

	// CostAfter returns the final cost of a request once its response has ended; 0 makes the request free. Until then, the cost that
	// Cost returned is held, or the smallest capacity of the limits, AtOnce aside, if that is less, and counts like a charge. If CostAfter
	// is nil, the cost is final. If it panics or returns a negative number, the held cost is charged and observers get an error.
	//
	// CostAfter needs an adapter that watches responses, such as the adapters of this module. If you call Limiter.Check
	// yourself, call Limiter.Settle at the end.
	CostAfter func(*http.Request, Outcome) int

	// OnFailure says what happens while the store is down. The zero value, FailLocal, enforces the limits from this
	// process's memory.
	OnFailure FailureMode

	// Lease lets a store such as redisstore charge requests of hot keys ahead of time and decide them in memory. Lease
	// is how long requests charged ahead may be used, 1ms to 10s. If zero, every decision asks the store.
	//
	// Charges never exceed the limits, but requests charged ahead may be served up to Lease later. The limits of such a
	// rule must be token buckets without a ban, or fixed windows, and the rule must not have a CostAfter. If a tier's
	// limits cannot be leased, every decision under that tier asks the store. A MemoryStore and the fallback ignore
	// Lease.
	Lease time.Duration

	// MaxWait is how long a request may wait for its turn instead of being denied; at most an hour. If a request does
	// not fit now but will within MaxWait, the store charges it now for the instant at which it fits. The next request
	// gets the next instant. So the requests of all processes that share a store take turns in one order. Adapters and
	// Limiter.Wait sleep until the request's turn; Take, Check and Peek return at once, with Decision.Wait set. If MaxWait
	// is zero, a request that does not fit is denied.
	//
	// If the request's context has a deadline, the request may wait for at most the time left; requests of a server keep
	// up to 75ms of it for the response. If the adapter cannot extend the server's WriteTimeout and, for a request with a
	// body, ReadTimeout, these are such deadlines too.
	//
	// A request that waits holds nothing under the other rules, and begins no ban. If they hold something, for an AtOnce limit
	// or a CostAfter, or if a limit of theirs has a Ban, their rates are checked at once. The request then asks the store a
	// second time at its turn to hold or charge it, even if there was nothing to wait for. If that is denied, the request
	// gives back all that it was charged.
	//
	// In any span, at most burst + rate × span requests take their turn. A request that is canceled, refunded or settled at
	// less frees its turn, unless others wait behind it. The limits must be token buckets without a ban, and the rule must
	// not have a CostAfter or a Lease. If several rules apply, the request waits for the longest of their waits. The bound
	// of the other rules is then burst + rate × (span + that wait).
	MaxWait time.Duration
}

// By returns a rule named "default" that limits each key to l.
func (l Limit) By(key KeyFunc) Rule { return Rule{Key: key, Limits: []Limit{l}} }

// A FailureMode says what a rule does while the store is down. It applies only to faults of the store, never to a
// missing key, a bad cost or a client that disconnected. If too many calls of a healthy store are in flight, all rules
// do what FailLocal does.
type FailureMode uint8

const (
	// FailLocal enforces the same limits from this process's memory.
	FailLocal FailureMode = iota

	// FailOpen admits the request after several calls of the store have failed, until the store answers again. Before and
	// after that, it does what FailLocal does, so that one lost reply lifts no limit.
	FailOpen

	// FailClosed serves no request: Check returns an error that wraps ErrUnavailable.
	FailClosed
)

func ruleName(rule string) string {
	if rule == "" {
		return "default"
	}
	return rule
}

func (r *activeRule) validate() error {
	errs := []error{r.set.err}
	wrong := func(format string, args ...any) { errs = append(errs, invalid(format, args...)) }
	if !printableASCII(r.Name) {
		wrong("name must be printable ASCII")
	}
	if len(r.Limits) == 0 {
		wrong("a rule needs at least one limit, such as core.PerMinute(100)")
	}
	if r.OnFailure > FailClosed {
		wrong("there is no failure mode %d; want FailLocal, FailOpen or FailClosed", r.OnFailure)
	}
	const held = "with CostAfter, which holds its cost"
	if r.Lease != 0 && r.CostAfter != nil {
		wrong("lease must be 0 for a rule %s, got %v", held, r.Lease)
	}
	for i := range r.Limits {
		if r.Lease != 0 && !r.set.compiled[i].Leasable() {
			wrong("lease %v needs token buckets without a ban or fixed windows, got limit %d, %v", r.Lease, i+1, r.Limits[i])
		}
	}
	errs = append(errs, r.set.timing(r.Lease, r.MaxWait, r.CostAfter != nil, "rule", held))
	return allOf(errs...)
}

func printableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
