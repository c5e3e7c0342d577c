package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
)

// plenty is a limit that no row about Redis exhausts. Lua counts in floating point, so a limit of ten digits is too much.
var plenty = peers.Limit{Rate: 1_000_000, Period: time.Hour}

// redisKeys is how many keys the callers draw from, uniformly.
const redisKeys = 10_000

// The names of contestants that bounds refer to.
const (
	redisRate = "redis_rate"
	ulule     = "ulule"
)

// scarce is a limit that the first request uses up.
var scarce = peers.Limit{Rate: 1, Period: time.Hour}

// inRedis opens a store with a client of Redis.
type inRedis = func(peers.Limit, redis.UniversalClient) *peers.Store

// A stored is a contestant of a row about Redis.
type stored struct {
	name string
	role role
	open inRedis
}

// openStored adds contestants with limit l. Each has a client of its own, all with the same options.
func (e *env) openStored(f *setup, all []stored, l peers.Limit, measure func(*peers.Store, *redis.Client) func() (sample, error)) error {
	for _, s := range all {
		client, err := e.client(f)
		if err != nil {
			return err
		}
		f.add(s.name, s.role, measure(s.open(l, client), client))
	}
	return nil
}

// redisStores lists the contestants of most rows about Redis.
var redisStores = []stored{
	{spillgate, ours, peers.SpillgateRedis},
	{redisRate, peer, peers.RedisRate},
	{ulule, peer, peers.UluleRedis},
	{"httprate-redis", peer, peers.HTTPRateRedis},
	{"INCR", baseline, peers.Incr},
}

func redisRows() []*row {
	return []*row{
		callersRow(64), callersRow(256), callersRow(1024),
		{
			name: "Redis, one caller", unit: latency,
			task:   "The time from call to answer when nobody else calls.",
			open:   func(e *env, f *setup) error { return openRedis(e, f, 1, typical) },
			bounds: []bound{atMost(spillgate, redisRate, 1.1)},
		}, {
			name: "Redis, one caller with a default client", unit: latency, open: openDefaultClient,
			task: "A client that does not end calls at the deadline of their contexts, beside one that does. Each call needs a goroutine then.",
		}, {
			name: "Redis, three limits on each of two identities", unit: perSecond, open: openRedisMany,
			task:  "Six limits in one decision by 64 callers. The peers make six calls.",
			since: since{spillgate, 0.9},
		}, {
			name: "Redis, held requests", unit: perSecond, open: openRedisHeld,
			task:  "64 callers hold the cost of a request and settle it at its end, beside callers that charge it at once.",
			since: since{"spillgate, held and settled", 0.85},
		}, {
			name: "Redis, a denied key with the deny cache", unit: perSecond, open: openDenyCache,
			task:   "64 callers ask for one key that is denied.",
			bounds: []bound{atLeast(spillgate, "spillgate, no deny cache", 1.25)},
		},
	}
}

func callersRow(callers int) *row {
	return &row{
		name: fmt.Sprintf("Redis, %d callers", callers), unit: perSecond,
		task:   fmt.Sprintf("One claim of a token bucket by %d callers on one client, over %d keys.", callers, redisKeys),
		open:   func(e *env, f *setup) error { return openRedis(e, f, callers, throughput) },
		bounds: []bound{tailBelow(redisRate), tailBelow(ulule)}, since: since{spillgate, 0.95},
	}
}

func openRedis(e *env, f *setup, callers int, read reading) error {
	return e.openStored(f, redisStores, plenty, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		return e.load(s, callers, uniform(redisKeys), admitted, read)
	})
}

func openDefaultClient(e *env, f *setup) error {
	byDefault := func(l peers.Limit, c redis.UniversalClient) *peers.Store {
		o := *c.(*redis.Client).Options()
		o.ContextTimeoutEnabled = false
		client := redis.NewClient(&o)
		f.onClose(func() { _ = client.Close() })
		return peers.SpillgateRedis(l, client)
	}
	all := []stored{{spillgate, ours, peers.SpillgateRedis}, {"spillgate, default client", ours, byDefault}}
	return e.openStored(f, all, plenty, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		return e.load(s, 1, uniform(redisKeys), admitted, typical)
	})
}

// client returns a client of an empty server, to be closed with f.
func (e *env) client(f *setup) (*redis.Client, error) {
	s, err := e.redis()
	if err != nil {
		return nil, err
	}
	c := s.client()
	f.onClose(func() { _ = c.Close() })
	if len(f.entries) == 0 {
		err = c.FlushAll(context.Background()).Err()
	}
	return c, err
}

func openRedisHeld(e *env, f *setup) error {
	all := []stored{{spillgate, ours, peers.SpillgateRedis}, {"spillgate, held and settled", ours, peers.HeldRedis}}
	return e.openStored(f, all, plenty, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		return e.load(s, manyCallers, uniform(redisKeys), admitted, throughput)
	})
}

// manyCallers is how many callers the rows have that do not vary it.
const manyCallers = 64

func openRedisMany(e *env, f *setup) error {
	limits := []peers.Limit{plenty, {Rate: plenty.Rate, Period: time.Minute}, {Rate: plenty.Rate, Period: time.Second}}
	all := []stored{{spillgate, ours, func(_ peers.Limit, c redis.UniversalClient) *peers.Store { return peers.SpillgateRedisMany(limits, c) }}}
	for _, s := range redisStores {
		if s.role == peer {
			all = append(all, stored{s.name + ", six calls", peer, func(_ peers.Limit, c redis.UniversalClient) *peers.Store {
				return sixCalls(s.open, limits, c)
			}})
		}
	}
	return e.openStored(f, all, plenty, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		return e.load(s, manyCallers, uniform(redisKeys), admitted, throughput)
	})
}

// sixCalls returns a store that asks a peer for each of three limits of two identities.
func sixCalls(open inRedis, limits []peers.Limit, client redis.UniversalClient) *peers.Store {
	var stores []*peers.Store
	for _, l := range limits {
		stores = append(stores, open(l, client))
	}
	worker := func() peers.Take {
		var takes []peers.Take
		for i, s := range stores {
			take := s.Worker()
			for _, kind := range []string{"ip:", "user:"} {
				prefix := fmt.Sprintf("%s%d:", kind, i)
				takes = append(takes, func(key string) bool { return take(prefix + key) })
			}
		}
		return all(takes)
	}
	return &peers.Store{Name: stores[0].Name + ", six calls", Worker: worker}
}

func openDenyCache(e *env, f *setup) error {
	all := []stored{
		{spillgate, ours, peers.SpillgateRedis},
		{"spillgate, no deny cache", note, peers.SpillgateNoDenyCache},
		{redisRate, peer, peers.RedisRate},
		{ulule, peer, peers.UluleRedis},
	}
	return e.openStored(f, all, scarce, func(s *peers.Store, _ *redis.Client) func() (sample, error) {
		for _, key := range sequence(uniform(1), 2, 1) { // the first is admitted, the second is not
			s.Worker()(key)
		}
		return e.load(s, manyCallers, uniform(1), denied, throughput)
	})
}
