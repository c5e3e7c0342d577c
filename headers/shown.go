package headers

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// shown is what GitHub and Custom show of a decision.
type shown struct {
	rule             string
	limit, remaining int
	at               time.Time
	wait             time.Duration // from at to Reset
	retry            int64         // Retry-After in seconds; 0 if there is none
}

// show reports false if d enforced nothing.
func show(d *core.Decision) (s shown, ok bool) {
	var t *core.Result
	if len(d.Results) == 1 && !d.Results[0].DryRun {
		t = &d.Results[0] // without a copy, as nearly always
	} else if tightest, ok := d.Tightest(); ok {
		t = &tightest
	} else {
		return s, false
	}
	s.rule, s.limit, s.remaining, s.at, s.wait = t.Rule, t.Limit.Capacity(), t.Remaining, d.At, t.ResetAfter
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

// set runs on every response, so its values share one array. Each slice is full, so that appending to it leaves its
// neighbour alone.
func (s *shown) set(h http.Header, names *fieldNames, format ResetFormat) {
	remaining, used := twoNumbers(int64(s.remaining), int64(s.limit-s.remaining))
	n := len(names)
	if s.retry > 0 {
		n++
	}
	values := make([]string, n)
	values[0], values[1], values[2], values[3], values[4] = number(int64(s.limit)), remaining, used, s.reset(format), s.rule
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
	if s.retry > 0 {
		values[n-1] = number(s.retry)
		h["Retry-After"] = values[n-1:]
	}
}

// reset returns the value of Reset.
func (s *shown) reset(format ResetFormat) string {
	if format == DeltaSeconds {
		return number(ceilSeconds(s.wait))
	}
	instant := s.at.Add(s.wait)
	seconds := instant.Unix()
	if instant.Nanosecond() > 0 {
		seconds++
	}
	if format == RFC3339 {
		return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	return number(seconds)
}
