// Package fields sets the fields that headers.GitHub and headers.Custom write. In grpclimit, the same fields have names in lower
// case.
package fields

import (
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Values are the values of the fields that describe a decision.
type Values struct {
	rule             string
	limit, remaining int
	second           int64         // of Decision.At
	nanosecond       int           // of Decision.At; a time.Time has a pointer, which would put the decision on the heap
	wait             time.Duration // from Decision.At to Reset

	Retry int64 // Retry-After in seconds; 0 if there is none
}

// Of reports false if d enforced nothing.
func Of(d *core.Decision) (v Values, ok bool) {
	var t *core.Result
	if len(d.Results) == 1 && !d.Results[0].DryRun && d.Results[0].Limit.Algorithm != core.InFlight {
		t = &d.Results[0] // the common case, without a copy
	} else if tightest, ok := d.Tightest(); ok {
		t = &tightest
	} else {
		return v, false
	}
	v.rule, v.limit, v.remaining, v.wait = t.Rule, t.Quota(), t.Remaining, t.ResetAfter
	v.second, v.nanosecond = d.At.Unix(), d.At.Nanosecond()
	switch {
	case !t.Allowed && t.RetryAfter != core.Never:
		v.remaining, v.wait = 0, t.RetryAfter
		if wait := d.RetryAfter(); wait != core.Never { // an outer limiter may not admit the request again
			v.wait, v.Retry = wait, max(1, CeilSeconds(wait))
		}
		return v, true
	case !t.Allowed && !IsTooLarge(d):
		v.remaining = 0 // a cheaper request may fit, but a denial that is not 413 says 0
	}
	if v.remaining == 0 {
		v.wait = t.RefillAfter
	}
	return v, true
}

// IsTooLarge reports whether the cost exceeds all that an enforced limit can ever admit. Then the tightest limit is such a limit.
func IsTooLarge(d *core.Decision) bool {
	for i := range d.Results {
		if !d.Results[i].DryRun && d.IsTooLarge(i) {
			return true
		}
	}
	return false
}

// CeilSeconds returns d in seconds, rounded up.
func CeilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// Names are the names of the fields for limit, remaining, used, reset, rule and wait.
type Names [6]string

// A Format is a headers.ResetFormat.
type Format uint8

// The formats.
const (
	EpochSeconds Format = iota
	DeltaSeconds
	RFC3339
)

// Set runs on every response, so the texts of the numbers share one string, and the field values share one array. Each slice of
// the array has no spare capacity, so that appending to one value does not overwrite the next.
func (v *Values) Set(h map[string][]string, names *Names, format Format) {
	var digits [128]byte
	b := strconv.AppendInt(digits[:0], int64(v.limit), 10)
	limit := len(b)
	b = strconv.AppendInt(b, int64(v.remaining), 10)
	remaining := len(b)
	b = strconv.AppendInt(b, int64(v.limit-v.remaining), 10)
	used := len(b)
	b = v.appendReset(b, format)
	reset := len(b)
	n := len(names) - 1
	if v.Retry > 0 {
		b = strconv.AppendInt(b, v.Retry, 10)
		n++
	}
	text := string(b)
	values := make([]string, n)
	values[0], values[1], values[2], values[3] = text[:limit], text[limit:remaining], text[remaining:used], text[used:reset]
	values[4] = v.rule
	if v.Retry > 0 {
		values[5] = text[reset:]
	}
	for i := range values {
		h[names[i]] = values[i : i+1 : i+1]
	}
}

// appendReset appends the value of the reset.
func (v *Values) appendReset(b []byte, format Format) []byte {
	if format == DeltaSeconds {
		return strconv.AppendInt(b, CeilSeconds(v.wait), 10)
	}
	seconds := v.second + int64(v.wait/time.Second) + CeilSeconds(v.wait%time.Second+time.Duration(v.nanosecond))
	if format == RFC3339 {
		return time.Unix(seconds, 0).UTC().AppendFormat(b, time.RFC3339)
	}
	return strconv.AppendInt(b, seconds, 10)
}
