package headers

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// IETF sets the fields of draft-ietf-httpapi-ratelimit-headers, whose wire form is the same in revisions 08 to 11:
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=2,"daily";r=800;t=44
//
// RateLimit-Policy lists every limit that was enforced. It is named after the rule; a rule with several limits has
// "rule-1s" and "rule-1h", or "rule-1h-sliding-log" where two of them share a period. If two nested limiters have a rule of
// the same name, the inner one's limits are "rule~2". A name never stands for two policies: a rule that is called "rule-1h"
// itself shows as "rule-1h-1m". q is the capacity, which for a token bucket with a burst is the burst, since r counts down
// from there; w is the period in seconds, rounded up, or the length of the current window of a calendar. A calendar limit has a name such
// as "rule-month" beside others. A limit of requests in flight has the unit "concurrent-requests" in
// place of a period, and the name "rule-at-once" beside others.
//
// RateLimit has for each of them r, the remaining requests, and t, the seconds until there are more, rounded up. There is no
// t if nothing is missing, if nothing will come back (rate 0), if it lies after Retry-After, which it must not, or for
// requests in flight, which end when they end.
// Retry-After is on denials, as GitHub sets it. The parameter pk, a partition key, is left out: a decision does not
// carry the key, so that nothing can leak it.
func IETF(h http.Header, d core.Decision) {
	if !slices.ContainsFunc(d.Results, func(r core.Result) bool { return !r.DryRun }) {
		return
	}
	s, _ := show(&d)
	var buffer [256]byte
	b := appendPolicies(buffer[:0], &d)
	policyEnd := len(b)
	b = appendStates(b, &d, s.retry)
	stateEnd := len(b)
	if s.retry > 0 {
		b = strconv.AppendInt(b, s.retry, 10)
	}

	text := string(b)
	values := []string{text[:policyEnd], text[policyEnd:stateEnd], text[stateEnd:]}
	h["Ratelimit-Policy"] = values[0:1:1]
	h["Ratelimit"] = values[1:2:2]
	if s.retry > 0 {
		h["Retry-After"] = values[2:3:3]
	}
}

// appendPolicies appends the List of RateLimit-Policy. At least one of results must be enforced. The separator has no
// space, as in the examples of the draft; RFC 9651, section 4.2.1, allows for that.
func appendPolicies(b []byte, d *core.Decision) []byte {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun {
			b = appendName(b, d, i)
			b = appendInteger(b, ";q=", int64(t.Limit.Capacity()))
			if t.Limit.Algorithm == core.InFlight {
				b = append(b, `;qu="concurrent-requests"`...)
			} else {
				b = appendInteger(b, ";w=", ceilSeconds(window(t)))
			}
			b = append(b, ',')
		}
	}
	return b[:len(b)-1]
}

// window returns the period of a limit or, of a calendar limit, the length of the current window.
func window(t *core.Result) time.Duration {
	if t.Limit.Calendar.Unit == 0 {
		return t.Limit.Period
	}
	start, end := t.Limit.Calendar.Window(t.At)
	return end.Sub(start)
}

// appendStates appends the List of RateLimit in the same way. Retry is the value of Retry-After, 0 for none.
func appendStates(b []byte, d *core.Decision, retry int64) []byte {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun {
			b = appendName(b, d, i)
			b = appendInteger(b, ";r=", int64(t.Remaining))
			if wait := ceilSeconds(t.RefillAfter); wait > 0 && (retry == 0 || wait <= retry) && t.Limit.Algorithm != core.InFlight {
				b = appendInteger(b, ";t=", wait)
			}
			b = append(b, ',')
		}
	}
	return b[:len(b)-1]
}

// appendName appends the policy's name as a String of RFC 9651, section 3.3.3. Names are printable ASCII.
func appendName(b []byte, d *core.Decision, i int) []byte {
	rule, suffix := policy(d, i)
	b = append(b, '"')
	for j := range len(rule) {
		if rule[j] == '"' || rule[j] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, rule[j])
	}
	return append(append(b, suffix...), '"')
}

func appendInteger(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}
