package main

import (
	"sync"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// used is the limit of the rows about denials. Every client has used it up, and gets nothing back while a row runs.
var used = peers.Limit{Rate: 1000, Period: 100 * 24 * time.Hour}

// once is a limit that the first request uses up while a row runs.
var once = peers.Limit{Rate: 1, Period: used.Period}

// A served is a contestant of a row about HTTP: a router whose one route is behind a limit.
type served struct {
	name   string
	role   role
	router func(peers.Limit) peers.Router
}

func httpRows() []*row {
	return []*row{{
		name: "net/http, admitted", unit: perDecision, counted: true,
		task: "A limit of ten digits for each of 200 addresses; the middleware writes its library's headers. Spillgate also passes " +
			"its decision on in the context.",
		open: func(e *env, f *setup) error {
			return openHTTP(e, f, append(netHTTP(), netHTTPBaselines()...), large, admitted)
		},
		bounds: []bound{toBest(1.2), allocs(4), allocBytes(600)}, since: since{spillgate, 1.08},
	}, {
		name: "net/http, 100/m, admitted", unit: perDecision, counted: true, open: openHundredHTTP,
		task:   "A limit of 100 per minute for each address. The address changes when it has used up its limit.",
		bounds: []bound{toBest(1.2)},
	}, {
		name: "net/http, 100,000 addresses, admitted", unit: perDecision, gc: gcBetweenSlices,
		task:   "A limit of 1,000 for each of 100,000 addresses.",
		open:   func(e *env, f *setup) error { return openManyHTTP(e, f, used, admitted) },
		bounds: []bound{toBest(1.1)},
	}, {
		name: "net/http, denied", unit: perDecision, counted: true,
		task:   "Each of 200 addresses has used up its 1,000. The answer is problem+json from Spillgate, a line of text from the others.",
		open:   func(e *env, f *setup) error { return openHTTP(e, f, netHTTP(), used, denied) },
		bounds: []bound{toBest(1)}, since: since{spillgate, 1.08},
	}, {
		name: "net/http, 100,000 addresses, denied", unit: perDecision, gc: gcBetweenSlices,
		task:   "Each of 100,000 addresses has used up its single request.",
		open:   func(e *env, f *setup) error { return openManyHTTP(e, f, once, denied) },
		bounds: []bound{toBest(1)},
	}}
}

// openHundredHTTP adds middlewares that admit the whole limit of each address, one address after another.
func openHundredHTTP(e *env, f *setup) error {
	addrs := sync.OnceValue(func() []string { return addresses(ascending(), e.scale(sequenceLength), 1) })
	for _, s := range netHTTP() {
		f.addLater(s.name, s.role, func() measure {
			return e.decisions(inTurn(requests(s.router(hundred), 1).take, addrs(), hundred.Rate), admitted)
		})
	}
	return nil
}

// openManyHTTP adds middlewares that have seen each of 100,000 addresses once.
func openManyHTTP(e *env, f *setup, l peers.Limit, want decision) error {
	n := e.scale(100_000)
	order := sync.OnceValue(func() []string { return addresses(uniform(n), 8*n, 1) })
	for _, s := range netHTTP() {
		f.addLater(s.name, s.role, func() measure {
			take := requests(s.router(l), 1).take
			for _, addr := range addresses(ascending(), n, 1) {
				take(addr)
			}
			return e.decisions(overKeys(take, order()), want)
		})
	}
	return nil
}

func openHTTP(e *env, f *setup, all []served, l peers.Limit, want decision) error {
	for _, s := range all {
		f.addLater(s.name, s.role, func() measure {
			serve := requests(s.router(l), e.scale(clients))
			if want == denied && s.role != baseline {
				serve.exhaust(l.Rate)
			}
			return e.decisions(serve.loop, want)
		})
	}
	return nil
}

// netHTTP lists the middlewares for net/http.
func netHTTP() []served {
	list := []served{{spillgate, ours, behind(peers.SpillgateHTTP)}}
	for _, open := range peers.OverHTTP {
		list = append(list, served{open(large).Name, peer, behind(open)})
	}
	return list
}

func netHTTPBaselines() []served {
	return []served{
		{"bare net/http", baseline, func(peers.Limit) peers.Router { return peers.NetHTTP(nil) }},
		{"context", baseline, behind(func(peers.Limit) peers.Middleware { return peers.Context() })},
		{"five fields", baseline, behind(func(peers.Limit) peers.Middleware { return peers.Fields() })},
	}
}

// behind returns a bare handler behind the middleware that open returns.
func behind(open func(peers.Limit) peers.Middleware) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router {
		m := open(l)
		return peers.NetHTTP(&m)
	}
}
