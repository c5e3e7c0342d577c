package storetest

import (
	"context"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

func hold(c core.Claim) core.Claim {
	c.Hold = true
	return c
}

// end settles what was held at its final cost.
func (s *suite) end(held core.Settlement, final int) {
	s.Helper()
	held.Final = final
	s.settle(held)
}

var holdRows = []row{
	{"a hold counts like a charge, and leaves nothing when it is settled at 0", func(s *suite) {
		for _, limit := range allAlgorithms {
			held := s.charge(hold(claim(limit, limit, 3)))
			s.expect(words("no 2"), claim(limit, limit, 3))
			s.expect(words("yes 0"), hold(claim(limit, limit, 2)))
			s.end(held[0], 0)
			s.expect(words("yes 3"), peek(claim(limit, limit, 3)))
		}
	}},
	{"a hold does not drain, and its final cost is charged when it is settled", func(s *suite) {
		held := s.charge(hold(claim("key", "2/s", 2)))
		s.advance(600 * ms)
		s.expect(words("no 0"), peek(claim("key", "2/s", 1)))
		s.end(held[0], 2)
		s.expect(words("no 0"), peek(claim("key", "2/s", 1)))
		s.wait(500 * ms)
		s.expect(words("yes 0"), claim("key", "2/s", 1))
	}},
	{"a hold counts against all limits of its claim", func(s *suite) {
		held := s.charge(hold(claim("key", together, 2)))
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3"), peek(claim("key", together, 1)))
		s.end(held[0], 1)
		s.expect(words("yes 4", "yes 4", "yes 4", "yes 4"), peek(claim("key", together, 1)))
	}},
	{"a final cost is charged even if it does not fit", func(s *suite) {
		var held []core.Settlement
		for range 5 {
			held = append(held, s.charge(hold(claim("key", "100/m", 1)))...)
		}
		for i, final := range []int{58, 80, 175, 175, 175} {
			s.end(held[i], final)
		}
		r := s.take(claim("key", "100/m", 1))[0]
		if want := 338400 * ms; r.Allowed || r.RetryAfter > want || r.RetryAfter < want-s.slack {
			s.Errorf("after 663 of 100 a minute: %+v, want a wait of %v", r, want)
		}
	}},
	{"a hold that crosses the turn of a window is charged to the next one", func(s *suite) {
		s.align(second)
		held := s.charge(hold(claim("key", "5/s;fixed-window", 1)))
		s.advance(1100 * ms)
		s.end(held[0], 1)
		s.expect(words("yes 3"), claim("key", "5/s;fixed-window", 1))
	}},
	{"a request that fits but for holds gets a RetryAfter of a second", func(s *suite) {
		for _, limit := range allAlgorithms {
			s.take(hold(claim(limit, limit, 5)))
			if r := s.take(claim(limit, limit, 1))[0]; r.Allowed || r.RetryAfter != second || r.RefillAfter != second || r.ResetAfter != second {
				s.Errorf("%s: %+v, want waits of 1s", limit, r)
			}
		}
	}},
	{"an in-flight limit counts requests, whatever they cost", func(s *suite) {
		limits := "2 at once, 50/d"
		a := s.charge(hold(claim("key", limits, 20)))
		s.take(hold(claim("key", limits, 20)))
		r := s.take(hold(claim("key", limits, 1)))
		if r[0].Allowed || r[0].Remaining != 0 || r[0].RetryAfter != second || !r[1].Allowed || r[1].Remaining != 10 {
			s.Errorf("a third in flight: %+v", r)
		}
		s.end(a[0], 1)
		s.expect(words("yes 0", "yes 24"), hold(claim("key", limits, 5)))
		s.expect(words("no 0"), hold(claim("none", "0 at once", 1)))
	}},
	{"of many concurrent holds, exactly the limit is in flight", func(s *suite) {
		if n := s.storm(func() []core.Claim { return []core.Claim{hold(claim("key", "70 at once", 1))} }); n != rate {
			s.Errorf("%d in flight", n)
		}
	}},
	{"concurrent takes and settlements at 0 leave nothing charged", func(s *suite) {
		s.each(func() {
			claims := []core.Claim{hold(claim("key", "1000/d, 1000 at once", 3))}
			results, err := s.store.Take(context.Background(), claims, nil)
			if err == nil {
				err = s.store.Settle(context.Background(), settled(claims, results))
			}
			if err != nil {
				s.Error(err)
			}
		})
		s.expect(words("yes 1000", "yes 1000"), peek(claim("key", "1000/d, 1000 at once", 3)))
	}},
	{"each settlement releases one hold, of its own pair", func(s *suite) {
		a, b := hold(claim("a", "5 at once", 1)), hold(claim("b", "5 at once", 1))
		held := s.charge(a, b)
		s.end(held[0], 0)
		s.expect(words("yes 5", "yes 4"), peek(a), peek(b))
	}},
	{"a renewal keeps a hold and returns its new instant", func(s *suite) {
		held := s.charge(hold(claim("key", "2 at once", 1)))
		s.wait(100 * ms)
		renewed := held[0]
		renewed.Renew = true
		renewals := []core.Settlement{renewed}
		s.settle(renewals...)
		if passed := renewals[0].At.Sub(held[0].At); passed < 100*ms {
			s.Errorf("renewed %v after the hold", passed)
		}
		s.expect(words("yes 1"), peek(claim("key", "2 at once", 1)))
		renewals[0].Renew = false
		s.end(renewals[0], 0)
		s.expect(words("yes 2"), peek(claim("key", "2 at once", 1)))
	}},
	{"a denied hold holds nothing, nor does a peek", func(s *suite) {
		s.take(hold(claim("key", "5/d", 6)), hold(claim("other", "3 at once", 1)))
		s.take(peek(hold(claim("key", "5/d", 5))))
		s.expect(words("yes 5", "yes 3"), peek(claim("key", "5/d", 1)), peek(claim("other", "3 at once", 1)))
	}},
	{"a dry run holds, and is settled above what it held only if that fits", func(s *suite) {
		for i, row := range []struct {
			used, final int
			left        string
		}{{0, 5, "0"}, {2, 5, "2"}, {2, 3, "0"}} {
			key := strconv.Itoa(i)
			s.take(claim(key, "5/1000d;fixed-window", max(1, row.used)))
			if row.used == 0 {
				s.reset("rule", key)
			}
			held := s.charge(dryRun(hold(claim(key, "5/1000d;fixed-window", 1))))
			s.end(held[0], row.final)
			if r := s.take(peek(claim(key, "5/1000d;fixed-window", 1)))[0]; strconv.Itoa(r.Remaining) != row.left {
				s.Errorf("%d used, settled at %d: %d remain, want %s", row.used, row.final, r.Remaining, row.left)
			}
		}
	}},
	{"a settlement above the charge charges the difference", func(s *suite) {
		for _, limit := range allAlgorithms {
			charged := s.charge(claim(limit, limit, 1))
			s.end(charged[0], 4)
			s.expect(words("yes 1"), peek(claim(limit, limit, 1)))
			charged = s.charge(claim(limit, limit, 1))
			s.end(charged[0], 9)
			s.expect(words("no 0"), peek(claim(limit, limit, 1)))
		}
	}},
}

var banRows = []row{
	{"a ban lasts for its duration, under every limit", func(s *suite) {
		s.now()
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: minute})
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: 100 * ms})
		for _, r := range s.take(claim("key", together+", 3 at once", 1)) {
			if r.Allowed || r.Remaining != 0 || r.RetryAfter > minute || r.RetryAfter < minute-s.late() || r.ResetAfter < r.RetryAfter {
				s.Errorf("%+v, want a wait of 1m", r)
			}
		}
		s.expect(words("yes 4"), claim("other", "5/d", 1))
		s.wait(minute)
		s.expect(words("yes 4"), claim("key", "5/d", 1))
	}},
	{"a reset lifts a ban, and leaves what is held", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d", 2)))
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: time.Hour})
		s.reset("rule", "key")
		s.expect(words("yes 2"), claim("key", "5/d", 1))
		s.end(held[0], 0)
		s.expect(words("yes 4"), peek(claim("key", "5/d", 1)))
	}},
	{"a charge that uses up a limit with a ban is followed by a ban that long", func(s *suite) {
		s.take(claim("key", "4/s;ban=1s", 4))
		for range 3 { // denials change nothing
			s.take(claim("key", "4/s;ban=1s", 1))
		}
		r := s.take(claim("key", "4/s;ban=1s", 1))[0]
		s.near(r.RetryAfter, second)
		s.wait(r.RetryAfter)
		s.expect(words("yes 0"), claim("key", "4/s;ban=1s", 1))
	}},
	{"the ban of a limit does not deny another tier, and stays", func(s *suite) {
		s.take(claim("key", "5/10m;ban=1h", 5))
		s.expect(words("yes 94"), claim("key", "100/10m", 1))
		if r := s.take(peek(claim("key", "5/10m;ban=1h", 1)))[0]; r.Allowed || r.RetryAfter > time.Hour || r.RetryAfter < 50*minute {
			s.Errorf("%+v, want a ban of 1h", r)
		}
	}},
	{"a hold begins no ban, and its final cost does", func(s *suite) {
		held := s.charge(hold(claim("key", "2/h;ban=10h", 2)))
		s.end(held[0], 0)
		s.expect(words("yes 2"), peek(claim("key", "2/h;ban=10h", 1)))
		held = s.charge(hold(claim("key", "2/h;ban=10h", 2)))
		s.end(held[0], 2)
		if r := s.take(claim("key", "2/h;ban=10h", 1))[0]; r.Allowed || r.RetryAfter < 9*time.Hour {
			s.Errorf("%+v, want a ban of 10h", r)
		}
	}},
}
