package storetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/core"
)

const (
	goroutines = 50
	rounds     = 4
	rate       = 70 // less than goroutines times rounds
)

var concurrencyRows = []row{
	{"of many concurrent requests of a key, exactly the limit is admitted", func(s *suite) {
		for _, limit := range []string{"70/d", "70/1000d;fixed-window", "70/d;sliding-window", "70/d;sliding-log"} {
			if n := s.storm(func() []core.Claim { return []core.Claim{claim(limit, limit, 1)} }); n != rate {
				s.Errorf("%s: %d admitted", limit, n)
			}
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
		if r := s.take(peek(all[1]))[0]; r.Remaining != rate-n {
			s.Errorf("%d of %d remain after %d were admitted: the others were charged", r.Remaining, rate, n)
		}
	}},
	{"the same pair twice is admitted as the sum, in any order", func(s *suite) {
		same, other := claim("same", "70/d", 1), claim("other", "100000/d", 1)
		n := s.storm(func() []core.Claim {
			some := []core.Claim{same, other, same}
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return some
		})
		if n != rate/2 {
			s.Errorf("%d admitted", n)
		}
	}},
	{"concurrent takes and refunds leave nothing charged", func(s *suite) {
		claims := []core.Claim{claim("key", "1000/1000d;fixed-window, 1000/d;sliding-window, 1000/d;sliding-log", 3)}
		s.each(func() {
			results, err := s.store.Take(context.Background(), claims, nil)
			if err == nil {
				err = s.store.Settle(context.Background(), settled(claims, results))
			}
			if err != nil {
				s.Error(err)
			}
		})
		s.expect(words("yes 1000", "yes 1000", "yes 1000"), peek(claims[0]))
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
