package main

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
)

func serverRows() []*row {
	return []*row{{
		name: "Redis, processor time of the server", unit: unit{columns: []string{"server µs/decision", "decisions/s", "p99 µs"}}, open: openServerTime,
		bounds: []bound{toBest(0.6)},
		task:   "256 callers over 10000 keys: how much of its one core the server takes for a decision.",
	}}
}

func openServerTime(e *env, f *setup) error {
	all := slices.DeleteFunc(slices.Clone(redisStores), func(s stored) bool { return s.role == note })
	return e.openStored(f, all, plenty, func(s *peers.Store, c *redis.Client) func() (sample, error) {
		return metered(e.load(s, 256, uniform(redisKeys), admitted, counted(throughput)), serverTime(c))
	})
}
