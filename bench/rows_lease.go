package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core/redisstore"
)

// farAway is a limit that callers with leases do not come near.
var farAway = peers.Limit{Rate: 20_000_000, Period: time.Second}

// length is Rule.Lease in these rows.
const length = 100 * time.Millisecond

// unleased is the entry that asks Redis for each decision.
const unleased = "spillgate, no lease"

func leaseRows() []*row {
	one := func() mix { return uniform(1) }
	byZipf := func() mix { return zipf(1.1, 10_000) }
	once := func() mix { return uniform(10_000_000) }
	toUnleased := func(factor float64, more ...bound) []bound {
		return append(more, atLeast(spillgate, unleased, factor))
	}
	earlier := since{spillgate, 0.8}
	return []*row{
		{
			name: "a lease, one key", unit: perSecond, since: earlier, bounds: toUnleased(8, tailBelow(unleased)),
			task: "64 callers ask for one key far from its limit. Spillgate leases it for 100 ms.",
			open: func(e *env, f *setup) error { return openLeased(e, f, manyCallers, one, throughput) },
		}, {
			name: "a lease, one key, one caller", unit: latency, since: since{spillgate, 1.25}, bounds: []bound{valueBelow(3), tailBelow(unleased)},
			task: "The time from call to answer when nobody else calls.",
			open: func(e *env, f *setup) error { return openLeased(e, f, 1, one, typical) },
		}, {
			name: "leases, 10,000 keys by Zipf", unit: perSecond, since: earlier, bounds: toUnleased(2),
			task: "64 callers draw from 10,000 keys, with s = 1.1.",
			open: func(e *env, f *setup) error { return openLeased(e, f, manyCallers, byZipf, throughput) },
		}, {
			name: "leases, keys asked for once", unit: perSecond, since: earlier, bounds: toUnleased(0.95),
			task: "64 callers draw from 10,000,000 keys: hardly any is asked for twice in a lease.",
			open: func(e *env, f *setup) error { return openLeased(e, f, manyCallers, once, throughput) },
		}, {
			name: "a lease, a key over its limit", unit: latency, bounds: []bound{atMost(spillgate, unleased, 1.25)}, open: openUsedUp,
			task: "64 callers ask for one key whose limit is used up, without the deny cache.",
		},
	}
}

// openUsedUp opens a limiter that has leased a key until its limit was used up, and beside it the same without leases.
func openUsedUp(e *env, f *setup) error {
	limit := peers.Limit{Rate: 1000, Period: 24 * time.Hour}
	all := []stored{
		{spillgate, ours, func(l peers.Limit, c redis.UniversalClient) *peers.Store {
			return peers.SpillgateLeasing(l, length, c, redisstore.WithDenyCache(0))
		}},
		{unleased, note, peers.SpillgateNoDenyCache},
	}
	return e.openStored(f, all, limit, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		take, key := s.Worker(), sequence(uniform(1), 1, 1)[0]
		for take(key) {
		}
		return e.load(s, manyCallers, uniform(1), denied, typical)
	})
}

// openLeased opens a limiter that leases, and beside it the same without leases, the same in memory and the peers.
func openLeased(e *env, f *setup, callers int, draw func() mix, read reading) error {
	all := []stored{
		{spillgate, ours, func(l peers.Limit, c redis.UniversalClient) *peers.Store { return peers.SpillgateLeasing(l, length, c) }},
		{unleased, note, peers.SpillgateRedis},
		{"spillgate in memory", note, func(l peers.Limit, _ redis.UniversalClient) *peers.Store { return peers.SpillgateLimiter(l) }},
		{redisRate, peer, peers.RedisRate},
	}
	return e.openStored(f, all, farAway, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		return second(e.load(s, callers, draw(), admitted, read))
	})
}

// second returns a measure that measures twice and returns the second result: the leases of this entry have ended
// during the slices of the others.
func second(measure func() (sample, error)) func() (sample, error) {
	return func() (sample, error) {
		if s, err := measure(); err != nil {
			return s, err
		}
		return measure()
	}
}
