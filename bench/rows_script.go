package main

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// A shape is a set of rules that decide a request together.
type shape struct {
	name   string
	rules  []core.Rule
	bound  float64 // of the time in the script, against redis_rate
	served bool    // behind a server as well
}

// shapes lists the rules for scriptRows and socketRows. None of them denies anything while a row runs. A million per day is too
// much for a state in microseconds, so its bucket counts in coarser ticks. Each shape has its own rules, because Redis keeps the
// states of all limits of a rule and a key in one hash.
func shapes() []shape {
	const n = 1_000_000
	user := func(limits ...core.Limit) core.Rule {
		return core.Rule{Name: "user", Key: keyfunc.Header("X-User"), Limits: limits}
	}
	team := core.Rule{Name: "team", Key: keyfunc.Header("X-Team"), Limits: []core.Limit{core.PerMinute(n)}}
	minutes := core.PerHour(n).Using(core.SlidingWindow)
	minutes.Buckets = 60
	all := []shape{
		{"token bucket", []core.Rule{user(core.PerHour(n))}, 1, true},
		{"fixed window", []core.Rule{user(core.PerHour(n).Using(core.FixedWindow))}, 0.95, true},
		{"calendar window", []core.Rule{user(core.PerDay(n).In("Europe/Berlin"))}, 0.95, false},
		{"sliding window", []core.Rule{user(core.PerHour(n).Using(core.SlidingWindow))}, 1.3, false},
		{"sliding window of 60", []core.Rule{user(minutes)}, 2, false},
		{"sliding log", []core.Rule{user(core.PerSecond(100).Using(core.SlidingLog))}, 2, false},
		{"three buckets, two identities", []core.Rule{user(core.PerSecond(n), core.PerDay(n)), team}, 1.4, true},
		{"bucket and daily window", []core.Rule{user(core.PerSecond(n), core.PerDay(n).Using(core.FixedWindow))}, 1.3, false},
	}
	for i := range all {
		for j := range all[i].rules {
			all[i].rules[j].Name = fmt.Sprintf("%s%d", all[i].rules[j].Name, i)
		}
	}
	return all
}

func scriptRows() []*row {
	r := row{
		name: "Redis, one decision of one caller, time in the script",
		unit: unit{columns: []string{"µs in script", "client CPU µs", "p50 µs", "p99 µs"}},
		task: "What one decision costs while nobody else calls: the time that the server counts for scripts and functions, the " +
			"processor time of the client, and the instructions of the whole server. The peers decide one limit.",
		open: openScript, counted: true, count: countScript,
	}
	for _, s := range shapes() {
		r.bounds = append(r.bounds, atMost(s.name, redisRate, s.bound))
	}
	r.bounds = append(r.bounds, atMost("calendar window", "fixed window", 1.1), atMostIn("client CPU µs", "token bucket", redisRate, 1.2))
	r.counts = []bound{
		atMostIn(instructions, "token bucket", redisRate, 0.9), atMostIn(instructions, "fixed window", redisRate, 0.85),
		atMostIn(instructions, "three buckets, two identities", redisRate, 1.4),
	}
	return []*row{&r, {
		name: "Redis, one decision of one caller, costs that vary", unit: r.unit, open: openCosts,
		task:   "Such a decision of cost 1, and of costs of 1 to 100,000, which tokens of a language model or bytes of an upload are.",
		bounds: []bound{atMost("one bucket, varying costs", "one bucket", 1.2), atMost("three limits, varying costs", "three limits", 1.2)},
	}}
}

// openCosts opens the same rules for cost 1 and for costs that vary.
func openCosts(e *env, f *setup) error {
	const n = 100_000_000
	var all []stored
	for i, limits := range [][]core.Limit{{core.PerHour(n)}, {core.PerMinute(n), core.PerHour(n), core.PerDay(n).Using(core.FixedWindow)}} {
		for _, most := range []int{1, 100_000} {
			name := [...]string{"one bucket", "three limits"}[i]
			if most > 1 {
				name += ", varying costs"
			}
			rules := []core.Rule{{Name: fmt.Sprintf("costs%d-%d", i, most), Key: keyfunc.RemoteIP, Limits: limits}}
			all = append(all, stored{name, ours, func(_ peers.Limit, c redis.UniversalClient) *peers.Store {
				return peers.SpillgateRedisRules(rules, most, c)
			}})
		}
	}
	return e.openScripts(f, all)
}

// scripts lists the contestants of scriptRows.
func scripts() []stored {
	all := []stored{{redisRate, peer, peers.RedisRate}, {ulule, peer, peers.UluleRedis}}
	for _, s := range shapes() {
		all = append(all, stored{s.name, ours, func(_ peers.Limit, c redis.UniversalClient) *peers.Store {
			return peers.SpillgateRedisRules(s.rules, 1, c)
		}})
	}
	return all
}

// countScript counts the instructions that the server takes for a decision of the contestant called name.
func countScript(e *env, _ program, name string) (float64, error) {
	all := scripts()
	i := slices.IndexFunc(all, func(s stored) bool { return s.name == name })
	return e.inServer(all[i].open)
}

func openScript(e *env, f *setup) error { return e.openScripts(f, scripts()) }

// openScripts opens stores that one caller asks, by the server's time and the client's.
func (e *env) openScripts(f *setup, all []stored) error {
	return e.openStored(f, all, plenty, func(s *peers.Store, c *redis.Client) func() (sample, error) {
		return metered(e.load(s, 1, uniform(redisKeys), admitted, counted(typical)), scriptTime(c), own())
	})
}
