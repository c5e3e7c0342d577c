package storetest

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// counting are limits to which grants are added.
var counting = []string{"10/year;calendar", "10/1000d;fixed-window", "10/d;sliding-window", "10/d;sliding-log"}

// granted are all limits that grants change.
var granted = append([]string{"5/year;calendar", "5/year;tz=Asia/Tokyo"}, allAlgorithms...)

// ending are limits whose grants end after one period.
var ending = []string{"10/12s;sliding-window", "10/12s;sliding-log"}

var grantRows = []row{
	{"a grant adds requests to all limits, and a negative one takes them away", forEach(granted, func(s *suite, limit string) {
		c := claim(limit, limit, 3)
		s.take(c)
		s.grant(c, 2)
		s.expect(words("yes 4"), peek(claim(limit, limit, 1)))
		s.grant(c, -3)
		s.expect(words("yes 1"), peek(claim(limit, limit, 1)))
	})},
	{"a grant raises a limit, and leaves the usage and its reset as they are", forEach(counting, func(s *suite, limit string) {
		s.take(claim(limit, limit, 4))
		before := s.take(peek(claim(limit, limit, 1)))[0]
		s.grant(claim(limit, limit, 1), 8)
		r := s.take(peek(claim(limit, limit, 12)))[0]
		expect.True(s, r.Allowed && r.Remaining == 14 && r.Granted == 8 && r.Over == 0,
			"after 4 of %s and 8 granted, got %+v", limit, r)
		s.near(r.At.Add(r.ResetAfter).Sub(before.At), before.ResetAfter)
		s.near(r.At.Add(r.RefillAfter).Sub(before.At), before.ResetAfter)
	})},
	{"a negative grant below the usage shows as over", forEach(counting, func(s *suite, limit string) {
		s.take(claim(limit, limit, 4))
		s.grant(claim(limit, limit, 1), -8)
		if r := s.take(peek(claim(limit, limit, 1)))[0]; r.Allowed || r.Granted != -8 || r.Over != 2 || r.Remaining != 0 {
			s.Errorf("after 4 of %s and 8 taken away, got %+v", limit, r)
		}
	})},
	{"a cost above the rate is admitted if grants cover it, and otherwise never", forEach(counting, func(s *suite, limit string) {
		s.take(claim(limit, limit, 4))
		s.grant(claim(limit, limit, 1), 8)
		s.expect(words("no 14"), claim(limit, limit, 19))
		s.expect(words("yes 2"), claim(limit, limit, 12))
		for cost, want := range map[int]bool{10: false, 12: true, 19: true} {
			if r := s.take(peek(claim(limit, limit, cost)))[0]; r.Allowed || (r.RetryAfter == core.Never) != want {
				s.Errorf("a cost of %d, with 16 of 10 and 8 used of %s: got %+v", cost, limit, r)
			}
		}
	})},
	{"a refund of a cost above the rate gives back all of it", forEach(counting, func(s *suite, limit string) {
		s.grant(claim(limit, limit, 1), 8)
		charged := s.charge(claim(limit, limit, 13))
		for range 2 { // the second time gives back nothing more
			s.settle(charged...)
			s.expect(words("yes 18"), peek(claim(limit, limit, 1)))
		}
	})},
	{"a grant does not change what a refund gives back", func(s *suite) {
		for _, limit := range []string{"100/m", "100/1000d;fixed-window", "100/m;sliding-window", "100/m;sliding-log"} {
			with, without := claim("with "+limit, limit, 40), claim("without "+limit, limit, 40)
			s.take(with, without)
			with.Cost, without.Cost = 21, 21
			charged := s.charge(with, without)
			s.advance(4 * second)
			s.grant(with, 5)
			s.advance(second)
			s.settle(charged...)
			with.Cost, without.Cost = 1, 1
			if r := s.take(peek(with), peek(without)); s.sure(r[0].Limit) && r[0].Remaining != r[1].Remaining+5 {
				s.Errorf("%s: %d remain, and %d without a grant of 5", limit, r[0].Remaining, r[1].Remaining)
			}
		}
	}},
	{"each grant of a log or a sliding window ends after one period", forEach(ending, func(s *suite, limit string) {
		c := claim(limit, limit, 1)
		s.take(peek(c)) // from when time counts
		s.grant(c, 1000)
		s.advance(4 * second)
		s.grant(c, 5)
		s.advance(4 * second)
		s.grant(c, -2)
		s.take(claim(limit, limit, 500))
		for i, want := range []int{1003, 3, -2, 0} {
			if r := s.take(peek(c))[0]; r.Granted != want && s.sure(r.Limit) {
				s.Errorf("%s, step %d after a grant of 1000, then 5, then -2: %d granted, want %d", limit, i, r.Granted, want)
			}
			s.advance(4200 * ms)
		}
	})},
	{"a wait ends with a negative grant, and lasts longer if a grant ends before it", forEach(ending, func(s *suite, limit string) {
		c := claim(limit, limit, 8)
		s.grant(c, -5)
		taken := s.take(peek(c))[0]
		expect.True(s, taken.RetryAfter <= 12*second && taken.RetryAfter >= 11*second-s.slack,
			"%s: wait of %v for the end of a grant", limit, taken.RetryAfter)
		s.wait(taken.RetryAfter)
		s.expect(words("yes 2"), c)
		s.grant(c, 6) // ends before what was charged does, or with it
		if r := s.take(peek(claim(limit, limit, 10)))[0]; r.Allowed || r.RetryAfter < 6*second && s.sure(r.Limit) {
			s.Errorf("%s: a cost of 10 with 8 of 8 left: %+v", limit, r)
		}
	})},
	{"a wait takes into account when grants end", func(s *suite) {
		c := claim("key", "10/10s;sliding-log", 10)
		s.take(c)
		s.wait(4 * second)
		s.grant(c, 8)
		for cost, want := range map[int]time.Duration{8: 0, 9: 6 * second, 18: 6 * second, 19: never} {
			s.near(s.take(peek(claim("key", "10/10s;sliding-log", cost)))[0].RetryAfter, want)
		}
	}},
	{"a bucket is granted no more than was used", func(s *suite) {
		s.take(claim("key", "100/d", 60))
		s.grant(claim("key", "100/d", 1), 70)
		s.expect(words("yes 100"), peek(claim("key", "100/d", 1)))
		s.grant(claim("key", "100/d", 1), -130)
		r := s.take(peek(claim("key", "100/d", 1)))[0]
		expect.True(s, !r.Allowed && r.RetryAfter > 0, "after more was taken away than there is: %+v", r)
	}},
	{"a grant shortens no ban", func(s *suite) {
		used, banned := claim("used", "5/10m;ban=1h", 5), claim("banned", "5/10m;ban=1h", 5)
		s.take(used)
		s.settle(core.Settlement{Rule: "rule", Key: "banned", Ban: time.Hour})
		s.grant(used, 5)
		s.grant(banned, 5)
		used.Cost, banned.Cost = 1, 1
		for _, r := range s.take(peek(used), peek(banned)) {
			s.near(r.RetryAfter, time.Hour)
		}
	}},
	{"a negative grant begins no ban", func(s *suite) {
		c := claim("key", "5/10m;ban=1h", 1)
		s.grant(c, -5)
		if r := s.take(peek(c))[0]; r.Allowed || r.RetryAfter > 10*minute {
			s.Errorf("after all was taken away: %+v, want a wait until one request has drained", r)
		}
	}},
	{"a log is granted no more than it can hold", func(s *suite) {
		c := claim("key", "1000/h;sliding-log", 1)
		grant := core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: 9000}
		s.settle(grant)
		grant.Grant = 1
		used := claim("key", "9/h", 9)
		s.take(used)
		both := []core.Settlement{{Rule: used.Rule, Key: used.Key, Limits: used.Limits, Grant: 1}, grant}
		expect.ErrorIs(s, s.store.Settle(context.Background(), both), core.ErrInvalid, "error (one that is ErrInvalid)")
		s.expect(words("no 0"), peek(claim("key", "9/h", 1)))
		s.expect(words("yes 0"), claim("key", "1000/h;sliding-log", 10_000))
	}},
}

func (s *suite) grant(c core.Claim, n int) {
	s.Helper()
	s.settle(core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: n})
}
