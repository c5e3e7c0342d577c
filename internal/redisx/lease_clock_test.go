package redisx_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// TestLeasesWhileTheClockOfTheServerSteps leases a key to three stores while the clock of their server steps forth and back. In the
// end the server has charged the admitted requests, and at most one more for each step.
func TestLeasesWhileTheClockOfTheServerSteps(t *testing.T) {
	for _, limit := range []string{"1000000/80000h", "1000000/1000d;fixed-window", "300/1000h"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			server, r := redistest.Start(t), rand.New(rand.NewPCG(18, 1))
			var stores []*redisx.Store
			for range 3 {
				stores = append(stores, redisx.New(server.Client(t), options))
			}
			claims := []core.Claim{{Rule: "rule", Key: "k", Limits: core.MustParseLimits(limit), Cost: 1, Lease: 30 * time.Millisecond}}
			used, steps := useWhileTheClockSteps(t, r, stores, claims)
			decisions := uint64(0)
			for _, s := range stores {
				redistest.Wait(t, "the leases to end", func() bool { return s.LeaseStats().Keys == 0 })
				decisions += s.LeaseStats().Decisions
			}
			claims[0].Peek, claims[0].Lease = true, 0
			charged := func() int { return claims[0].Limits[0].Capacity() - takeEither(t, stores[0], claims)[0].Remaining }
			for end := time.Now().Add(5 * time.Second); charged() > used+steps && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			if got := charged(); got < used-1 || got > used+steps {
				t.Errorf("%d were used and %d are charged", used, got)
			}
			if decisions == 0 {
				t.Error("no decision came from a lease")
			}
		})
	}
}

// useWhileTheClockSteps sends requests to stores for a second, while the clock of their server steps. It returns how many were
// admitted, and the number of steps.
func useWhileTheClockSteps(t *testing.T, r *rand.Rand, stores []*redisx.Store, claims []core.Claim) (used, steps int) {
	for begun := time.Now(); time.Since(begun) < time.Second; {
		if time.Since(begun) > time.Duration(steps)*50*time.Millisecond {
			steps++
			step := time.Duration(r.IntN(20_000)-10_000) * time.Millisecond
			for _, s := range stores {
				s.Shift(step)
			}
		}
		if allowed(takeEither(t, stores[r.IntN(3)], claims)) {
			used++
		}
	}
	return used, steps
}

// takeEither decides as a limiter does: locally, or by the server.
func takeEither(t *testing.T, s *redisx.Store, claims []core.Claim) []core.Result {
	t.Helper()
	if results, ok := s.TakeLocal(claims, nil); ok {
		return results
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	results, err := s.Take(ctx, claims, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestThousandsOfLeasesEndAtOnce leases many keys that are not asked for again: all is given back, in few calls.
func TestThousandsOfLeasesEndAtOnce(t *testing.T) {
	const keys, asked = 1000, 4
	s := redisx.New(redistest.Start(t).Client(t), options)
	claimsOf := func(i int, peek bool) []core.Claim {
		lease := 2 * time.Second
		if peek {
			lease = 0
		}
		return []core.Claim{{Rule: "rule", Key: fmt.Sprint("k", i), Limits: core.MustParseLimits("1000/1000h"), Lease: lease, Peek: peek}}
	}
	for range asked {
		for i := range keys {
			takeEither(t, s, claimsOf(i, false))
		}
	}
	most := s.LeaseStats().Keys
	redistest.Wait(t, "the leases to end", func() bool { return s.LeaseStats().Keys == 0 })
	if most < keys/2 {
		t.Errorf("%d keys were leased, want most of %d", most, keys)
	}
	for i := range keys {
		end := time.Now().Add(5 * time.Second)
		for takeEither(t, s, claimsOf(i, true))[0].Remaining != 1000-asked && time.Now().Before(end) {
			time.Sleep(20 * time.Millisecond)
		}
		if r := takeEither(t, s, claimsOf(i, true))[0]; r.Remaining != 1000-asked {
			t.Fatalf("key %d: %d remain, want %d", i, r.Remaining, 1000-asked)
		}
	}
}
