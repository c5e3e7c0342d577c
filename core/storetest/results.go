package storetest

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

var resultRows = []row{
	{"the waits of a token bucket are long enough", func(s *suite) { s.keepPromises("4/s") }},
	{"the waits of a fixed window are long enough", func(s *suite) { s.keepPromises("4/s;fixed-window") }},
	{"the waits of a sliding window are long enough", func(s *suite) { s.keepPromises("4/s;sliding-window;buckets=5") }},
	{"the waits of a sliding log are long enough", func(s *suite) { s.keepPromises("4/s;sliding-log") }},
	{"a burst is available again after its reset", func(s *suite) {
		c := claim("key", "10/s;burst=12", 12)
		r := s.take(c)[0]
		s.wait(r.ResetAfter)
		s.expect(words("yes 0"), c)
	}},
	{"a limit that allows is reported as allowed if another limit denies", func(s *suite) {
		s.expect(words("no 1", "yes 5"), claim("key", "1/d, 5/2d", 2))
	}},
	{"a wait of centuries is as long as a duration allows, not negative", func(s *suite) {
		c := core.Claim{Key: "key", Limits: []core.Limit{core.Every(1, 87600*time.Hour).WithBurst(1_000_000)}, Cost: 1_000_000}
		s.take(c)
		if r := s.take(c)[0]; r.Allowed || r.RetryAfter < 285*8760*time.Hour {
			s.Errorf("result is %+v", r)
		}
	}},
}

// keepPromises charges three keys of a limit of four per second and waits as their results say.
func (s *suite) keepPromises(limit string) {
	s.align(second)
	r := s.take(claim("refill", limit, 3), claim("retry", limit, 4), claim("reset", limit, 4))
	retry := s.take(peek(claim("retry", limit, 2)))[0].RetryAfter
	s.wait(r[0].RefillAfter)
	if left := s.take(peek(claim("refill", limit, 1)))[0].Remaining; left <= r[0].Remaining {
		s.Errorf("%d remain after the refill, and %d before", left, r[0].Remaining)
	}
	s.wait(retry - r[0].RefillAfter)
	if r := s.take(claim("retry", limit, 2))[0]; !r.Allowed {
		s.Errorf("denied after the retry: %+v", r)
	}
	s.wait(r[2].ResetAfter - retry)
	s.expect(words("yes 0"), claim("reset", limit, 4))
}
