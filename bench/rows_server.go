package main

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
)

func serverRows() []*row {
	return []*row{{
		name: "Redis, processor time of the server", unit: unit{columns: []string{"server µs/decision", "decisions/s", "p99 µs"}}, open: openServerTime,
		bounds: []bound{toBest(0.6)}, since: since{spillgate, 1.05},
		task: "256 callers over 10000 keys: how much of its one core the server takes for a decision.",
	}}
}

func openServerTime(e *env, f *setup) error {
	return e.openStored(f, redisStores, plenty, func(s *peers.Store, c *redis.Client) func() (sample, error) {
		return metered(e.load(s, 256, uniform(redisKeys), admitted, counted(throughput)), serverTime(c))
	})
}
