package storetest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

func hold(c core.Claim) core.Claim {
	c.Hold = true
	return c
}

// end settles what was held or charged at its final cost.
func (s *suite) end(held core.Settlement, final int) {
	s.Helper()
	held.Final = final
	s.settle(held)
}

var holdRows = []row{
	{"a hold counts like a charge, and leaves nothing when it is settled at 0", forEach(allAlgorithms, func(s *suite, limit string) {
		held := s.charge(hold(claim(limit, limit, 3)))
		s.expect(words("no 2"), claim(limit, limit, 3))
		s.expect(words("yes 0"), hold(claim(limit, limit, 2)))
		s.end(held[0], 0)
		s.expect(words("yes 3"), peek(claim(limit, limit, 3)))
	})},
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
	{"a request that fits but for holds gets a RetryAfter of a second", forEach(allAlgorithms, func(s *suite, limit string) {
		s.take(hold(claim(limit, limit, 5)))
		if r := s.take(claim(limit, limit, 1))[0]; r.Allowed || r.RetryAfter != second || r.RefillAfter != second || r.ResetAfter != second {
			s.Errorf("%s: %+v, want waits of 1s", limit, r)
		}
	})},
	{"an in-flight limit counts requests, whatever they cost", func(s *suite) {
		limits := "2 at once, 50/d"
		a := s.charge(hold(claim("key", limits, 20)))
		s.take(hold(claim("key", limits, 20)))
		r := s.take(hold(claim("key", limits, 1)))
		expect.True(s, !r[0].Allowed && r[0].Remaining == 0 && r[0].RetryAfter == second && r[1].Allowed && r[1].Remaining == 10,
			"a third in flight: %+v", r)
		s.end(a[0], 1)
		s.expect(words("yes 0", "yes 24"), hold(claim("key", limits, 5)))
		s.expect(words("no 0"), hold(claim("none", "0 at once", 1)))
	}},
	{"of many concurrent holds, exactly the limit is in flight", func(s *suite) {
		n := s.storm(func() []core.Claim { return []core.Claim{hold(claim("key", "70 at once", 1))} })
		expect.Equal(s, n, rate, "in flight")
	}},
	{"concurrent takes and settlements at 0 leave nothing charged", func(s *suite) {
		c := claim("key", "1000/d, 1000 at once", 3)
		s.giveBack(hold(c))
		s.expect(words("yes 1000", "yes 1000"), peek(c))
	}},
	{"each settlement releases one hold, of its own pair", func(s *suite) {
		a, b := hold(claim("a", "5 at once", 1)), hold(claim("b", "5 at once", 1))
		s.end(s.charge(a, b)[0], 0)
		s.expect(words("yes 5", "yes 4"), peek(a), peek(b))
	}},
	{"a renewal keeps a hold and returns its new instant", func(s *suite) {
		held := s.charge(hold(claim("key", "2 at once", 1)))
		s.wait(100 * ms)
		renewed := held[0]
		renewed.Renew = true
		renewals := []core.Settlement{renewed}
		s.settle(renewals...)
		expect.AtLeast(s, renewals[0].At.Sub(held[0].At), 100*ms, "renewed after the hold")
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
			s.end(s.charge(dryRun(hold(claim(key, "5/1000d;fixed-window", 1))))[0], row.final)
			if r := s.take(peek(claim(key, "5/1000d;fixed-window", 1)))[0]; strconv.Itoa(r.Remaining) != row.left {
				s.Errorf("%d used, settled at %d: %d remain, want %s", row.used, row.final, r.Remaining, row.left)
			}
		}
	}},
	{"a settlement above the charge charges the difference", forEach(allAlgorithms, func(s *suite, limit string) {
		s.end(s.charge(claim(limit, limit, 1))[0], 4)
		s.expect(words("yes 1"), peek(claim(limit, limit, 1)))
		s.end(s.charge(claim(limit, limit, 1))[0], 9)
		s.expect(words("no 0"), peek(claim(limit, limit, 1)))
	})},
}

