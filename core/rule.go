package core

import (
	"fmt"
	"net/http"
	"time"
)

// A KeyFunc says whose request r is, as a string that starts with the kind of identity: "ip:203.0.113.9", "user:42". Its
// error wraps ErrNoKey if the request has no such identity. It must be safe for concurrent use. Package keyfunc has the
// common ones.
type KeyFunc func(r *http.Request) (string, error)

// A Rule says: requests that match, grouped by a key, may not exceed these limits. Its functions may be called
// concurrently. If one panics, its request fails with an error.
type Rule struct {
	// Name labels the rule in decisions, headers, metrics and stored keys. It must be printable ASCII and unique within a
	// limiter. The default is "default".
	Name string

	// Key says whose request it is. It may be nil if only Limiter.Take uses the rule, because a Claim names its key. A request that
	// a rule without a Key applies to fails with ErrInvalid, so keep such rules in a limiter that no adapter mounts.
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
	// matches "/api" too. If routers could read a path in several ways, because of escapes such as "%2F" or because they do
	// not clean it, a pattern that matches one of the readings applies. If your router serves other paths with the same
	// handler, such as "/LOGIN" or "/login.json", add a pattern for each. The last parameter of an echo route,
	// "/users/:id", also matches slashes: use "/users/".
	//
	// Hosts are compared without case, port and final dot. A client can send any Host, so use a pattern with a host only if
	// no other Host leads to the same handler.
	Routes []string

	// Match reports whether the rule applies to a request that matches Routes. If nil, it applies to all of them.
	Match func(*http.Request) bool

	// Cost returns how many requests this one counts as. If nil, every request costs 1. A request that costs 0 is free
	// under this rule. A negative cost is ErrInvalid.
	Cost func(*http.Request) int

	// Tier returns the limits that apply to this request in place of Limits. If Tier is nil or returns none, Limits apply. A bad
	// limit from it is ErrInvalid for that request.
	//
	// A Tier that cannot find the limits, because its database is down, chooses what happens: it can return nil for Limits, the
	// last limits that it knows, or a limit of rate 0, which denies the request; or it can panic, which fails the request with
	// ErrInvalid (status 500). OnFailure is about the store only. Limiter.Take does not call Tier: set Claim.Limits.
	Tier func(*http.Request) []Limit

	// Override returns the limits of one key, in place of Limits and Tier: a partner's plan, or a network that is denied everything. If
	// it is nil or returns none, the others apply. A limiter calls it once per request, after Key. Limiter.Take calls it for a claim
	// without Limits. A bad limit from it is ErrInvalid at the request.
	Override func(key string) []Limit

	// DryRun makes the rule evaluate, charge and report, but never deny.
	DryRun bool

	// CostAfter returns the final cost of a request once its response has ended; 0 makes it free. Until then, the cost from
	// Cost is held and counts as if it were charged. If CostAfter is nil, Cost is final. If CostAfter panics or returns a
	// negative number, the held cost is charged and observers get an error.
	//
	// CostAfter needs an adapter that watches responses, such as the adapters of this module. If you call Limiter.Check
	// yourself, call Limiter.Settle at the end.
	CostAfter func(*http.Request, Outcome) int

	// OnFailure says what happens while the store is down. The zero value, FailLocal, enforces the limits from this
	// process's memory.
	OnFailure FailureMode

	// Lease makes a store that can lease charge requests of hot keys ahead and decide them in memory. It is how long they
	// may be used, 1ms to 10s. If zero, every decision asks the store.
	//
	// Charges never exceed the limits, but requests charged ahead may be served up to Lease later. A rule with a lease
	// needs token buckets without a ban or fixed windows, and no CostAfter. If a tier's limits cannot be leased, the store
	// is asked. A MemoryStore and the fallback ignore Lease.
	Lease time.Duration

	// MaxWait is how long a request may wait for its turn, up to an hour, instead of being denied. If it does not fit now but will
	// within MaxWait, the store charges it now for the instant at which it fits, and the next request gets the next instant: all
	// processes that share a store go in one order, and no request asks the store twice. Adapters and Limiter.Wait sleep until then;
	// Take, Check and Peek return Decision.Wait at once. If zero, a request that does not fit is denied.
	//
	// In any span, at most burst + rate × span requests go on. A request that is canceled, refunded or settled at less gives its
	// turn to the next request, unless others wait behind it. The limits must be token buckets without a ban; there is no CostAfter
	// and no Lease. If several rules apply, the request waits for the longest of their waits, and then the other rules may see
	// burst + rate × (span + that wait).
	MaxWait time.Duration
}

func ruleName(rule string) string {
	if rule == "" {
		return "default"
	}
	return rule
}

// place says which rule an error is about.
func (r *Rule) place() string {
	return fmt.Sprintf("rule %q", r.Name)
}

func (r *Rule) validate() error {
	err := validateLimits(r.Limits)
	if !printableASCII(r.Name) {
		err = allOf(invalid("name must be printable ASCII"), err)
	}
	if len(r.Limits) == 0 {
		err = allOf(err, invalid("a rule needs at least one limit, such as core.PerMinute(100)"))
	}
	if r.OnFailure > FailClosed {
		err = allOf(err, invalid("there is no failure mode %d; want FailLocal, FailOpen or FailClosed", r.OnFailure))
	}
	return allOf(err, r.checkLease(), r.checkWait())
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
