package headers

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/fields"
)

// IETF sets the fields of draft-ietf-httpapi-ratelimit-headers, whose wire form is the same in revisions 08 to 11:
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=2,"daily";r=800;t=44
//
// RateLimit-Policy lists every enforced limit. A policy has the name of its rule. If a rule has several limits, the
// period is part of the name: "rule-1s", "rule-1h", "rule-month", "rule-at-once". If two of them have the same period,
// so is the algorithm, "rule-1h-sliding-log", or the zone and day of a calendar: "rule-month-UTC-15". If two nested
// limiters have a rule of the same name, the policies of the inner one are called "rule~2". Two policies never have the
// same name: a rule that is itself called "rule-1h" becomes "rule-1h-1m". q is the capacity; for a token bucket with a
// burst, that is the burst, since r counts down from there.
// A grant is not part of q, so r may be larger. w is the period in seconds, rounded up, or the length of the current
// calendar window. A limit of requests in flight has the unit "concurrent-requests" instead of a period.
//
// RateLimit has two values for each policy: r, the remaining requests, and t, the seconds until there are more, rounded
// up. It leaves out t if nothing is missing, if nothing will come back (rate 0), if t would be after Retry-After, which
// the draft forbids, and for requests in flight, whose end nobody knows. On denials, IETF sets Retry-After as GitHub
// does. It does not set the parameter pk, the partition key, so that no key can leak.
func IETF(h http.Header, d core.Decision) {
	if !slices.ContainsFunc(d.Results, func(r core.Result) bool { return !r.DryRun }) {
		return
	}
	shown, _ := fields.Of(&d)
	var buffer [256]byte
	b := appendPolicies(buffer[:0], &d)
	policyEnd := len(b)
	b = appendStates(b, &d, shown.Retry)
	stateEnd := len(b)
	b = strconv.AppendInt(b, shown.Retry, 10)

	text := string(b)
	values := []string{text[:policyEnd], text[policyEnd:stateEnd], text[stateEnd:]}
	h["Ratelimit-Policy"] = values[0:1:1]
	h["Ratelimit"] = values[1:2:2]
	if shown.Retry > 0 {
		h["Retry-After"] = values[2:3:3]
	}
}

// appendPolicies appends the List of RateLimit-Policy. At least one result must be enforced. The separator has no
// space, as in the examples of the draft; RFC 9651, section 4.2.1, allows that.
func appendPolicies(b []byte, d *core.Decision) []byte {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun {
			b = appendName(b, d, i)
			b = appendInteger(b, ";q=", int64(t.Limit.Capacity()))
			if t.Limit.Algorithm == core.InFlight {
				b = append(b, `;qu="concurrent-requests"`...)
			} else {
				b = appendInteger(b, ";w=", fields.CeilSeconds(window(t)))
			}
			b = append(b, ',')
		}
	}
	return b[:len(b)-1]
}

// window returns the period of a limit or, for a calendar limit, the length of the current window.
func window(t *core.Result) time.Duration {
	if t.Limit.Calendar.Unit == 0 {
		return t.Limit.Period
	}
	start, end := t.Limit.Calendar.Window(t.At)
	return end.Sub(start)
}

// appendStates appends the List of RateLimit in the same way. retry is the value of Retry-After, or 0 if there is none.
func appendStates(b []byte, d *core.Decision, retry int64) []byte {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun {
			b = appendName(b, d, i)
			b = appendInteger(b, ";r=", int64(t.Remaining))
			if wait := fields.CeilSeconds(t.RefillAfter); wait > 0 && (retry == 0 || wait <= retry) && t.Limit.Algorithm != core.InFlight {
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