var banRows = []row{
	{"a ban lasts for its duration, under every limit", func(s *suite) {
		s.now()
		s.take(claim("key", together, 2))
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: minute})
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: 100 * ms})
		for _, r := range s.take(claim("key", together+", 3 at once", 1)) {
			if r.Allowed || r.Remaining != 0 || r.RetryAfter > minute || r.RetryAfter < minute-s.late() || r.RefillAfter != r.RetryAfter || r.ResetAfter < r.RetryAfter {
				s.Errorf("%+v, want a wait of 1m for one request", r)
			}
		}
		if r := s.take(claim("key", "0/d", 1))[0]; r.RetryAfter != core.Never || r.RefillAfter != 0 || r.ResetAfter != 0 {
			s.Errorf("%+v, want a rate of 0 that never recovers", r)
		}
		s.expect(words("yes 4"), claim("other", "5/d", 1))
		s.wait(minute)
		s.expect(words("yes 2"), claim("key", "5/d", 1))
	}},
	{"a reset lifts a ban of a key or a limit, and leaves what is held", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d", 2)))
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: time.Hour})
		used := claim("used", "2/h;ban=10h", 2)
		s.take(used)
		s.reset("rule", "key")
		s.reset("rule", "used")
		s.expect(words("yes 2", "yes 0"), claim("key", "5/d", 1), used)
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
		r := s.take(peek(claim("key", "5/10m;ban=1h", 1)))[0]
		expect.True(s, !r.Allowed && r.RetryAfter <= time.Hour && r.RetryAfter >= 50*minute, "%+v, want a ban of 1h", r)
	}},
	{"a charge during a ban does not restart it", func(s *suite) {
		c := claim("key", "5/s;ban=1h", 1)
		one, other := s.charge(hold(c))[0], s.charge(hold(c))[0]
		s.end(one, 5)
		before := s.take(peek(c))[0]
		s.wait(3 * second)
		s.end(other, 1)
		r := s.take(peek(c))[0]
		later := r.At.Add(r.RetryAfter).Sub(before.At.Add(before.RetryAfter))
		expect.True(s, before.RetryAfter > 59*minute && later < 2*second, "%+v, then %+v, want a ban that ends %v later", before, r, later)
	}},
	{"a hold begins no ban, and its final cost does", func(s *suite) {
		held := s.charge(hold(claim("key", "2/h;ban=10h", 2)))
		s.end(held[0], 0)
		s.expect(words("yes 2"), peek(claim("key", "2/h;ban=10h", 1)))
		held = s.charge(hold(claim("key", "2/h;ban=10h", 2)))
		s.end(held[0], 2)
		r := s.take(claim("key", "2/h;ban=10h", 1))[0]
		expect.True(s, !r.Allowed && r.RetryAfter >= 9*time.Hour, "%+v, want a ban of 10h", r)
	}},
}

// waiting lets a claim wait for its turn.
func waiting(c core.Claim, most time.Duration) core.Claim {
	c.MaxWait = most
	return c
}

// turn returns when a request with this result may go on.
func turn(r core.Result) time.Time { return r.At.Add(r.Wait) }

// expectTurns takes a claim again and again, and checks that each request is admitted and how long after first its turn is.
func (s *suite) expectTurns(first time.Time, c core.Claim, want ...time.Duration) {
	s.Helper()
	for i, w := range want {
		if r := s.take(c)[0]; (!r.Allowed || turn(r).Sub(first) != w) && s.sure(r.Limit) {
			s.Errorf("request %d of %v: %+v, want its turn %v after %v", i+1, c, r, w, first)
		}
	}
}

// slow is a request of which one fits every ten seconds.
func slow(key string, most time.Duration) core.Claim {
	return waiting(claim(key, "6/m;burst=1", 1), most)
}

