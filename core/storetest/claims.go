package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// allAlgorithms are five requests a day, by each algorithm.
var allAlgorithms = []string{"5/d", "5/1000d;fixed-window", "5/d;sliding-window", "5/d;sliding-log"}

const together = "5/d, 5/1000d;fixed-window, 5/d;sliding-window, 5/d;sliding-log"

var claimRows = []row{
	{"if one limit of a claim denies, the others charge nothing", func(s *suite) {
		for _, tight := range []string{"2/2d", "2/2000d;fixed-window", "2/2d;sliding-window", "2/2d;sliding-log"} {
			both := claim("key"+tight, tight+", "+together, 3)
			s.expect(words("no 2", "yes 5", "yes 5", "yes 5", "yes 5"), both)
			slices.Reverse(both.Limits)
			s.expect(words("yes 5", "yes 5", "yes 5", "yes 5", "no 2"), both)
			both.Cost = 2
			s.expect(words("yes 3", "yes 3", "yes 3", "yes 3", "yes 0"), both)
		}
	}},
	{"if one claim is denied, no other claim is charged, before or after it", func(s *suite) {
		a, b, c := claim("a", together, 2), claim("b", "1/d", 2), of("other", claim("c", together, 2))
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5", "no 1", "yes 5", "yes 5", "yes 5", "yes 5"), a, b, c)
		b.Cost = 1
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3", "yes 0", "yes 3", "yes 3", "yes 3", "yes 3"), a, b, c)
	}},
	{"denials do not prolong the wait", func(s *suite) {
		for _, limit := range allAlgorithms {
			s.take(claim(limit, limit, 5))
			first := s.take(claim(limit, limit, 1))[0].RetryAfter
			for range 20 {
				s.take(claim(limit, limit, 1))
			}
			if last := s.take(claim(limit, limit, 1))[0].RetryAfter; last > first {
				s.Errorf("%s: retry after %v at first, %v at last", limit, first, last)
			}
		}
	}},
	{"the same rule and key twice are decided and charged as their sum", func(s *suite) {
		for _, limit := range allAlgorithms {
			three, two := claim(limit, limit, 3), claim(limit, limit, 2)
			s.expect(words("no 5", "no 5"), three, three)
			s.expect(words("yes 0", "yes 0"), three, two)
			s.expect(words("no 0"), claim(limit, limit, 1))
		}
	}},
	{"the same pair twice need not be adjacent, and claims between them do not count", func(s *suite) {
		same, other := claim("same", "5/d", 2), claim("other", "5/d", 2)
		s.expect(words("yes 1", "yes 3", "yes 1"), same, other, same)
		s.expect(words("no 1", "yes 3", "no 1"), same, other, same)
		s.expect(words("yes 3"), peek(other))
	}},
	{"a peek decides for its cost and charges nothing", func(s *suite) {
		for _, limit := range allAlgorithms {
			c := claim(limit, limit, 3)
			s.expect(words("yes 5"), peek(c))
			s.expect(words("yes 2"), c)
			s.expect(words("no 2"), peek(c))
			s.expect(words("no 2"), peek(c))
		}
	}},
	{"a peek that is denied denies the request", func(s *suite) {
		s.expect(words("no 5", "yes 5"), peek(claim("a", "5/d", 6)), claim("b", "5/d", 1))
		s.expect(words("yes 5"), peek(claim("b", "5/d", 1)))
	}},
	{"a peek changes no other rate", func(s *suite) {
		s.take(claim("key", "7200/h", 7200))
		s.expect(words("no 0"), peek(claim("key", "1/h", 1)))
		s.advance(second)
		s.expect(words("yes 0"), claim("key", "7200/h", 2))
	}},
	{"the wait at a fast rate does not depend on denials at a slow rate", func(s *suite) {
		for _, tiers := range [][2]string{{"1/m", "100/m"}, {"1/m;burst=20", "100/m;burst=20"}} {
			slow, fast := claim(tiers[0], tiers[0], 1), claim(tiers[0], tiers[1], 1)
			full := fast
			full.Cost = fast.Limits[0].Capacity()
			s.take(full)
			s.expect(words("no 0"), slow)
			first := s.take(peek(fast))[0].RetryAfter
			if again := s.take(peek(fast))[0].RetryAfter; s.sure(fast.Limits[0]) && first <= 0 || first > 600*ms || again > first {
				s.Errorf("%s after %s: retry after %v, then %v, want 600ms at most", tiers[1], tiers[0], first, again)
			}
			s.wait(first)
			s.expect(words("yes 0"), fast)
		}
	}},
	{"a dry run is charged while it fits, and never denies", func(s *suite) {
		for _, limit := range allAlgorithms {
			dry, other := dryRun(claim(limit, limit, 3)), claim("other "+limit, limit, 1)
			s.expect(words("yes 2", "yes 4"), dry, other)
			s.expect(words("no 2", "yes 3"), dry, other)
			s.expect(words("no 2", "yes 2"), dry, other)
		}
	}},
	{"a dry run is charged all its limits or none", func(s *suite) {
		s.expect(words("no 2", "yes 5"), dryRun(claim("key", "2/d, 5/2d", 3)))
		s.expect(words("yes 0", "yes 3"), dryRun(claim("key", "2/d, 5/2d", 2)))
	}},
	{"a dry run is not charged for a request that is denied", func(s *suite) {
		s.expect(words("yes 5", "no 1"), dryRun(claim("dry", "5/d", 3)), claim("key", "1/d", 2))
		s.expect(words("no 1", "yes 5"), claim("key", "1/d", 2), dryRun(claim("dry", "5/d", 3)))
	}},
	{"a dry run does not take from an enforced claim of its key", func(s *suite) {
		c := claim("key", "5/d", 3)
		s.expect(words("no 2", "yes 2"), dryRun(c), c)
		s.expect(words("yes 0", "yes 0"), dryRun(claim("key", "5/d", 1)), claim("key", "5/d", 1))
	}},
	{"a request of many pairs holds something of each of them", func(s *suite) {
		var claims []core.Claim
		for i := range 64 {
			claims = append(claims, hold(claim(strconv.Itoa(i), "2/d", 1)))
		}
		for n := range 3 {
			for i, r := range s.take(claims...) {
				if r.Allowed != (n < 2) {
					s.Errorf("request %d, pair %d: %+v", n, i, r)
				}
			}
		}
	}},
	{"a request of several pairs and many limits is charged by each of them", func(s *suite) {
		var limits []string
		for i := range 10 {
			limits = append(limits, fmt.Sprintf("%d/%dd", 3+i, 1+i))
		}
		var claims []core.Claim
		for i := range 6 {
			claims = append(claims, claim(strconv.Itoa(i), strings.Join(limits, ", "), 1))
		}
		for n := range 4 {
			for i, r := range s.take(claims...) {
				if left := max(0, 2-n) + i%10; r.Remaining != left && s.sure(r.Limit) {
					s.Errorf("request %d, result %d: %+v, want %d remaining", n, i, r, left)
				}
			}
		}
	}},
	{"no claims give no results and no error", func(s *suite) {
		if results := s.take(); len(results) != 0 {
			s.Errorf("%d results", len(results))
		}
	}},
	{"results are appended", func(s *suite) {
		dst := make([]core.Result, 1, 8)
		dst[0].Rule = "kept"
		results, err := s.store.Take(context.Background(), []core.Claim{claim("key", "5/d, 7/2d", 1)}, dst)
		if err != nil || len(results) != 3 || results[0].Rule != "kept" || results[2].Remaining != 6 {
			s.Errorf("results are %+v, error %v", results, err)
		}
	}},
	{"an empty rule means the rule default", func(s *suite) {
		s.expect(words("yes 2"), of("", claim("key", "5/d", 3)))
		s.expect(words("no 2"), of("default", claim("key", "5/d", 3)))
	}},
	{"an invalid claim is ErrInvalid, and nothing is charged", func(s *suite) {
		good := claim("key", "5/d", 1)
		s.take(claim("bad", "1/d", 1)) // so that the store knows one of the limits
		for name, bad := range map[string]core.Claim{
			"no limits":            {Rule: "rule", Key: "bad"},
			"a negative cost":      claim("bad", "5/d", -1),
			"no period":            {Rule: "rule", Key: "bad", Limits: []core.Limit{{Rate: 1}}},
			"a negative rate":      {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(-1)}},
			"an unknown algorithm": {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(1).Using(99)}},
			"a known, wrong limit": {Rule: "rule", Key: "bad", Limits: []core.Limit{{Rate: -1, Period: 24 * time.Hour}}},
			"the same limit twice": {Rule: "rule", Key: "bad", Limits: []core.Limit{core.PerDay(1), core.PerDay(2)}},
		} {
			_, err := s.store.Take(context.Background(), []core.Claim{good, bad}, nil)
			if !errors.Is(err, core.ErrInvalid) {
				s.Errorf("%s: error %v, want one that is ErrInvalid", name, err)
			}
		}
		s.expect(words("yes 4"), good)
	}},
	{"decisions are made now, by a clock that does not go back", func(s *suite) {
		for range 100 {
			if off := time.Since(s.take(claim("key", "5/d", 1))[0].At).Abs(); off > 2*minute {
				s.Fatalf("decided %v from now", off)
			}
		}
	}},
	{"a strict rate admits no more if a lax rate is asked in between", func(s *suite) {
		strict, lax := claim("key", "10/s", 1), claim("key", "100/s", 1)
		first, admitted := s.take(strict)[0], 1
		for range 20 {
			for range 5 {
				r := s.take(strict)[0]
				if r.Allowed {
					admitted++
				}
				if passed := r.At.Sub(first.At); float64(admitted) > 10+10*passed.Seconds() {
					s.Errorf("%d requests in %v at 10/s", admitted, passed)
					return
				}
			}
			for range 4 {
				s.take(lax)
				s.advance(25 * ms)
			}
		}
	}},
}
