package main

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// numbers are the values of the rate limit headers of a reply, as a table shows them.
type numbers struct{ limit, remaining, reset string }

// readNumbers reads GitHub's headers of r or, if there are none, the headers of the IETF draft. It reports whether they
// are complete.
func readNumbers(r reply) (n numbers, ok bool) {
	n = numbers{limit: r.header.Get("X-RateLimit-Limit"), remaining: r.header.Get("X-RateLimit-Remaining")}
	if n.limit == "" {
		return draftNumbers(r.header.Get("RateLimit"), r.header.Get("RateLimit-Policy"))
	}
	n.reset, ok = epochSeconds(r.header.Get("X-RateLimit-Reset"), r.at)
	return n, ok && !math.IsInf(share(n.remaining, n.limit), 1)
}

// epochSeconds shows an instant and how far it is from now.
func epochSeconds(s string, now time.Time) (string, bool) {
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return s, false
	}
	return s + " (in " + time.Unix(seconds, 0).Sub(now).Round(100*time.Millisecond).String() + ")", true
}

// draftNumbers reads the item of RateLimit with the smallest share left, and the policy of the same name. It does not
// support the escapes of RFC 9651, which the names of this demo do not need.
func draftNumbers(limit, policy string) (n numbers, ok bool) {
	capacities := map[string]string{}
	for p := range strings.SplitSeq(policy, ",") {
		name, parameters, _ := strings.Cut(p, ";")
		capacities[name] = parameter(parameters, "q")
	}
	least := math.Inf(1)
	for item := range strings.SplitSeq(limit, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		remaining, capacity := parameter(parameters, "r"), capacities[name]
		share := share(remaining, capacity)
		if share >= least {
			continue
		}
		least = share
		n = numbers{limit: capacity, remaining: remaining}
		if t := parameter(parameters, "t"); t != "" {
			n.reset = "in " + t + "s"
		}
	}
	return n, !math.IsInf(least, 1)
}

// share is the part of capacity that remains; infinite if either is not a whole number.
func share(remaining, capacity string) float64 {
	r, err := strconv.ParseUint(remaining, 10, 63)
	q, err2 := strconv.ParseUint(capacity, 10, 63)
	if err != nil || err2 != nil {
		return math.Inf(1)
	}
	return float64(r) / float64(max(q, 1))
}

// parameter returns the value of name in "a=1;b=2", or "".
func parameter(parameters, name string) string {
	for p := range strings.SplitSeq(parameters, ";") {
		if key, value, _ := strings.Cut(p, "="); key == name {
			return value
		}
	}
	return ""
}
