package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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
	{"denials do not prolong the wait", forEach(allAlgorithms, func(s *suite, limit string) {
		s.take(claim(limit, limit, 5))
		first := s.take(claim(limit, limit, 1))[0].RetryAfter
		for range 20 {
			s.take(claim(limit, limit, 1))
		}
		last := s.take(claim(limit, limit, 1))[0].RetryAfter
		expect.True(s, last <= first, "%s: retry after %v at first, %v at last", limit, first, last)
	})},
	{"the same rule and key twice are decided and charged as their sum", forEach(allAlgorithms, func(s *suite, limit string) {
		three, two := claim(limit, limit, 3), claim(limit, limit, 2)
		s.expect(words("no 5", "no 5"), three, three)
		s.expect(words("yes 0", "yes 0"), three, two)
		s.expect(words("no 0"), claim(limit, limit, 1))
	})},
	{"the same pair twice need not be adjacent, and claims between them do not count", func(s *suite) {
		same, other := claim("same", "5/d", 2), claim("other", "5/d", 2)
		s.expect(words("yes 1", "yes 3", "yes 1"), same, other, same)
		s.expect(words("no 1", "yes 3", "no 1"), same, other, same)
		s.expect(words("yes 3"), peek(other))
	}},
	{"a peek decides for its cost and charges nothing", forEach(allAlgorithms, func(s *suite, limit string) {
		c := claim(limit, limit, 3)
		s.expect(words("yes 5"), peek(c))
		s.expect(words("yes 2"), c)
		s.expect(words("no 2"), peek(c))
		s.expect(words("no 2"), peek(c))
	})},
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
	{"a dry run is charged while it fits, and never denies", forEach(allAlgorithms, func(s *suite, limit string) {
		dry, other := dryRun(claim(limit, limit, 3)), claim("other "+limit, limit, 1)
		s.expect(words("yes 2", "yes 4"), dry, other)
		s.expect(words("no 2", "yes 3"), dry, other)
		s.expect(words("no 2", "yes 2"), dry, other)
	})},
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
				expect.Equal(s, r.Allowed, n < 2, "request %d, pair %d: %+v", n, i, r)
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
	{"no claims give no results and no error", func(s *suite) { expect.Equal(s, len(s.take()), 0, "results") }},
	{"results are appended", func(s *suite) {
		dst := make([]core.Result, 1, 8)
		dst[0].Rule = "kept"
		results, err := s.store.Take(context.Background(), []core.Claim{claim("key", "5/d, 7/2d", 1)}, dst)
		expect.True(s, err == nil && len(results) == 3 && results[0].Rule == "kept" && results[2].Remaining == 6,
			"results are %+v, error %v", results, err)
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
			expect.ErrorIs(s, err, core.ErrInvalid, "%s: error (one that is ErrInvalid)", name)
		}
		s.expect(words("yes 4"), good)
	}},
	{"decisions are made now, by a clock that does not go back", func(s *suite) {
		for range 100 {
			off := time.Since(s.take(claim("key", "5/d", 1))[0].At).Abs()
			must.True(s, off <= 2*minute, "decided %v from now", off)
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

// pairs are rules and keys that an encoding may take for each other.
var pairs = []core.Claim{
	{Rule: "a", Key: "b:c"}, {Rule: "a:b", Key: "c"}, {Rule: "a", Key: "b:c:"}, {Rule: "a:", Key: "b:c"},
	{Rule: "a", Key: "b"}, {Rule: "b", Key: "a"}, {Rule: "ab", Key: "c"}, {Rule: "a", Key: "bc"},
	{Rule: "a", Key: "}"}, {Rule: "a", Key: "{"}, {Rule: "a", Key: "{}"}, {Rule: "a", Key: "}{"}, {Rule: "{a}", Key: "a"},
	{Rule: "a", Key: "\x00"}, {Rule: "a", Key: "\x00\x00"}, {Rule: "a", Key: "b\x00c"}, {Rule: "a", Key: "b\nc"},
	{Rule: "a", Key: "b\r\nc"}, {Rule: "a", Key: "b c"}, {Rule: "a", Key: " b"}, {Rule: "a", Key: "b "},
	{Rule: "a", Key: "é"}, {Rule: "a", Key: "e\u0301"}, {Rule: "a", Key: "É"}, {Rule: "a", Key: "\xe9"}, {Rule: "a", Key: "\xff"},
	{Rule: "a", Key: "日本"}, {Rule: "a", Key: "日本語"}, {Rule: "a", Key: "\\x00"}, {Rule: "a", Key: "%00"},
	{Rule: "a", Key: "*"}, {Rule: "a", Key: "?"}, {Rule: "a", Key: "a.1"}, {Rule: "a", Key: "a,1"}, {Rule: "a", Key: `"a"`},
	{Rule: "a", Key: "ip:127.0.0.1"}, {Rule: "a", Key: "user:127.0.0.1"}, {Rule: "a", Key: "127.0.0.1"},
	{Rule: "a", Key: "B"}, {Rule: "A", Key: "b"}, {Rule: "a", Key: strings.Repeat("x", 127)},
	{Rule: "a", Key: strings.Repeat("x", 128)}, {Rule: "a", Key: strings.Repeat("x", 129)}, {Rule: "a", Key: strings.Repeat("x", 128) + "y"},
	{Rule: "a", Key: strings.Repeat("x", 1<<20)}, {Rule: "a", Key: strings.Repeat("x", 1<<20-1) + "y"},
	{Rule: strings.Repeat("a", 200), Key: "b"}, {Rule: strings.Repeat("a", 201), Key: "b"},
}

var keyRows = []row{
	{"rules and keys of any bytes never share state", func(s *suite) {
		limits := core.MustParseLimits("1/d, 1/d;sliding-log")
		for _, c := range pairs {
			c.Limits = limits
			if r := s.take(c); !r[0].Allowed || !r[1].Allowed || r[0].Remaining != 0 {
				s.Errorf("rule %s, key %s has met another: %+v", short(c.Rule), short(c.Key), r)
			}
		}
		for _, c := range pairs {
			c.Limits = limits
			if r := s.take(c); r[0].Allowed || r[1].Allowed {
				s.Errorf("rule %s, key %s is not remembered: %+v", short(c.Rule), short(c.Key), r)
			}
		}
	}},
	{"a reset of one key never reaches another", func(s *suite) {
		limits := core.MustParseLimits("1/d, 1/d;sliding-log")
		for _, c := range pairs {
			c.Limits = limits
			s.take(c)
		}
		for i, c := range pairs[1:] {
			s.reset(pairs[i].Rule, pairs[i].Key)
			c.Limits = limits
			if r := s.take(peek(c)); r[0].Allowed || r[1].Allowed {
				s.Errorf("rule %s, key %s was forgotten with another: %+v", short(c.Rule), short(c.Key), r)
			}
		}
	}},
}

func short(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("%q.. of %d bytes", s[:20], len(s))
	}
	return fmt.Sprintf("%q", s)
}

const (
	goroutines = 50
	rounds     = 4
	rate       = 70 // less than goroutines times rounds
)

var concurrencyRows = []row{
	{"of many concurrent requests of a key, exactly the limit is admitted", func(s *suite) {
		for _, limit := range []string{"70/d", "70/1000d;fixed-window", "70/d;sliding-window", "70/d;sliding-log"} {
			n := s.storm(func() []core.Claim { return []core.Claim{claim(limit, limit, 1)} })
			expect.Equal(s, n, rate, "%s: admitted", limit)
		}
	}},
	{"claims in any order neither deadlock nor admit too many", func(s *suite) {
		var all []core.Claim
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			all = append(all, claim(key, "70/d", 1), of("other", claim(key, "70/d;sliding-log", 1)))
		}
		n := s.storm(func() []core.Claim {
			some := slices.Clone(all)
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return some
		})
		if n > rate || n < rate && !s.apart {
			s.Errorf("%d admitted", n)
		}
		expect.Equal(s, s.take(peek(all[1]))[0].Remaining, rate-n, "of %d remain after %d were admitted (the others were charged)", rate, n)
	}},
	{"the same pair twice is admitted as the sum, in any order", func(s *suite) {
		same, other := claim("same", "70/d", 1), claim("other", "100000/d", 1)
		n := s.storm(func() []core.Claim {
			some := []core.Claim{same, other, same}
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return some
		})
		expect.Equal(s, n, rate/2, "admitted")
	}},
	{"concurrent takes and refunds leave nothing charged", func(s *suite) {
		c := claim("key", "1000/1000d;fixed-window, 1000/d;sliding-window, 1000/d;sliding-log", 3)
		s.giveBack(c)
		s.expect(words("yes 1000", "yes 1000", "yes 1000"), peek(c))
	}},
}

// storm takes claims from many goroutines and returns how many requests were admitted.
func (s *suite) storm(claims func() []core.Claim) int {
	var admitted atomic.Int64
	s.each(func() {
		results, err := s.store.Take(context.Background(), claims(), nil)
		if err != nil {
			s.Error(err)
			return
		}
		if !slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed }) {
			admitted.Add(1)
		}
	})
	return int(admitted.Load())
}

// giveBack takes a claim from many goroutines, and settles it at 0 each time.
func (s *suite) giveBack(c core.Claim) {
	claims := []core.Claim{c}
	s.each(func() {
		results, err := s.store.Take(context.Background(), claims, nil)
		if err == nil {
			err = s.store.Settle(context.Background(), settled(claims, results))
		}
		expect.NoError(s, err, "unexpected error")
	})
}

// each calls f from many goroutines, several times from each, and waits for all.
func (s *suite) each(f func()) {
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				f()
			}
		})
	}
	wg.Wait()
}
