package core

import "net/http"

// A KeyFunc says whose request r is, as a string that starts with the kind of identity: "ip:203.0.113.9", "user:42".
// Its error wraps ErrNoKey when the request has no such key. It must be safe for concurrent use.
// Package keyfunc has the usual ones.
type KeyFunc func(r *http.Request) (string, error)

// A Rule says: requests that match, grouped by a key, may not exceed these limits.
// Its functions may be called concurrently; one that panics fails its request with an error.
type Rule struct {
	// Name labels the rule in decisions, headers, metrics and stored keys. It is printable ASCII and unique within a
	// limiter. If empty, it is "default".
	Name string

	// Key says whose request it is. It is required.
	Key KeyFunc

	// Limits are the limits of each key, at least one; all must hold.
	Limits []Limit

	// Match reports whether the rule applies to a request. If nil, it applies to every request.
	Match func(*http.Request) bool

	// Cost says how many requests this one counts for. If nil, it counts for one. A request that costs 0 is free of
	// this rule; a negative cost is ErrInvalid.
	Cost func(*http.Request) int

	// Tier returns the limits that apply to this request in place of Limits. If it is nil or returns none, Limits
	// apply. A bad limit from it is ErrInvalid at the request.
	Tier func(*http.Request) []Limit

	// DryRun makes the rule evaluate, charge and report, but never deny.
	DryRun bool

	// OnFailure says what happens while the store is down. If zero, the limits are enforced from this process's memory.
	OnFailure FailureMode
}
