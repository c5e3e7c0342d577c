package storetest

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

var refundRows = []row{
	{"a refund at once restores what was charged", forEach(allAlgorithms, func(s *suite, limit string) {
		charged := s.charge(claim(limit, limit, 3))
		s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
		s.settle(charged...)
		s.expect(words("yes 5"), peek(claim(limit, limit, 1)))
	})},
	{"a refund of a whole burst restores all of it", func(s *suite) {
		c := claim("key", "5/d;burst=20", 20)
		s.settle(s.charge(c)...)
		s.expect(words("yes 20"), peek(c))
	}},
	{"a refund gives back to all limits of all claims, and to no other keys", func(s *suite) {
		a, b, other := claim("a", together, 2), of("other", claim("b", together, 3)), claim("c", "5/d", 1)
		charged := s.charge(a, b, other)
		s.settle(charged[0], charged[1])
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5", "yes 5", "yes 5", "yes 5", "yes 5", "yes 4"), peek(a), peek(b), peek(other))
	}},
	{"a refund leaves the charges of others", forEach(allAlgorithms, func(s *suite, limit string) {
		c := claim(limit, limit, 2)
		charged := s.charge(c)
		s.take(claim(limit, limit, 1))
		s.settle(charged...)
		least := 4
		if limit == "5/d" { // of its two, a moment's worth may have drained
			least = 3
		}
		left := s.take(peek(c))[0].Remaining
		expect.True(s, left >= least && left <= 4, "%s: %d remain, want at least %d and at most 4", limit, left, least)
	})},
	{"a refund of the same pair twice gives back both", func(s *suite) {
		c := claim("key", "5/d", 2)
		s.settle(s.charge(c, c)...)
		s.expect(words("yes 5"), peek(c))
	}},
	{"a refund of a charge from before a reset gives back nothing; a later charge is given back", forEach(allAlgorithms, func(s *suite, limit string) {
		for _, key := range []string{limit, limit + " granted"} {
			c := claim(key, limit, 3)
			charged := s.charge(c)
			if key != limit {
				s.grant(c, 3)
			}
			s.wait(ms) // a store may take what was charged at the instant of the reset for charged after it, or before it
			s.reset(c.Rule, c.Key)
			s.wait(100 * ms) // a lease may count what it gives back as charged earlier by its length
			since := s.charge(claim(key, limit, 4))
			s.settle(charged...)
			s.expect(words("yes 1"), peek(claim(key, limit, 1)))
			s.settle(since...)
			s.expect(words("yes 5"), peek(claim(key, limit, 1)))
		}
	})},
	{"a refund at a rate of 0 changes nothing", forEach(allAlgorithms, func(s *suite, limit string) {
		s.take(claim(limit, limit, 3))
		none := claim(limit, "0"+limit[1:], 3)
		s.settle(settled([]core.Claim{none}, s.take(peek(none)))...)
		s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
	})},
	{"a refund of an unknown or forgotten key gives back nothing", func(s *suite) {
		c := claim("key", together, 3)
		charged := s.charge(c)
		s.reset("rule", "key")
		unknown := charged[0]
		unknown.Key = "unknown"
		s.settle(charged[0], unknown)
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5"), peek(c))
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5"), peek(claim("unknown", together, 1)))
	}},
	{"a refund after its window gives back nothing of the next", func(s *suite) {
		s.align(second)
		c := claim("key", "5/s;fixed-window", 3)
		charged := s.charge(c)
		s.advance(second)
		s.take(claim("key", "5/s;fixed-window", 2))
		s.settle(charged...)
		s.expect(words("yes 3"), peek(c))
	}},
	{"a refund of a charge that no longer counts gives back nothing", func(s *suite) {
		log, window := "5/s;sliding-log", "5/s;sliding-window;buckets=2"
		s.align(second)
		a, b := claim("key", log, 3), claim("key", window, 3)
		charged := s.charge(a, b)
		s.advance(1600 * ms)
		s.take(claim("key", log, 2), claim("key", window, 2))
		s.settle(charged...)
		s.expect(words("yes 3", "yes 3"), peek(a), peek(b))
	}},
	{"a refund does not give back what has drained", func(s *suite) {
		c := claim("key", "5/s", 3)
		charged := s.charge(c)
		s.advance(800 * ms)
		s.take(claim("key", "5/s", 4))
		s.settle(charged...)
		if r := s.take(peek(c))[0]; time.Duration(r.Remaining-1)*200*ms > s.late() {
			s.Errorf("%d remain, %v after 4 of 5 were charged", r.Remaining, s.late())
		}
	}},
	{"settling for less gives back the difference", forEach(allAlgorithms, func(s *suite, limit string) {
		s.end(s.charge(claim(limit, limit, 4))[0], 3)
		s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
	})},
	{"settling for what was charged changes nothing", forEach(allAlgorithms, func(s *suite, limit string) {
		s.end(s.charge(claim(limit, limit, 4))[0], 4)
		s.expect(words("yes 1"), peek(claim(limit, limit, 1)))
	})},
	{"an invalid settlement is ErrInvalid, and nothing is settled", func(s *suite) {
		charged := s.charge(claim("key", "5/d", 3))
		for name, bad := range map[string]core.Settlement{
			"no limits and no ban":  {Rule: "rule", Key: "bad"},
			"a negative cost":       {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(1)}, Cost: -1},
			"a negative final cost": {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(1)}, Final: -1},
			"a negative ban":        {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(1)}, Ban: -time.Hour},
			"no period":             {Rule: "rule", Key: "bad", Limits: []core.Limit{{Rate: 1}}},
		} {
			expect.ErrorIs(s, s.store.Settle(context.Background(), []core.Settlement{charged[0], bad}), core.ErrInvalid, "%s: error (one that is ErrInvalid)", name)
		}
		s.expect(words("yes 2"), peek(claim("key", "5/d", 1)))
	}},
	{"a reset forgets all limits and tiers of a key, and nothing else", func(s *suite) {
		mine, other, same := claim("key", together, 5), claim("other", together, 5), of("second", claim("key", together, 5))
		tier := claim("key", "10/3000d;fixed-window", 10)
		s.take(mine, other, same)
		s.take(tier)
		s.reset("rule", "key")
		s.reset("rule", "key")
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5", "yes 10"), peek(mine), peek(tier))
		s.expect(words("no 0", "no 0", "no 0", "no 0", "no 0", "no 0", "no 0", "no 0"), peek(other), peek(same))
	}},
	{"a reset of an empty rule resets the rule default", func(s *suite) {
		s.take(of("default", claim("key", "5/d", 5)))
		s.reset("", "key")
		s.expect(words("yes 0"), of("default", claim("key", "5/d", 5)))
	}},
}
