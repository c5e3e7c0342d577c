package main

import (
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// held is the name of a contestant that settles after the response.
const held = "spillgate, held until the response has ended"

// waits is a contestant whose requests may wait for their turn.
const waits = "spillgate, MaxWait"

const (
	doesNothing = "spillgate, an observer that does nothing"
	measured    = "spillgate, telemetry"
)

// telemetryRows measure package telemetry as the observer of a limiter.
func telemetryRows() []*row {
	const observed = "Limiter.Check, without an observer, with one that does nothing, and with package telemetry as one."
	return []*row{{
		name: "telemetry, allowed", unit: perDecision, task: observed,
		open: func(e *env, f *setup) error { return openTelemetry(e, f, large, admitted) },
		bounds: []bound{
			adds(doesNothing, spillgate, 60), addsAllocs(doesNothing, spillgate, 0), adds(measured, spillgate, 120), addsAllocs(measured, spillgate, 0),
		},
	}, {
		name: "telemetry, denied", unit: perDecision, task: observed,
		open:   func(e *env, f *setup) error { return openTelemetry(e, f, used, denied) },
		bounds: []bound{adds(measured, spillgate, 250), addsAllocs(measured, spillgate, 0)},
	}}
}

// aroundRows measure optional features of a program, beside the same work without them.
func aroundRows() []*row {
	return append(telemetryRows(), []*row{{
		name: "net/http, held", unit: perDecision,
		task:   "The middleware with a rule that counts failed requests only: it holds the cost and settles it after the response.",
		open:   openHeld,
		bounds: []bound{adds(held, spillgate, 2000), addsAllocs(held, spillgate, 4)},
	}, {
		name: "a rule with MaxWait", unit: perDecision,
		task:   "Limiter.Take, by a rule with MaxWait and by one without. Nothing has to wait.",
		open:   openMaxWait,
		bounds: []bound{adds(waits, spillgate, 100), addsAllocs(waits, spillgate, 0)},
	}, {
		name: "rules with routes", unit: perDecision,
		task: "Limiter.Check of a request that is of one route, with a rule for each route.",
		open: openRoutes,
		bounds: []bound{
			adds("1,000 rules with routes", "one rule for all routes", 400), adds("1,000 rules of a file", "one rule for all routes", 400),
		},
	}, {
		name: "rulefile, a file of 1,000 rules", unit: unit{columns: []string{"ns/file", "allocs", "bytes"}},
		task: "rulefile.Parse of a file in which each rule has a route, a key and two limits.",
		open: func(e *env, f *setup) error {
			f.addLater(spillgate, ours, func() measure {
				return e.decisions(repeat(peers.Parse(peers.RuleFile(e.scale(1000)))), admitted)
			})
			return nil
		},
		bounds: []bound{valueBelow(200e6)},
	}, {
		name: "client, a request that need not wait", unit: unit{columns: []string{"ns/request", "allocs", "bytes"}},
		task:   "A request to a server that announces a limit which is far away, and answers from memory.",
		open:   openClient,
		bounds: []bound{adds("client.Transport", "without", 1000), addsAllocs("client.Transport", "without", 2)},
	}}...)
}

func openTelemetry(e *env, f *setup, l peers.Limit, want decision) error {
	for _, c := range []struct {
		name string
		role role
		open func(peers.Limit) func() bool
	}{{spillgate, ours, peers.Unrouted}, {doesNothing, ours, peers.Observed}, {measured, ours, peers.Counted}} {
		f.addLater(c.name, c.role, func() measure {
			check := c.open(l)
			for range l.Rate {
				if want == admitted || !check() {
					break
				}
			}
			return e.decisions(repeat(check), want)
		})
	}
	return nil
}

func openHeld(e *env, f *setup) error {
	return openHTTP(e, f, []served{
		{spillgate, ours, asServed(behind(peers.SpillgateHTTP))},
		{held, ours, asServed(behind(peers.HeldHTTP))},
		{"spillgate, requests at once", ours, asServed(behind(peers.AtOnceHTTP))},
	}, large, admitted)
}

func openMaxWait(e *env, f *setup) error {
	keys := workloads[0].sequence(e, 1)
	for _, c := range []contestant{{ours, peers.SpillgateLimiter}, {ours, peers.MaxWait}} {
		f.addLater(c.name(), c.role, func() measure {
			store := c.open(peers.Limit{Rate: large.Rate, Period: time.Minute})
			return e.decisions(overKeys(store.Worker(), keys), admitted)
		})
	}
	return nil
}

func openRoutes(e *env, f *setup) error {
	add := func(name string, r role, open func() func() bool) {
		f.addLater(name, r, func() measure { return e.decisions(repeat(open()), admitted) })
	}
	add("one rule for all routes", note, func() func() bool { return peers.Unrouted(large) })
	add("10 rules with routes", ours, func() func() bool { return peers.Routed(large, 10) })
	add("1,000 rules with routes", ours, func() func() bool { return peers.Routed(large, 1000) })
	add("1,000 rules of a file", ours, func() func() bool { return peers.FromFile(1000) })
	return nil
}

func openClient(e *env, f *setup) error {
	f.add("client.Transport", ours, e.decisions(repeat(peers.RoundTrip(true)), admitted))
	f.add("without", baseline, e.decisions(repeat(peers.RoundTrip(false)), admitted))
	return nil
}

// repeat returns a loop that calls do, which reports success.
func repeat(do func() bool) loop {
	return func(n int) (succeeded int) {
		for range n {
			if do() {
				succeeded++
			}
		}
		return succeeded
	}
}
