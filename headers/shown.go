package headers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// shown has the values that GitHub and Custom write.
type shown struct {
	rule             string
	limit, remaining int
	second           int64         // of Decision.At
	nanosecond       int           // of Decision.At; a time.Time has a pointer, which would put the decision on the heap
	wait             time.Duration // from Decision.At to Reset
	retry            int64         // Retry-After in seconds; 0 if there is none
}

// show reports false if d enforced nothing.
func show(d *core.Decision) (s shown, ok bool) {
	var t *core.Result
	if len(d.Results) == 1 && !d.Results[0].DryRun && d.Results[0].Limit.Algorithm != core.InFlight {
		t = &d.Results[0] // the common case, without a copy
	} else if tightest, ok := d.Tightest(); ok {
		t = &tightest
	} else {
		return s, false
	}
	s.rule, s.limit, s.remaining, s.wait = t.Rule, t.Quota(), t.Remaining, t.ResetAfter
	s.second, s.nanosecond = d.At.Unix(), d.At.Nanosecond()
	if !t.Allowed && t.RetryAfter != core.Never {
		s.remaining, s.wait = 0, d.RetryAfter()
		s.retry = max(1, ceilSeconds(s.wait))
	} else if s.remaining == 0 {
		s.wait = t.RefillAfter
	}
	return s, true
}

func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// fieldNames are the names, in canonical form, for limit, remaining, used, reset and rule.
type fieldNames [5]string

// set runs on every response, so the texts of the numbers share one string, and the header values share one array. Each
// slice of the array has no spare capacity, so that appending to one value does not overwrite the next.
func (s *shown) set(h http.Header, names *fieldNames, format ResetFormat) {
	var digits [128]byte
	b := strconv.AppendInt(digits[:0], int64(s.limit), 10)
	limit := len(b)
	b = strconv.AppendInt(b, int64(s.remaining), 10)
	remaining := len(b)
	b = strconv.AppendInt(b, int64(s.limit-s.remaining), 10)
	used := len(b)
	b = s.appendReset(b, format)
	reset := len(b)
	n := len(names)
	if s.retry > 0 {
		b = strconv.AppendInt(b, s.retry, 10)
		n++
	}
	text := string(b)
	values := make([]string, n)
	values[0], values[1], values[2], values[3] = text[:limit], text[limit:remaining], text[remaining:used], text[used:reset]
	values[4] = s.rule
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
	if s.retry > 0 {
		values[5] = text[reset:]
		h["Retry-After"] = values[5:]
	}
}

// appendReset appends the value of Reset.
func (s *shown) appendReset(b []byte, format ResetFormat) []byte {
	if format == DeltaSeconds {
		return strconv.AppendInt(b, ceilSeconds(s.wait), 10)
	}
	instant := time.Unix(s.second, int64(s.nanosecond)).Add(s.wait)
	seconds := instant.Unix()
	if instant.Nanosecond() > 0 {
		seconds++
	}
	if format == RFC3339 {
		return time.Unix(seconds, 0).UTC().AppendFormat(b, time.RFC3339)
	}
	return strconv.AppendInt(b, seconds, 10)
}
