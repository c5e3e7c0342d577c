package main

import (
	"sync"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
)

// large is a limit of ten digits. It refills so slowly that the number of remaining requests differs from response to
// response.
var large = peers.Limit{Rate: 1_000_000_000, Period: 100 * 24 * time.Hour}

// hundred is a limit as many users have it. A key uses it up in a hundred requests.
var hundred = peers.Limit{Rate: 100, Period: time.Minute}

// The names of contestants that bounds refer to.
const (
	throttled     = "throttled"
	throttledOnce = "throttled, one decision"
)

// takers lists the contestants of the rows about deciding in memory.
func takers() []contestant {
	list := []contestant{{ours, peers.SpillgateLimiter}}
	for _, open := range peers.InMemory {
		list = append(list, contestant{peer, open})
	}
	return list
}

func takeRows() []*row {
	const task = "One claim of a token bucket of ten digits."
	hot, many := workloads[0], workloads[1]
	return []*row{{
		name: "Limiter.Take, one hot key", unit: perDecision, task: task, counted: true,
		open:   func(e *env, f *setup) error { return hot.serial(e, f, takers(), large) },
		bounds: []bound{allocs(0), atMost(spillgate, throttled, 1.3)}, since: since{spillgate, 1.35},
	}, {
		name: "Limiter.Take, 100/m, hot key", unit: perDecision, counted: true, open: openHundred,
		task:   "One claim of a token bucket of 100 per minute. The key changes when it has used up its limit.",
		bounds: []bound{atMost(spillgate, throttled, 1.3)},
	}, {
		name: "Limiter.Take, 100,000 keys", unit: perDecision, task: task, gc: gcBetweenSlices,
		open:   func(e *env, f *setup) error { return many.serial(e, f, takers(), large) },
		bounds: []bound{allocs(0), atMost(spillgate, throttled, 1)},
	}, {
		name: "Limiter.Take in parallel, one hot key", unit: perDecision,
		task: "The same from one goroutine per core; the time is the whole run's, divided by the number of decisions.",
		open: func(e *env, f *setup) error { return hot.parallel(e, f, takers(), large) },
	}, {
		name: "Limiter.Take, three limits on each of two keys", unit: perDecision, counted: true, open: openTakeMany,
		task:   "Six limits in one decision. The peers take six decisions.",
		bounds: []bound{atMost(spillgate, throttledOnce, 8)}, since: since{spillgate, 0.65},
	}, {
		name: "Limiter.Take, a calendar window", unit: perDecision, task: "One claim of a day in Berlin, beside 24 hours.", open: openCalendar,
		bounds: []bound{atMost("calendar window", "fixed window", 1.1), addsAllocs("calendar window", "fixed window", 0)},
	}}
}

// openHundred adds contestants that admit the whole limit of each key, one key after another.
func openHundred(e *env, f *setup) error {
	keys := sync.OnceValue(func() []string { return sequence(ascending(), e.scale(sequenceLength), 1) })
	for _, c := range takers() {
		f.addLater(c.name(), c.role, func() measure {
			s := c.open(hundred)
			f.onClose(s.Stop)
			return e.decisions(inTurn(s.Worker(), keys(), hundred.Rate), admitted)
		})
	}
	return nil
}

func openCalendar(e *env, f *setup) error {
	return workloads[0].serial(e, f, []contestant{
		{ours, func(peers.Limit) *peers.Store {
			return peers.SpillgateLimit("calendar window", core.PerDay(large.Rate).In("Europe/Berlin"))
		}},
		{note, func(peers.Limit) *peers.Store {
			return peers.SpillgateLimit("fixed window", core.PerDay(large.Rate).Using(core.FixedWindow))
		}},
	}, large)
}

func openTakeMany(e *env, f *setup) error {
	var limits []peers.Limit
	for _, period := range []time.Duration{large.Period, large.Period / 2, large.Period / 4} {
		limits = append(limits, peers.Limit{Rate: large.Rate, Period: period})
	}
	e.sixLimits(f, limits)
	return nil
}
