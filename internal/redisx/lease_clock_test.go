package redisx_test

import (
	"context"
	"errors"
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
			redistest.Undisturbed(t, func() error { return chargesWhatWasUsed(t, core.MustParseLimits(limit)) })
		})
	}
}

// chargesWhatWasUsed returns an error if the charges of a new server are not those of the requests that leases decided.
func chargesWhatWasUsed(t *testing.T, limits []core.Limit) error {
	server, r := redistest.Start(t), rand.New(rand.NewPCG(18, 1))
	var stores []*redisx.Store
	for range 3 {
		stores = append(stores, redisx.New(server.Client(t), options))
	}
	claims := []core.Claim{{Rule: "rule", Key: "k", Limits: limits, Cost: 1, Lease: 30 * time.Millisecond}}
	used, steps := useWhileTheClockSteps(t, r, stores, claims)
	for _, s := range stores {
		redistest.Wait(t, "the leases to end", func() bool { return s.LeaseStats().Keys == 0 })
	}
	claims[0].Peek, claims[0].Lease = true, 0
	charged := func() int { return limits[0].Capacity() - takeEither(t, stores[0], claims)[0].Remaining }
	for i := 0; charged() > used+steps && i < 250; i++ { // the last calls give back
		time.Sleep(20 * time.Millisecond)
	}
	if got := charged(); got < used-1 || got > used+steps {
		return fmt.Errorf("%d were used and %d are charged", used, got)
	}
	if decisionsOf(stores) == 0 {
		return errors.New("no decision came from a lease")
	}
	return nil
}

// decisionsOf returns how many decisions of stores came from leases.
func decisionsOf(stores []*redisx.Store) (n uint64) {
	for _, s := range stores {
		n += s.LeaseStats().Decisions
	}
	return n
}

// useWhileTheClockSteps sends requests to stores for a second, and for longer if none was decided from a lease, while the clock of
// their server steps. It returns how many were admitted, and the number of steps.
func useWhileTheClockSteps(t *testing.T, r *rand.Rand, stores []*redisx.Store, claims []core.Claim) (used, steps int) {
	more := func(since time.Duration) bool {
		return since < time.Second || since < time.Minute && decisionsOf(stores) == 0
	}
	for begun := time.Now(); more(time.Since(begun)); {
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

// TestThousandsOfLeasesEndAtOnce leases many keys that are not asked for again: all is given back, in few calls. A machine that takes
// longer for them than a lease lives gets longer leases.
func TestThousandsOfLeasesEndAtOnce(t *testing.T) {
	const keys, asked = 1000, 4
	client := redistest.Start(t).Client(t)
	var s *redisx.Store
	claimsOf := func(i int, lease time.Duration, peek bool) []core.Claim {
		return []core.Claim{{Rule: "rule", Key: fmt.Sprint("k", i), Limits: core.MustParseLimits("1000/1000h"), Lease: lease, Peek: peek}}
	}
	most := 0
	for lease := 2 * time.Second; most < keys/2 && lease < time.Minute; lease *= 2 {
		flush(t, client)
		s = redisx.New(client, options)
		for range asked {
			for i := range keys {
				takeEither(t, s, claimsOf(i, lease, false))
			}
		}
		most = s.LeaseStats().Keys
		redistest.Wait(t, "the leases to end", func() bool { return s.LeaseStats().Keys == 0 })
	}
	if most < keys/2 {
		t.Errorf("%d keys were leased, want most of %d", most, keys)
	}
	for i := range keys {
		remain := func() int { return takeEither(t, s, claimsOf(i, 0, true))[0].Remaining }
		for end := time.Now().Add(time.Minute); remain() != 1000-asked && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		if n := remain(); n != 1000-asked {
			t.Fatalf("key %d: %d remain, want %d", i, n, 1000-asked)
		}
	}
}