var waitRows = []row{
	{"a request that may wait gets the next turn, and is denied if the turn is too late", func(s *suite) {
		c := slow("key", 25*second)
		first := s.take(c)[0]
		expect.Equal(s, first.Wait, 0, "the first request: %+v", first)
		s.expectTurns(first.At, c, 10*second, 20*second)
		for range 3 {
			if r := s.take(c)[0]; r.Allowed || r.At.Add(r.RetryAfter).Sub(first.At) != 5*second {
				s.Errorf("%+v, want that the same request waits from 5s on", r)
			}
		}
		s.advance(5 * second)
		s.expectTurns(first.At, c, 30*second)
		if r := s.take(claim("key", "6/m;burst=1", 1))[0]; r.Allowed || r.At.Add(r.RetryAfter).Sub(first.At) != 40*second {
			s.Errorf("%+v, want that a request that must not wait fits after 40s", r)
		}
	}},
	{"a peek beside a claim that waits denies by its own limit, and charges and holds nothing", func(s *suite) {
		c, other := slow("key", minute), claim("other", "1/h", 1)
		first := s.take(c)[0]
		other.Peek = true
		results := s.take(c, other)
		expect.True(s, results[0].Allowed && turn(results[0]).Sub(first.At) == 10*second && results[1].Allowed && results[1].Remaining == 1,
			"%+v, want the second turn and nothing charged to the peek", results)
		held := other
		held.Peek, held.Hold = false, true
		r := s.take(held)[0]
		expect.True(s, r.Allowed, "%+v, want that the peek holds nothing", r)
		results = s.take(c, other)
		expect.True(s, !results[1].Allowed, "%+v, want a denial by the peek", results)
		s.expectTurns(first.At, c, 20*second)
	}},
	{"a burst does not wait, and a cost above it is never admitted", func(s *suite) {
		c := waiting(claim("key", "6/m;burst=3", 3), minute)
		first := s.take(c)[0]
		s.expectTurns(first.At, c, 30*second)
		c.Cost = 4
		r := s.take(c)[0]
		expect.True(s, !r.Allowed && r.RetryAfter == never, "a cost above the capacity: %+v", r)
	}},
	{"each limit of a claim has a turn of its own", func(s *suite) {
		c := waiting(claim("key", "6/m;burst=1, 180/h;burst=1", 1), minute)
		first := s.take(c)[0].At
		for i, r := range s.take(c) {
			want := []time.Duration{10 * second, 20 * second}[i]
			expect.True(s, r.Allowed && turn(r).Sub(first) == want, "limit %d: %+v, want a turn after %v", i+1, r, want)
		}
		s.settle(settled([]core.Claim{c}, s.take(c))...)
		s.expectTurns(first, c, 20*second)
	}},
	{"a request that another claim denies books nothing", func(s *suite) {
		c, tight := slow("key", minute), claim("tight", "1/d", 1)
		first := s.take(c, tight)[0].At
		s.take(c, tight)
		s.take(tight, c)
		s.expectTurns(first, c, 10*second)
	}},
	{"a peek says when the turn would be, and books nothing", func(s *suite) {
		c := slow("key", minute)
		first := s.take(c)[0].At
		s.expectTurns(first, peek(c), 10*second, 10*second)
		s.expectTurns(first, c, 10*second)
	}},
	{"a dry run books its turn", func(s *suite) {
		c := dryRun(slow("key", 15*second))
		first := s.take(c)[0].At
		s.expectTurns(first, c, 10*second)
		r := s.take(c)[0]
		expect.True(s, !r.Allowed && r.At.Add(r.RetryAfter).Sub(first) == 5*second, "%+v, want a retry after 5s", r)
	}},
	{"the last turn is free once it is given back; other turns are not", func(s *suite) {
		c := slow("key", minute)
		first := s.take(c)[0].At
		var booked []core.Settlement
		for range 3 {
			booked = append(booked, s.charge(c)...)
		}
		s.settle(booked[0])
		s.expectTurns(first, peek(c), 40*second)
		s.settle(booked[2])
		s.expectTurns(first, c, 30*second)
	}},
	{"a request that did not wait gives nothing back while others wait behind it", func(s *suite) {
		c := slow("key", minute)
		charged := s.charge(c)
		first := charged[0].At
		s.expectTurns(first, c, 10*second)
		s.settle(charged...)
		s.expectTurns(first, c, 20*second)
	}},
	{"a turn can be given back after it has come", func(s *suite) {
		c := waiting(claim("key", "6/m;burst=2", 2), minute)
		s.take(c)
		booked := s.charge(c)
		s.advance(21 * second)
		s.expect(words("no 0"), peek(claim("key", "6/m;burst=2", 1)))
		s.settle(booked...)
		s.expect(words("yes 1"), claim("key", "6/m;burst=2", 1))
	}},
	{"requests wait for the end of a ban, and then proceed one by one", func(s *suite) {
		s.now()
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: 30 * second})
		denied := s.take(slow("key", 20*second))[0]
		expect.True(s, !denied.Allowed && denied.RetryAfter <= 10*second && denied.RetryAfter >= 10*second-s.late(),
			"%+v, want a wait of 10s until the ban ends soon enough", denied)
		ends := denied.At.Add(denied.RetryAfter + 20*second)
		s.expectTurns(ends, slow("key", 2*minute), 0, 10*second, 20*second)
	}},
	{"a refund gives back nothing while others may wait for the end of a ban", func(s *suite) {
		c := waiting(claim("key", "6/m;burst=2", 2), minute)
		charged := s.charge(c)
		first := charged[0].At
		s.advance(5 * second)
		s.settle(core.Settlement{Rule: "rule", Key: "key", Ban: 10 * second})
		c.Cost = 1
		s.take(c) // for the end of the ban
		s.advance(6 * second)
		s.settle(charged...)
		c.Cost = 2
		s.expectTurns(first, peek(c), 30*second)
	}},
	{"no request waits for the holds of others", func(s *suite) {
		s.take(hold(claim("key", "6/m;burst=1", 1)))
		r := s.take(slow("key", minute))[0]
		expect.True(s, !r.Allowed && r.RetryAfter == second, "%+v, want a denial for a second", r)
	}},
	{"a reset frees all turns", func(s *suite) {
		c := slow("key", minute)
		s.take(c)
		booked := s.charge(c)
		s.advance(10 * ms)
		s.reset("rule", "key")
		s.advance(10 * ms)
		r := s.take(c)[0]
		expect.Equal(s, r.Wait, 0, "after the reset: %+v", r)
		s.settle(booked...)
		r = s.take(c)[0]
		expect.AtLeast(s, r.Wait, 5*second, "a turn from before the reset was given back: %+v", r)
	}},
	{"many concurrent requests get one turn each", func(s *suite) {
		c := waiting(claim("key", "10/s;burst=1", 1), time.Hour)
		var mu sync.Mutex
		var turns []time.Time
		s.each(func() {
			results, err := s.store.Take(context.Background(), []core.Claim{c}, nil)
			if err != nil || !results[0].Allowed {
				s.Errorf("%+v, %v", results, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			turns = append(turns, turn(results[0]))
		})
		slices.SortFunc(turns, time.Time.Compare)
		for i := 1; i < len(turns); i++ {
			expect.AtLeast(s, turns[i].Sub(turns[i-1]), 100*ms, "turns %d and %d are apart", i, i+1)
		}
	}},
	{"a claim that cannot wait is ErrInvalid", func(s *suite) {
		held, leased := hold(slow("key", second)), slow("key", second)
		leased.Lease = second
		for why, c := range map[string]core.Claim{
			"negative": slow("key", -1), "too long": slow("key", time.Hour+1), "held": held, "leased": leased,
			"a window": waiting(claim("key", "5/d;fixed-window", 1), second), "a ban": waiting(claim("key", "5/h;ban=1h", 1), second),
		} {
			expect.ErrorIs(s, expect.ErrorOf(s.store.Take(context.Background(), []core.Claim{c}, nil)), core.ErrInvalid, "%s: error (one that is ErrInvalid)", why)
		}
	}},
}
