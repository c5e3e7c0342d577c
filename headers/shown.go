package headers

import (
	"net/http"
	"strconv"
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
	if s.retry = retryAfter(t); s.retry > 0 {
		s.remaining, s.wait = 0, t.RetryAfter
	} else if s.remaining == 0 {
		s.wait = t.RefillAfter
	}
	return s, true
}

// retryAfter returns the seconds of Retry-After; 0 if t is allowed or waiting cannot help.
func retryAfter(t *core.Result) int64 {
	if t.Allowed || t.RetryAfter == core.Never {
		return 0
	}
	return max(1, ceilSeconds(t.RetryAfter))
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

// set makes two allocations, since it runs on every response: the values share one string, and their slices one array.
// Each slice is full, so that appending to it leaves its neighbour alone.
func (s *shown) set(h http.Header, names *fieldNames, format ResetFormat) {
	var buffer [96]byte
	var ends [4]int
	b := buffer[:0]
	for i, n := range [...]int{s.limit, s.remaining, s.limit - s.remaining} {
		b = strconv.AppendInt(b, int64(n), 10)
		ends[i] = len(b)
	}
	b = s.appendReset(b, format)
	ends[3] = len(b)
	if s.retry > 0 {
		b = strconv.AppendInt(b, s.retry, 10)
	}

	text, start := string(b), 0
	values := make([]string, 6)
	for i, end := range ends {
		values[i] = text[start:end]
		start = end
	}
	values[4], values[5] = s.rule, text[start:]
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
	if s.retry > 0 {
		h["Retry-After"] = values[5:6:6]
	}
}

func (s *shown) appendReset(b []byte, format ResetFormat) []byte {
	if format == DeltaSeconds {
		return strconv.AppendInt(b, ceilSeconds(s.wait), 10)
	}
	instant := s.at.Add(s.wait)
	seconds := instant.Unix()
	if instant.Nanosecond() > 0 {
		seconds++
	}
	if format == RFC3339 {
		return time.Unix(seconds, 0).UTC().AppendFormat(b, time.RFC3339)
	}
	return strconv.AppendInt(b, seconds, 10)
}
